//! The order-preserving tuple codec: encoded tuples compare byte by byte as the tuples do.
//!
//! Each element is a type byte and its content; `docs/format.md` has the table.
//!
//! * `TUPLE-1` Elements of different types are ordered by type byte, in the order of the variants
//!   of [`Element`]: a signed and an unsigned number are never equal.
//! * `TUPLE-2` A tuple comes directly before the tuples that begin with it.
//! * `TUPLE-3` A tuple has one encoding: what decodes encodes to the same bytes again. NaN has no
//!   place in the order and is refused; -0.0 is written as 0.0.

/// The type bytes, as they lie on disk.
mod kind {
    pub(super) const NULL: u8 = 0x01;
    pub(super) const BYTES: u8 = 0x10;
    pub(super) const TEXT: u8 = 0x11;
    pub(super) const INT: u8 = 0x20;
    pub(super) const UINT: u8 = 0x21;
    pub(super) const FLOAT: u8 = 0x30;
    pub(super) const FALSE: u8 = 0x40;
    pub(super) const TRUE: u8 = 0x41;
}

/// Ends bytes and text. Less than whatever goes on, and no type byte.
const END: u8 = 0x00;
/// Behind a zero: the zero is content. No type byte, and so different from what follows an end.
const ESCAPED: u8 = 0xff;
/// The sign of a number, in its most significant bit.
const SIGN: u64 = 1 << 63;

/// Why a tuple could not be encoded, or bytes are not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TupleError {
    /// NaN has no place in the order.
    #[error("NaN is no element of a tuple: it has no place in the order")]
    NotANumber,
    /// The bytes end too early.
    #[error("the tuple is cut off: an element has {found} bytes where {expected} were expected")]
    Short {
        /// Bytes of the last element, but for its type.
        found: usize,
        /// How many there must be at least.
        expected: usize,
    },
    /// No element has this type byte.
    #[error("{found:#04x} is not the type of an element of a tuple")]
    Type {
        /// The byte.
        found: u8,
    },
    /// A text is not UTF-8.
    #[error("a text in a tuple is not UTF-8")]
    Text,
    /// Zero is encoded in another way.
    #[error("a zero in a tuple is negative")]
    NegativeZero,
}

/// An element of a tuple. The derived order is that of the encodings.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Element<'a> {
    /// Nothing; less than everything else.
    Null,
    /// Any bytes.
    Bytes(&'a [u8]),
    /// Text, in the order of its UTF-8 bytes, which is that of its code points.
    Text(&'a str),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating-point number, but NaN.
    Float(f64),
    /// False, then true.
    Bool(bool),
}

/// An element that has its bytes with it.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum OwnedElement {
    /// See [`Element::Null`].
    Null,
    /// See [`Element::Bytes`].
    Bytes(Vec<u8>),
    /// See [`Element::Text`].
    Text(String),
    /// See [`Element::Int`].
    Int(i64),
    /// See [`Element::Uint`].
    Uint(u64),
    /// See [`Element::Float`].
    Float(f64),
    /// See [`Element::Bool`].
    Bool(bool),
}

impl OwnedElement {
    /// The element, borrowed.
    ///
    /// ```
    /// # use polder_format::tuple::{Element, OwnedElement};
    /// assert_eq!(OwnedElement::Text("Delft".to_string()).as_element(), Element::Text("Delft"));
    /// ```
    pub fn as_element(&self) -> Element<'_> {
        match self {
            OwnedElement::Null => Element::Null,
            OwnedElement::Bytes(bytes) => Element::Bytes(bytes),
            OwnedElement::Text(text) => Element::Text(text),
            OwnedElement::Int(number) => Element::Int(*number),
            OwnedElement::Uint(number) => Element::Uint(*number),
            OwnedElement::Float(number) => Element::Float(*number),
            OwnedElement::Bool(truth) => Element::Bool(*truth),
        }
    }
}

/// Encodes a tuple.
///
/// ```
/// # use polder_format::tuple::{self, Element, decode, encode};
/// let key = |city, population| encode(&[Element::Text(city), Element::Int(population)]);
/// assert!(key("Delft", 9)? < key("Delft", 103_000)?);
/// assert!(key("Delft", 9)? < key("Delfzijl", -1)?);
/// assert_eq!(decode(&key("Delft", 9)?)?.len(), 2);
/// # Ok::<(), tuple::TupleError>(())
/// ```
///
/// # Errors
/// [`TupleError::NotANumber`].
pub fn encode(elements: &[Element<'_>]) -> Result<Vec<u8>, TupleError> {
    let mut encoder = Encoder::default();
    for &element in elements {
        encoder.push(element)?;
    }
    Ok(encoder.finish())
}

/// Encodes a tuple element by element; what is encoded so far is a prefix of all that may follow.
///
/// ```
/// # use polder_format::tuple::{self, Element, Encoder, encode};
/// let mut city = Encoder::default();
/// city.push(Element::Text("Delft"))?;
/// // The prefix of all keys of the city.
/// let prefix = city.clone().finish();
/// city.push(Element::Uint(2611))?;
/// assert!(city.finish().starts_with(&prefix));
/// assert!(!encode(&[Element::Text("Delftzijl")])?.starts_with(&prefix));
/// # Ok::<(), tuple::TupleError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Adds an element.
    ///
    /// # Errors
    /// [`TupleError::NotANumber`]. Nothing has been added then.
    pub fn push(&mut self, element: Element<'_>) -> Result<(), TupleError> {
        match element {
            Element::Null => self.bytes.push(kind::NULL),
            Element::Bytes(bytes) => self.terminated(kind::BYTES, bytes),
            Element::Text(text) => self.terminated(kind::TEXT, text.as_bytes()),
            Element::Int(number) => self.word(kind::INT, number.cast_unsigned() ^ SIGN),
            Element::Uint(number) => self.word(kind::UINT, number),
            Element::Float(number) => self.word(kind::FLOAT, order_of_float(number)?),
            Element::Bool(false) => self.bytes.push(kind::FALSE),
            Element::Bool(true) => self.bytes.push(kind::TRUE),
        }
        Ok(())
    }

    /// The encoded tuple: a key.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn terminated(&mut self, kind: u8, content: &[u8]) {
        self.bytes.reserve(content.len() + 2);
        self.bytes.push(kind);
        for &byte in content {
            self.bytes.push(byte);
            if byte == END {
                self.bytes.push(ESCAPED);
            }
        }
        self.bytes.push(END);
    }

    fn word(&mut self, kind: u8, word: u64) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&word.to_be_bytes());
    }
}

/// Decodes a tuple.
///
/// ```
/// # use polder_format::tuple::{self, Element, OwnedElement, decode, encode};
/// let key = encode(&[Element::Text("Delft"), Element::Uint(2611)])?;
/// let expected = [OwnedElement::Text("Delft".to_string()), OwnedElement::Uint(2611)];
/// assert_eq!(decode(&key)?, expected);
/// # Ok::<(), tuple::TupleError>(())
/// ```
///
/// # Errors
/// [`TupleError`] for all that [`encode`] would not have made.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<OwnedElement>, TupleError> {
    let mut elements = Vec::new();
    while let Some((&kind, content)) = bytes.split_first() {
        let (element, rest) = decode_one(kind, content)?;
        elements.push(element);
        bytes = rest;
    }
    Ok(elements)
}

/// An element of this kind at the beginning of `content`, and what follows it.
fn decode_one(kind: u8, content: &[u8]) -> Result<(OwnedElement, &[u8]), TupleError> {
    Ok(match kind {
        kind::NULL => (OwnedElement::Null, content),
        kind::FALSE => (OwnedElement::Bool(false), content),
        kind::TRUE => (OwnedElement::Bool(true), content),
        kind::BYTES => {
            let (bytes, rest) = split_terminated(content)?;
            (OwnedElement::Bytes(bytes), rest)
        }
        kind::TEXT => {
            let (bytes, rest) = split_terminated(content)?;
            let text = String::from_utf8(bytes).map_err(|_| TupleError::Text)?;
            (OwnedElement::Text(text), rest)
        }
        kind::INT => {
            let (word, rest) = split_word(content)?;
            (OwnedElement::Int((word ^ SIGN).cast_signed()), rest)
        }
        kind::UINT => {
            let (word, rest) = split_word(content)?;
            (OwnedElement::Uint(word), rest)
        }
        kind::FLOAT => {
            let (word, rest) = split_word(content)?;
            (OwnedElement::Float(float_of_order(word)?), rest)
        }
        _ => {
            return Err(TupleError::Type { found: kind });
        }
    })
}

fn split_terminated(content: &[u8]) -> Result<(Vec<u8>, &[u8]), TupleError> {
    let mut bytes = Vec::new();
    let mut rest = content;
    loop {
        let Some(zero) = rest.iter().position(|&byte| byte == END) else {
            return Err(short(content.len(), content.len() + 1));
        };
        bytes.extend_from_slice(&rest[..zero]);
        rest = &rest[zero + 1..];
        match rest.split_first() {
            Some((&ESCAPED, behind)) => {
                bytes.push(END);
                rest = behind;
            }
            _ => return Ok((bytes, rest)),
        }
    }
}

fn split_word(content: &[u8]) -> Result<(u64, &[u8]), TupleError> {
    match content.split_first_chunk() {
        Some((&word, rest)) => Ok((u64::from_be_bytes(word), rest)),
        None => Err(short(content.len(), 8)),
    }
}

/// A number that is ordered as the float is.
fn order_of_float(number: f64) -> Result<u64, TupleError> {
    let bits = if number == 0.0 { 0 } else { number.to_bits() }; // -0.0 too
    if number.is_nan() {
        return Err(TupleError::NotANumber);
    }
    Ok(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

fn float_of_order(word: u64) -> Result<f64, TupleError> {
    let bits = if word & SIGN == 0 { !word } else { word ^ SIGN };
    let number = f64::from_bits(bits);
    if number.is_nan() {
        return Err(TupleError::NotANumber);
    }
    if bits == SIGN {
        return Err(TupleError::NegativeZero);
    }
    Ok(number)
}

fn short(found: usize, expected: usize) -> TupleError {
    TupleError::Short { found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let tuple = [
            Element::Null,
            Element::Bytes(b"a\0b"),
            Element::Text("x"),
            Element::Int(-1),
            Element::Uint(258),
            Element::Float(1.0),
            Element::Float(-1.0),
            Element::Bool(false),
            Element::Bool(true),
        ];
        let expected: &[&[u8]] = &[
            b"\x01",
            b"\x10a\x00\xffb\x00",
            b"\x11x\x00",
            b"\x20\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"\x21\x00\x00\x00\x00\x00\x00\x01\x02",
            b"\x30\xbf\xf0\x00\x00\x00\x00\x00\x00",
            b"\x30\x40\x0f\xff\xff\xff\xff\xff\xff",
            b"\x40",
            b"\x41",
        ];
        assert_eq!(encode(&tuple).unwrap(), expected.concat());
    }

    #[test]
    fn zero_is_one_number_and_nan_is_none() {
        let float = |number| encode(&[Element::Float(number)]);
        assert_eq!(float(-0.0), float(0.0));
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
            assert!(matches!(float(nan), Err(TupleError::NotANumber)));
        }
        let mut encoder = Encoder::default();
        assert!(encoder.push(Element::Float(f64::NAN)).is_err());
        assert!(encoder.finish().is_empty());
    }

    #[test]
    fn what_encode_would_not_make_is_refused() {
        let float = |word: u64| [&[kind::FLOAT], &word.to_be_bytes()[..]].concat();
        for (bytes, what) in [
            (float(u64::MAX), "NaN"),
            (float(0), "negative NaN"),
            (float(SIGN - 1), "negative zero"),
            (vec![0], "no type"),
            (vec![0xff], "no type"),
            (b"\x11\xc3\x28\0".to_vec(), "not UTF-8"),
            (b"\x10abc".to_vec(), "no end"),
            (b"\x10abc\0\xff".to_vec(), "no end"),
            (vec![kind::INT, 1, 2, 3], "cut off"),
        ] {
            assert!(decode(&bytes).is_err(), "{what}");
        }
        assert_eq!(decode(&[]), Ok(vec![]));
    }
}
