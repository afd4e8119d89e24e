//! For any processor, and what the others are compared with.

use half::{bf16, f16};
use polder_pool::bytes::Run;

use super::Sum;
use crate::element::ElementKind;

/// The kernel for these.
pub(super) fn kernel(element: ElementKind, sum: Sum) -> unsafe fn(Run<'_>, Run<'_>) -> f32 {
    macro_rules! of {
        ($bytes:literal, $value:expr) => {
            match sum {
                Sum::Products => |one, other| fold::<$bytes>(one, other, $value, |a, b| a * b),
                _ => |one, other| fold::<$bytes>(one, other, $value, |a, b| (a - b) * (a - b)),
            }
        };
    }
    match element {
        ElementKind::F32 => of!(4, f32::from_le_bytes),
        ElementKind::F16 => of!(2, |bytes| f16::from_le_bytes(bytes).to_f32()),
        ElementKind::Bf16 => of!(2, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        ElementKind::I8 => match sum {
            Sum::Products => |one, other| fold_i8(one, other, |a, b| a * b),
            _ => |one, other| fold_i8(one, other, |a, b| (a - b) * (a - b)),
        },
        ElementKind::Bit => different_bits,
    }
}

/// The kernel for numbers of so many bits with bytes: 1, 2 or 4.
pub(super) fn kernel_of_codes(bits: usize) -> unsafe fn(Run<'_>, Run<'_>) -> f32 {
    match bits {
        1 => products_of_codes::<1>,
        2 => products_of_codes::<2>,
        _ => products_of_codes::<4>,
    }
}

fn products_of_codes<const BITS: usize>(code: Run<'_>, query: Run<'_>) -> f32 {
    let (of_byte, mut sum) = (8 / BITS, 0_i64);
    for at in 0..code.len() {
        let [byte] = code.array(at);
        for part in 0..of_byte {
            let number = byte >> (BITS * part) & ((1 << BITS) - 1);
            let other =
                i8::from_le_bytes(query.array(at / 16 * 16 * of_byte + 16 * part + at % 16));
            sum += i64::from(number) * i64::from(other);
        }
    }
    sum as f32
}

/// Sums in as many lanes as keep a processor busy.
const LANES: usize = 8;

#[inline(always)]
fn fold<const BYTES: usize>(
    one: Run<'_>,
    other: Run<'_>,
    value: fn([u8; BYTES]) -> f32,
    term: fn(f32, f32) -> f32,
) -> f32 {
    let count = one.len().min(other.len()) / BYTES;
    let mut sums = [0.0; LANES];
    for i in 0..count {
        let (a, b) = (value(one.array(BYTES * i)), value(other.array(BYTES * i)));
        sums[i % LANES] += term(a, b);
    }
    sums.into_iter().sum()
}

#[inline(always)]
fn fold_i8(one: Run<'_>, other: Run<'_>, term: fn(i64, i64) -> i64) -> f32 {
    let count = one.len().min(other.len());
    let value = |run: Run<'_>, i| i64::from(i8::from_le_bytes(run.array(i)));
    (0..count).map(|i| term(value(one, i), value(other, i))).sum::<i64>() as f32
}

fn different_bits(one: Run<'_>, other: Run<'_>) -> f32 {
    let count = one.len().min(other.len());
    let differ = |at: usize| one.u64(at) ^ other.u64(at);
    let whole: u32 = (0..count / 8).map(|i| differ(8 * i).count_ones()).sum();
    let rest = match count % 8 {
        0 => 0,
        rest => (differ(count - rest) << (64 - 8 * rest)).count_ones(),
    };
    (whole + rest) as f32
}
