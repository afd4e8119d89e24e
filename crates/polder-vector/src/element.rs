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

impl VectorRef<'_> {
    /// What its numbers are.
    pub fn kind(self) -> ElementKind {
        match self {
            VectorRef::F32(_) => ElementKind::F32,
            VectorRef::F16(_) => ElementKind::F16,
            VectorRef::Bf16(_) => ElementKind::Bf16,
            VectorRef::I8(_) => ElementKind::I8,
            VectorRef::Bit(_) => ElementKind::Bit,
        }
    }
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
