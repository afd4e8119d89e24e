//! What the numbers of a vector are, and vectors of them.

use std::fmt;

use half::{bf16, f16};

/// A kind of numbers that vectors are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementKind {
    /// Of 4 bytes, [`f32`].
    F32,
    /// Of 2 bytes, [`half::f16`].
    F16,
    /// Of 2 bytes, [`half::bf16`].
    Bf16,
    /// Of 1 byte, [`i8`].
    I8,
    /// Of 1 bit: eight of them are a [`Bits`].
    Bit,
}

impl ElementKind {
    /// All of them.
    pub const ALL: [ElementKind; 5] =
        [ElementKind::F32, ElementKind::F16, ElementKind::Bf16, ElementKind::I8, ElementKind::Bit];

    /// How many bytes a vector of so many dimensions has.
    pub fn bytes(self, dimensions: usize) -> usize {
        match self {
            ElementKind::F32 => 4 * dimensions,
            ElementKind::F16 | ElementKind::Bf16 => 2 * dimensions,
            ElementKind::I8 => dimensions,
            ElementKind::Bit => dimensions.div_ceil(8),
        }
    }

    /// How many dimensions a vector of so many bytes has. `None` if the last number is cut off.
    pub(crate) fn dimensions(self, bytes: usize) -> Option<usize> {
        let of_one = self.bytes_of(1);
        let elements = bytes.is_multiple_of(of_one).then_some(bytes / of_one)?;
        if self == ElementKind::Bit { elements.checked_mul(8) } else { Some(elements) }
    }

    /// How many bytes so many [`Element`]s have; of bits, eight are one.
    pub(crate) fn bytes_of(self, elements: usize) -> usize {
        self.bytes(if self == ElementKind::Bit { 8 * elements } else { elements })
    }

    /// Its number in a page.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            ElementKind::F32 => 1,
            ElementKind::F16 => 2,
            ElementKind::Bf16 => 3,
            ElementKind::I8 => 4,
            ElementKind::Bit => 5,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<ElementKind> {
        ElementKind::ALL.into_iter().find(|kind| kind.to_byte() == byte)
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElementKind::F32 => "f32",
            ElementKind::F16 => "f16",
            ElementKind::Bf16 => "bf16",
            ElementKind::I8 => "i8",
            ElementKind::Bit => "bit",
        })
    }
}

/// Eight dimensions of a vector of bits, the first of them in the lowest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bits(pub u8);

/// The numbers of a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum VectorRef<'v> {
    /// [`ElementKind::F32`]
    F32(&'v [f32]),
    /// [`ElementKind::F16`]
    F16(&'v [f16]),
    /// [`ElementKind::Bf16`]
    Bf16(&'v [bf16]),
    /// [`ElementKind::I8`]
    I8(&'v [i8]),
    /// [`ElementKind::Bit`]
    Bit(&'v [Bits]),
}

/// A vector with the memory that it is in: a copy of one of an index, or one that is to be inserted.
///
/// ```
/// use polder_vector::{ElementKind, VectorBuf, VectorRef};
///
/// let vector = VectorBuf::from(&[1.0_f32, -0.5]);
/// assert_eq!(vector.view(), VectorRef::F32(&[1.0, -0.5]));
/// assert_eq!(vector.elements::<f32>().unwrap(), [1.0, -0.5]);
/// assert_eq!(VectorBuf::from_bytes(ElementKind::F32, &vector.to_bytes()), Some(vector));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum VectorBuf {
    /// [`ElementKind::F32`]
    F32(Vec<f32>),
    /// [`ElementKind::F16`]
    F16(Vec<f16>),
    /// [`ElementKind::Bf16`]
    Bf16(Vec<bf16>),
    /// [`ElementKind::I8`]
    I8(Vec<i8>),
    /// [`ElementKind::Bit`]
    Bit(Vec<Bits>),
}

impl VectorBuf {
    /// The vector of bytes that [`VectorBuf::to_bytes`] gave. `None` if its last number is cut off.
    pub fn from_bytes(kind: ElementKind, bytes: &[u8]) -> Option<VectorBuf> {
        kind.dimensions(bytes.len())?;
        Some(match kind {
            ElementKind::F32 => VectorBuf::F32(from_bytes(bytes)),
            ElementKind::F16 => VectorBuf::F16(from_bytes(bytes)),
            ElementKind::Bf16 => VectorBuf::Bf16(from_bytes(bytes)),
            ElementKind::I8 => VectorBuf::I8(from_bytes(bytes)),
            ElementKind::Bit => VectorBuf::Bit(from_bytes(bytes)),
        })
    }

    /// Its bytes, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            VectorBuf::F32(elements) => to_bytes(elements),
            VectorBuf::F16(elements) => to_bytes(elements),
            VectorBuf::Bf16(elements) => to_bytes(elements),
            VectorBuf::I8(elements) => to_bytes(elements),
            VectorBuf::Bit(elements) => to_bytes(elements),
        }
    }

    /// The vector, lent.
    pub fn view(&self) -> VectorRef<'_> {
        match self {
            VectorBuf::F32(elements) => elements.into(),
            VectorBuf::F16(elements) => elements.into(),
            VectorBuf::Bf16(elements) => elements.into(),
            VectorBuf::I8(elements) => elements.into(),
            VectorBuf::Bit(elements) => elements.into(),
        }
    }

    /// Its numbers, if they are of this kind.
    pub fn elements<E: Element>(&self) -> Option<&[E]> {
        E::elements(self.view())
    }
}

impl<'v, V: Into<VectorRef<'v>>> From<V> for VectorBuf {
    fn from(vector: V) -> VectorBuf {
        match vector.into() {
            VectorRef::F32(elements) => VectorBuf::F32(elements.to_vec()),
            VectorRef::F16(elements) => VectorBuf::F16(elements.to_vec()),
            VectorRef::Bf16(elements) => VectorBuf::Bf16(elements.to_vec()),
            VectorRef::I8(elements) => VectorBuf::I8(elements.to_vec()),
            VectorRef::Bit(elements) => VectorBuf::Bit(elements.to_vec()),
        }
    }
}

/// The bytes of elements, little-endian.
pub(crate) fn to_bytes<E: Element>(elements: &[E]) -> Vec<u8> {
    let of_one = E::KIND.bytes_of(1);
    let bytes = |element: &E| element.to_low_bits().to_le_bytes().into_iter().take(of_one);
    elements.iter().flat_map(bytes).collect()
}

/// The elements of bytes, of which the last is not cut off.
pub(crate) fn from_bytes<E: Element>(bytes: &[u8]) -> Vec<E> {
    let element = |bytes: &[u8]| {
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        E::from_low_bits(u64::from_le_bytes(bits))
    };
    bytes.chunks(E::KIND.bytes_of(1)).map(element).collect()
}

impl<'v, E: Element> From<&'v [E]> for VectorRef<'v> {
    fn from(elements: &'v [E]) -> VectorRef<'v> {
        E::vector(elements)
    }
}

impl<'v, E: Element, const N: usize> From<&'v [E; N]> for VectorRef<'v> {
    fn from(elements: &'v [E; N]) -> VectorRef<'v> {
        E::vector(elements)
    }
}

impl<'v, E: Element> From<&'v Vec<E>> for VectorRef<'v> {
    fn from(elements: &'v Vec<E>) -> VectorRef<'v> {
        E::vector(elements)
    }
}

/// A number of a vector. Of bits, which have no address, eight.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// What it is.
    const KIND: ElementKind;

    /// A vector of such numbers.
    #[doc(hidden)]
    fn vector(elements: &[Self]) -> VectorRef<'_>;

    /// The numbers of a vector, if they are such.
    #[doc(hidden)]
    fn elements(vector: VectorRef<'_>) -> Option<&[Self]>;

    /// Its bits, as many as it has.
    #[doc(hidden)]
    fn to_low_bits(self) -> u64;

    /// The element of the lowest of these bits.
    #[doc(hidden)]
    fn from_low_bits(bits: u64) -> Self;

    /// Its value, where it is one number.
    #[doc(hidden)]
    fn value(self) -> f32;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $kind:ident, $to_bits:expr, $from_bits:expr, $value:expr) => {
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

            fn vector(elements: &[$type]) -> VectorRef<'_> {
                VectorRef::$kind(elements)
            }

            fn elements(vector: VectorRef<'_>) -> Option<&[$type]> {
                match vector {
                    VectorRef::$kind(elements) => Some(elements),
                    _ => None,
                }
            }

            #[inline]
            fn to_low_bits(self) -> u64 {
                let to_bits: fn($type) -> _ = $to_bits;
                u64::from(to_bits(self))
            }

            #[inline]
            fn from_low_bits(bits: u64) -> $type {
                let from_bits: fn(_) -> $type = $from_bits;
                from_bits(bits as _)
            }

            #[inline]
            fn value(self) -> f32 {
                let value: fn($type) -> f32 = $value;
                value(self)
            }
        }
    };
}

element!(f32, F32, f32::to_bits, f32::from_bits, |value| value);
element!(f16, F16, f16::to_bits, f16::from_bits, f16::to_f32);
element!(bf16, Bf16, bf16::to_bits, bf16::from_bits, bf16::to_f32);
element!(i8, I8, |value| value as u8, |bits: u8| bits as i8, f32::from);
// No bit is NaN, and none is long.
element!(Bits, Bit, |bits| bits.0, Bits, |_| 0.0);
