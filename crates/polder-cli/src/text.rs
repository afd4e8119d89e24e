//! Bytes as text: one rule, both ways.
//!
//! A byte that is not part of UTF-8 text, a control character and the backslash are written as
//! `\xNN` (the backslash as `\\`), everything else as it is; so what is shown, read back by the
//! rule, is what was there. A tab stands as it is in a value, where rows have it between their
//! columns, and is escaped in a key, so that the first tab of a line ends the key.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::failure::Failure;

/// A key as text.
pub fn key(bytes: &[u8]) -> String {
    escape(bytes, false)
}

/// A value as text.
pub fn value(bytes: &[u8]) -> String {
    escape(bytes, true)
}

/// Bytes for programs: a string, or `{"escaped": ..}` if they are not UTF-8.
pub fn json(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "escaped": escape(bytes, false) }),
    }
}

/// What was typed as a key or a value, as bytes.
pub fn given(argument: &OsStr, escaped: bool) -> Result<Vec<u8>, Failure> {
    let bytes = argument.as_bytes();
    if !escaped {
        return Ok(bytes.to_vec());
    }
    unescape(bytes).ok_or_else(|| {
        let shown = argument.to_string_lossy();
        Failure::Usage(format!(
            "in {shown:?} a backslash is followed by neither xNN nor a backslash"
        ))
    })
}

fn escape(bytes: &[u8], tabs: bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    let hex = |out: &mut String, byte: u8| {
        // Writing to a string does not fail.
        let _ = write!(out, "\\x{byte:02x}");
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' if tabs => out.push(c),
                c if c.is_control() => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| hex(&mut out, byte));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| hex(&mut out, byte));
    }
    out
}

/// The bytes that `\xNN` and `\\` stand for; `None` if a backslash is followed by anything else.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Some(out),
            [b'\\', b'\\', rest @ ..] => {
                out.push(b'\\');
                rest
            }
            [b'\\', b'x', high, low, rest @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                out.push((digit(*high)? * 16 + digit(*low)?) as u8);
                rest
            }
            [b'\\', ..] => return None,
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for bytes in [&every_byte[..], b"", b"a\\xff", "caf\u{e9} \u{85} \u{1f600}".as_bytes()] {
            assert_eq!(unescape(key(bytes).as_bytes()).unwrap(), bytes);
            assert_eq!(unescape(value(bytes).as_bytes()).unwrap(), bytes);
        }
    }

    #[test]
    fn text_stays_as_it_is() {
        assert_eq!(key("Zürich".as_bytes()), "Zürich");
        assert_eq!(key(b"a\tb\n\xff\\"), r"a\x09b\x0a\xff\\");
        assert_eq!(value(b"a\tb"), "a\tb");
        assert_eq!(json(b"a\tb"), json!("a\tb"));
        assert_eq!(json(b"\xff"), json!({ "escaped": r"\xff" }));
    }

    #[test]
    fn half_an_escape_is_refused() {
        for wrong in [r"\", r"\x", r"\x4", r"\xg0", r"\n", r"a\ b"] {
            assert_eq!(unescape(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
