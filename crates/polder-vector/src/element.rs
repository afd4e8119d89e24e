//! What the numbers of a vector are.

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

/// A number of a vector. Of bits, which have no address, eight.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// What it is.
    const KIND: ElementKind;

    /// Its bytes as they lie in a page, appended to `bytes`.
    #[doc(hidden)]
    fn append_to(self, bytes: &mut Vec<u8>);

    /// The element of these bytes, of which there are as many as it has.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Its value, where it is one number.
    #[doc(hidden)]
    fn value(self) -> f32;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $kind:ident, $value:expr) => {
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn from_bytes(bytes: &[u8]) -> $type {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                <$type>::from_le_bytes(array)
            }

            fn value(self) -> f32 {
                let value: fn($type) -> f32 = $value;
                value(self)
            }
        }
    };
}

element!(f32, F32, |value| value);
element!(f16, F16, f16::to_f32);
element!(bf16, Bf16, bf16::to_f32);
element!(i8, I8, f32::from);

impl sealed::Sealed for Bits {}

impl Element for Bits {
    const KIND: ElementKind = ElementKind::Bit;

    fn append_to(self, bytes: &mut Vec<u8>) {
        bytes.push(self.0);
    }

    fn from_bytes(bytes: &[u8]) -> Bits {
        Bits(bytes[0])
    }

    /// No bit is NaN.
    fn value(self) -> f32 {
        0.0
    }
}
