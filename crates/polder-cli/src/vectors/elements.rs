//! The numbers of a row as an index has them.

use polder_vector::half::{bf16, f16};
use polder_vector::{Bits, ElementKind, VectorBuf};

/// Numbers as elements of this kind; of f16 and bf16 the nearest. Of the others it must be exactly them.
pub fn elements_of(kind: ElementKind, numbers: Vec<f32>) -> Result<VectorBuf, String> {
    Ok(match kind {
        ElementKind::F32 => VectorBuf::F32(numbers),
        ElementKind::F16 => VectorBuf::F16(numbers.into_iter().map(f16::from_f32).collect()),
        ElementKind::Bf16 => VectorBuf::Bf16(numbers.into_iter().map(bf16::from_f32).collect()),
        ElementKind::I8 => {
            let whole = numbers.iter().enumerate().map(|(dimension, number)| {
                let byte = *number as i8;
                (f32::from(byte) == *number).then_some(byte).ok_or_else(|| {
                    format!(
                        "dimension {dimension} is {number}, which is no i8: those are -128 to 127"
                    )
                })
            });
            VectorBuf::I8(whole.collect::<Result<_, _>>()?)
        }
        ElementKind::Bit => {
            let bit = |(dimension, number): (usize, &f32)| match number {
                0.0 => Ok(0),
                1.0 => Ok(1),
                other => Err(format!("dimension {dimension} is {other}, which is no bit: 0 or 1")),
            };
            let bits = numbers.iter().enumerate().map(bit).collect::<Result<Vec<u8>, String>>()?;
            if !bits.len().is_multiple_of(8) {
                return Err(format!("it has {} bits, and must have a multiple of 8", bits.len()));
            }
            let byte = |bits: &[u8]| Bits((0..8).map(|bit| bits[bit] << bit).sum());
            VectorBuf::Bit(bits.chunks(8).map(byte).collect())
        }
        other => return Err(format!("this program knows no vectors of {other}")),
    })
}
