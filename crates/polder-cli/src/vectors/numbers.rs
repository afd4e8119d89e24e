//! Numbers of binary files.

use std::io::Read;

use polder_vector::half::f16;

use super::Bad;

/// How a number is written, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    F4,
    F2,
    I1,
    U1,
    I4,
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Number::F4 | Number::I4 => 4,
            Number::F2 => 2,
            Number::I1 | Number::U1 => 1,
        }
    }

    /// The next `count` numbers.
    pub fn read(self, count: usize, file: &mut impl Read) -> Result<Vec<f32>, Bad> {
        let mut bytes = vec![0; count * self.bytes()];
        file.read_exact(&mut bytes)?;
        let four = || bytes.as_chunks::<4>().0.iter();
        Ok(match self {
            Number::F4 => four().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Number::I4 => four().map(|bytes| i32::from_le_bytes(*bytes) as f32).collect(),
            Number::F2 => {
                let two = bytes.as_chunks::<2>().0.iter();
                two.map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
            }
            Number::I1 => bytes.iter().map(|byte| f32::from(*byte as i8)).collect(),
            Number::U1 => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        })
    }
}
