//! Bytes as text: one rule, both ways.
//!
//! A byte that is not part of UTF-8 text, a control character, a byte-order mark (which readers take
//! away where it comes first) and the backslash are written as `\xNN` (the backslash as `\\`),
//! everything else as it is; so what is shown, read back by the rule, is what was there. A tab stands as it is in a value, where rows have it between their
//! columns, and is escaped in a key, so that the first tab of a line ends the key.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::failure::Failure;

/// What is said of text that the rule cannot read back.
pub const HALF_AN_ESCAPE: &str = "a backslash is followed by neither xNN nor a backslash";

const BYTE_ORDER_MARK: char = '\u{feff}';

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
    json!(Bytes(bytes.into()))
}

/// The same, both ways.
#[derive(Debug, PartialEq, Eq)]
pub struct Bytes<'a>(pub Cow<'a, [u8]>);

/// How bytes stand in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Json<'a> {
    Text(Cow<'a, str>),
    Bytes { escaped: Cow<'a, str> },
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let json = match std::str::from_utf8(&self.0) {
            Ok(text) => Json::Text(text.into()),
            Err(_) => Json::Bytes { escaped: escape(&self.0, false).into() },
        };
        json.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Bytes<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = match Json::deserialize(from)? {
            Json::Text(text) => text.into_owned().into_bytes(),
            Json::Bytes { escaped } => {
                let bytes = unescape(escaped.as_bytes());
                bytes.ok_or_else(|| serde::de::Error::custom(HALF_AN_ESCAPE))?
            }
        };
        Ok(Bytes(bytes.into()))
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
        Failure::Usage(format!("in {shown:?} {HALF_AN_ESCAPE}"))
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
                c if c.is_control() || c == BYTE_ORDER_MARK => {
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
        let strange = "\u{feff}caf\u{e9} \u{85} \u{1f600}".as_bytes();
        for bytes in [&every_byte[..], b"", b"a\\xff", strange] {
            assert_eq!(unescape(key(bytes).as_bytes()).unwrap(), bytes);
            assert_eq!(unescape(value(bytes).as_bytes()).unwrap(), bytes);
            let json = serde_json::to_string(&Bytes(bytes.into())).unwrap();
            assert_eq!(serde_json::from_str::<Bytes<'_>>(&json).unwrap().0, bytes);
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
