//! Unpacking, which trusts nothing.

use super::{
    HAS_OWNS, HAS_PARENTS, HAS_SHARES, INT_IDS, LARGEST, NO_IDS, RAW, RowIds, Segment, SegmentError, TEXT_IDS, ZSTD,
};

/// The opposite of `SegmentBuilder::finish`.
pub(super) fn unpack(packed: &[u8]) -> Result<Segment, SegmentError> {
    let (&version, content) = packed.split_first().ok_or(SegmentError::Short)?;
    match version {
        RAW => parse(content),
        ZSTD => {
            let size = zstd::zstd_safe::get_frame_content_size(content).ok().flatten();
            let size = size.and_then(|size| usize::try_from(size).ok()).ok_or(SegmentError::Compression)?;
            if size > LARGEST {
                return Err(SegmentError::TooLarge);
            }
            parse(&zstd::bulk::decompress(content, size).map_err(|_| SegmentError::Compression)?)
        }
        _ => Err(SegmentError::Version),
    }
}

fn parse(body: &[u8]) -> Result<Segment, SegmentError> {
    let mut at = 0;
    let count = number(body, &mut at).and_then(|count| usize::try_from(count).ok()).ok_or(SegmentError::Short)?;
    if count > Segment::MAX {
        return Err(SegmentError::TooLarge);
    }
    let kind = *body.get(at).ok_or(SegmentError::Short)?;
    let has = *body.get(at + 1).ok_or(SegmentError::Short)?;
    if has & !(HAS_OWNS | HAS_SHARES | HAS_PARENTS) != 0 {
        return Err(SegmentError::Version);
    }
    at += 2;
    let starts = numbers(body, &mut at, count)?;
    let ends = numbers(body, &mut at, count)?;
    let lengths = numbers(body, &mut at, count)?;
    let row_ids = match kind {
        NO_IDS => RowIds::None,
        INT_IDS => RowIds::Int(sums(&numbers(body, &mut at, count)?)),
        TEXT_IDS => {
            let lengths = numbers(body, &mut at, count)?;
            RowIds::Text(texts(body, &mut at, &lengths)?)
        }
        _ => return Err(SegmentError::Version),
    };
    let locators = locators(body, &mut at, &starts, &ends, &lengths)?;
    let owns = (has & HAS_OWNS != 0).then(|| column(body, &mut at, count)).transpose()?;
    let shares = (has & HAS_SHARES != 0).then(|| column(body, &mut at, count)).transpose()?;
    let parents = (has & HAS_PARENTS != 0).then(|| column(body, &mut at, count)).transpose()?;
    if at == body.len() {
        Ok(Segment { locators, row_ids, owns, shares, parents })
    } else {
        Err(SegmentError::Trailing)
    }
}

fn column(body: &[u8], at: &mut usize, count: usize) -> Result<Vec<String>, SegmentError> {
    let starts = numbers(body, at, count)?;
    let lengths = numbers(body, at, count)?;
    self::locators(body, at, &starts, &vec![0; count], &lengths)
}

fn numbers(body: &[u8], at: &mut usize, count: usize) -> Result<Vec<u64>, SegmentError> {
    (0..count).map(|_| number(body, at).ok_or(SegmentError::Short)).collect()
}

/// Each locator from what it shares with the one before and its own bytes.
fn locators(
    body: &[u8],
    at: &mut usize,
    starts: &[u64],
    ends: &[u64],
    lengths: &[u64],
) -> Result<Vec<String>, SegmentError> {
    let mut locators: Vec<String> = Vec::with_capacity(starts.len());
    let mut size = 0;
    for ((&start, &end), &length) in starts.iter().zip(ends).zip(lengths) {
        let last = locators.last().map_or(&[][..], String::as_bytes);
        let start = usize::try_from(start).ok().and_then(|start| last.get(..start)).ok_or(SegmentError::Short)?;
        let end = usize::try_from(end).ok().and_then(|end| last.len().checked_sub(end)).ok_or(SegmentError::Short)?;
        let own = take(body, at, length)?;
        let locator = [start, own, &last[end..]].concat();
        size += locator.len();
        if size > LARGEST {
            return Err(SegmentError::TooLarge);
        }
        locators.push(String::from_utf8(locator).map_err(|_| SegmentError::Utf8)?);
    }
    Ok(locators)
}

fn take<'a>(body: &'a [u8], at: &mut usize, length: u64) -> Result<&'a [u8], SegmentError> {
    let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length)).ok_or(SegmentError::Short)?;
    let bytes = body.get(*at..end).ok_or(SegmentError::Short)?;
    *at = end;
    Ok(bytes)
}

fn texts(body: &[u8], at: &mut usize, lengths: &[u64]) -> Result<Vec<String>, SegmentError> {
    let mut texts = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let bytes = take(body, at, length)?;
        texts.push(std::str::from_utf8(bytes).map_err(|_| SegmentError::Utf8)?.to_owned());
    }
    Ok(texts)
}

fn sums(deltas: &[u64]) -> Vec<i64> {
    let add = |sum: &mut i64, &delta: &u64| {
        *sum = sum.wrapping_add(unzigzag(delta));
        Some(*sum)
    };
    deltas.iter().scan(0, add).collect()
}

/// LEB128, at most ten bytes.
pub(super) fn number(body: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *body.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
