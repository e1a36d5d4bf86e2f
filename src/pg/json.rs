//! Names of members, strings and other scalars of a jsonb value as texts, read where it lies: a parser of JSON text has limits of depth and number that jsonb lacks.

use pgrx::pg_sys;

use super::encoding;

/// Hands out texts: all of them, or those at any depth under members of a name.
struct Strings<'a> {
    member: Option<&'a str>,
    each: &'a mut dyn FnMut(&str),
    /// For each open array or object, whether its strings count.
    counts: Vec<bool>,
    /// Whether the value that comes next counts.
    next: bool,
}

impl Strings<'_> {
    fn open(&mut self) {
        self.counts.push(self.next);
    }

    fn close(&mut self) {
        self.counts.pop();
        self.next = self.counts.last().copied().unwrap_or(self.member.is_none());
    }

    fn key(&mut self, bytes: &[u8]) {
        let around = self.counts.last().copied().unwrap_or(false);
        let mut is_member = false;
        encoding::with_utf8(bytes, &mut |name| is_member = Some(name) == self.member);
        // A manifest has its files for names.
        self.next = around;
        self.value(bytes);
        self.next = around || is_member;
    }

    fn value(&mut self, bytes: &[u8]) {
        if self.next {
            encoding::with_utf8(bytes, self.each);
        }
    }

    /// A member's value is over: what follows is a key, or an element like it.
    fn done(&mut self) {
        self.next = self.counts.last().copied().unwrap_or(self.member.is_none());
    }
}

/// Hands each text of the document to `each`, or each under members of that name, at any depth.
///
/// # Safety
/// `document` must be a jsonb value.
pub unsafe fn each_text(document: pg_sys::Datum, member: Option<&str>, each: &mut dyn FnMut(&str)) {
    let mut strings = Strings { member, each, counts: Vec::new(), next: member.is_none() };
    // SAFETY: by contract; the iterator reads within the detoasted value and frees itself at its end.
    unsafe {
        let plain: *mut pg_sys::Jsonb = pg_sys::pg_detoast_datum(document.cast_mut_ptr()).cast();
        let mut iterator = pg_sys::JsonbIteratorInit(&raw mut (*plain).root);
        let mut value: pg_sys::JsonbValue = std::mem::zeroed();
        loop {
            match pg_sys::JsonbIteratorNext(&raw mut iterator, &raw mut value, false) {
                pg_sys::JsonbIteratorToken::WJB_DONE => break,
                pg_sys::JsonbIteratorToken::WJB_BEGIN_ARRAY | pg_sys::JsonbIteratorToken::WJB_BEGIN_OBJECT => {
                    strings.open();
                }
                pg_sys::JsonbIteratorToken::WJB_END_ARRAY | pg_sys::JsonbIteratorToken::WJB_END_OBJECT => {
                    strings.close();
                }
                pg_sys::JsonbIteratorToken::WJB_KEY => strings.key(bytes(&value)),
                _ => {
                    match value.type_ {
                        pg_sys::jbvType::jbvString => strings.value(bytes(&value)),
                        pg_sys::jbvType::jbvNumeric if strings.next => {
                            let output = pg_sys::Oid::from(pg_sys::F_NUMERIC_OUT);
                            let text = pg_sys::OidOutputFunctionCall(output, pg_sys::Datum::from(value.val.numeric));
                            strings.value(std::ffi::CStr::from_ptr(text).to_bytes());
                        }
                        pg_sys::jbvType::jbvBool => {
                            strings.value(if value.val.boolean { b"true" } else { b"false" });
                        }
                        _ => {}
                    }
                    strings.done();
                }
            }
        }
    }
}

/// # Safety
/// The value must be a string.
unsafe fn bytes(value: &pg_sys::JsonbValue) -> &[u8] {
    // SAFETY: by contract; a string has `len` bytes, and its pointer is valid or the length zero.
    unsafe {
        let string = value.val.string;
        match usize::try_from(string.len) {
            Ok(length) if length > 0 => std::slice::from_raw_parts(string.val.cast::<u8>(), length),
            _ => &[],
        }
    }
}
