//! Column values as UTF-8 text.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::encoding;

/// How values of a column become text; looked up once, used for every row.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    /// text and varchar: the bytes as they are.
    Text,
    /// smallint, integer and bigint.
    Integer(IntegerSize),
    /// An array of text or varchar.
    TextArray,
    /// Anything else goes through the type's output function. `is_fixed` when that is what a cast to text gives too,
    /// whatever the session's settings.
    Output { function: pg_sys::Oid, is_fixed: bool },
}

/// Width of an integer column.
#[derive(Debug, Clone, Copy)]
pub enum IntegerSize {
    Two,
    Four,
    Eight,
}

impl Format {
    /// The format of a type; domains count as their base type.
    pub fn of(kind: pg_sys::Oid) -> Self {
        // SAFETY: syscache look-ups of an existing type.
        let base = unsafe { pg_sys::getBaseType(kind) };
        match base {
            pg_sys::TEXTOID | pg_sys::VARCHAROID => Self::Text,
            pg_sys::INT2OID => Self::Integer(IntegerSize::Two),
            pg_sys::INT4OID => Self::Integer(IntegerSize::Four),
            pg_sys::INT8OID => Self::Integer(IntegerSize::Eight),
            pg_sys::TEXTARRAYOID | pg_sys::VARCHARARRAYOID => Self::TextArray,
            _ => {
                let mut function = pg_sys::InvalidOid;
                let mut is_varlena = false;
                // SAFETY: out-parameters are valid; raises for a shell type, which no column can have.
                unsafe { pg_sys::getTypeOutputInfo(base, &mut function, &mut is_varlena) };
                Self::Output { function, is_fixed: base == pg_sys::UUIDOID }
            }
        }
    }

    /// Whether the value is one text that SQL would make of it as well.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Text | Self::Integer(_) | Self::Output { is_fixed: true, .. })
    }

    /// The integer in `datum`, when the column is one.
    pub fn integer(self, datum: pg_sys::Datum) -> Option<i64> {
        let Self::Integer(size) = self else { return None };
        // Datums carry integers in their low bits, sign-extended from their own width.
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are the value")]
        let value = match size {
            IntegerSize::Two => i64::from(datum.value() as i16),
            IntegerSize::Four => i64::from(datum.value() as i32),
            IntegerSize::Eight => datum.value() as i64,
        };
        Some(value)
    }

    /// Hands the value's text to `take`: once, or once an element for an array of text. NULL elements and text
    /// that is not valid in the database's encoding are left out.
    ///
    /// The caller resets the memory context now and then: detoasted copies stay in it.
    pub fn each_text(self, datum: pg_sys::Datum, take: &mut dyn FnMut(&str)) {
        match self {
            Self::Text => with_varlena(datum, take),
            Self::Integer(_) => {
                if let Some(value) = self.integer(datum) {
                    take(&value.to_string());
                }
            }
            Self::TextArray => each_element(datum, take),
            Self::Output { function, .. } => {
                // SAFETY: the function is the output function of the datum's type and returns a palloc'd C string.
                let text = unsafe { CStr::from_ptr(pg_sys::OidOutputFunctionCall(function, datum)) };
                encoding::with_utf8(text.to_bytes(), take);
            }
        }
    }
}

fn with_varlena(datum: pg_sys::Datum, take: &mut dyn FnMut(&str)) {
    // SAFETY: the datum is a varlena by its column's type; the detoasted form lives in the current context for the
    // duration of `take`.
    unsafe {
        let stored: *mut pg_sys::varlena = datum.cast_mut_ptr();
        // A call into the server costs more than the look whether it is needed.
        let is_plain = !pgrx::varlena::varatt_is_1b_e(stored) && !pgrx::varlena::varatt_is_4b_c(stored);
        let plain = if is_plain { stored } else { pg_sys::pg_detoast_datum_packed(stored) };
        let length = pgrx::varlena::varsize_any_exhdr(plain);
        let bytes = std::slice::from_raw_parts(pgrx::varlena::vardata_any(plain).cast::<u8>(), length);
        encoding::with_utf8(bytes, take);
    }
}

fn each_element(datum: pg_sys::Datum, take: &mut dyn FnMut(&str)) {
    let mut elements = std::ptr::null_mut();
    let mut nulls = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: the datum is an array of text by its column's type; deconstruct_array fills `count` elements. text is
    // a varlena (-1), passed by reference, aligned as int ('i').
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr());
        pg_sys::deconstruct_array(
            array.cast(),
            pg_sys::TEXTOID,
            -1,
            false,
            b'i' as std::ffi::c_char,
            &mut elements,
            &mut nulls,
            &mut count,
        );
        for index in 0..usize::try_from(count).unwrap_or_default() {
            if !*nulls.add(index) {
                with_varlena(*elements.add(index), take);
            }
        }
    }
}
