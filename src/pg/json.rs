//! Strings and other scalars of a jsonb value as texts, with URLs inside of them and names of members, read where it lies: a parser of JSON text has limits of depth and number that jsonb lacks.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::domain::embedded;

use super::encoding;

/// Longer strings name no object by themselves: keys have at most 1024 bytes.
const LONGEST: usize = 8192;

/// Collects strings: all of them, or those at any depth under members of a name.
struct Strings<'a> {
    member: Option<&'a str>,
    found: Vec<String>,
    /// Bytes that readings of URLs may still have, in all strings together.
    left: usize,
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
            encoding::with_utf8(bytes, &mut |text| {
                if text.len() <= LONGEST {
                    self.found.push(text.to_owned());
                }
                if embedded::may_hold_urls(text) {
                    let urls = embedded::urls_of_many(text, &mut self.left);
                    self.found.extend(urls.into_iter().filter(|url| url != text));
                }
            });
        }
    }

    /// A member's value is over: what follows is a key, or an element like it.
    fn done(&mut self) {
        self.next = self.counts.last().copied().unwrap_or(self.member.is_none());
    }
}

/// # Safety
/// `document` must be a jsonb value.
unsafe fn strings(document: pg_sys::Datum, member: Option<&str>) -> Vec<String> {
    let mut strings =
        Strings { member, found: Vec::new(), left: embedded::MOST_BYTES, counts: Vec::new(), next: member.is_none() };
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
    strings.found
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

/// Tells the server that the function below follows the version-1 calling convention.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_storage_reaper_strings() -> &'static pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// `strings(jsonb)` and `strings(jsonb, text)`; both are STRICT.
///
/// # Safety
/// Called by the server's function manager only.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn storage_reaper_strings(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the declarations give a jsonb and perhaps a text, neither NULL.
    unsafe {
        let arguments = (*call).args.as_slice(usize::try_from((*call).nargs).unwrap_or_default());
        let mut member = None;
        if let Some(argument) = arguments.get(1) {
            super::value::Format::Text.each_text(argument.value, &mut |text| member = Some(text.to_owned()));
        }
        let found = strings(arguments[0].value, member.as_deref());
        found.into_datum().unwrap_or(pg_sys::Datum::from(0_usize))
    }
}
