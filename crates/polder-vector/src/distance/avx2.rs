//! For processors of x86-64 with AVX2, FMA and F16C: nearly all since 2013.

use std::arch::x86_64::*;

use polder_pool::bytes::Run;

use super::Sum;
use crate::element::ElementKind;

/// The kernel for these, if the processor has what it needs.
pub(super) fn kernel(element: ElementKind, sum: Sum) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    let is_here = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("popcnt");
    is_here.then_some(kernel_for!(element, sum))
}

/// The kernel for numbers of codes, if the processor has what it needs.
pub(super) fn kernel_of_codes(bits: usize) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    is_x86_feature_detected!("avx2").then_some(match bits {
        1 => products_of_codes::<1>,
        2 => products_of_codes::<2>,
        _ => products_of_codes::<4>,
    })
}

/// For each kind of floats: how a register of them becomes one of f32.
macro_rules! floats {
    (
        $products:ident, $differences:ident,
        $bytes:literal by $load:ident $split:ident $cut:ident, $to_f32:expr
    ) => {
        kernel!(
            $products, "avx2,fma,f16c",
            $bytes by $load $split $cut, _mm256_setzero_ps(), _mm256_add_ps total,
            |sum, a, b| _mm256_fmadd_ps($to_f32(a), $to_f32(b), sum)
        );
        kernel!(
            $differences, "avx2,fma,f16c",
            $bytes by $load $split $cut, _mm256_setzero_ps(), _mm256_add_ps total,
            |sum, a, b| {
                let difference = _mm256_sub_ps($to_f32(a), $to_f32(b));
                _mm256_fmadd_ps(difference, difference, sum)
            }
        );
    };
}

floats!(products_f32, differences_f32, 32 by load_256 split_4x256 cut_256, _mm256_castsi256_ps);
floats!(products_f16, differences_f16, 16 by load_128 split_4x128 cut_128, _mm256_cvtph_ps);
floats!(products_bf16, differences_bf16, 16 by load_128 split_4x128 cut_128, bf16_to_f32);

#[inline]
#[target_feature(enable = "avx2")]
fn bf16_to_f32(numbers: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(numbers)))
}

/// For bytes: they become numbers of two bytes, whose products are added in pairs. A lane has an eighth of
/// all: of the longest vectors that fit a page, 2^13 of at most 2^16 each.
macro_rules! bytes {
    ($name:ident, |$a:ident, $b:ident| $pairs:expr) => {
        kernel!(
            $name, "avx2",
            16 by load_128 split_4x128 cut_128, _mm256_setzero_si256(), _mm256_add_epi32 total_epi32,
            |sum, a, b| {
                let ($a, $b) = (_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b));
                _mm256_add_epi32(sum, $pairs)
            }
        );
    };
}

bytes!(products_i8, |a, b| _mm256_madd_epi16(a, b));
bytes!(differences_i8, |a, b| {
    let difference = _mm256_sub_epi16(a, b);
    _mm256_madd_epi16(difference, difference)
});

/// The first `bytes` of a register, a multiple of four, and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn cut_256(register: __m256i, bytes: usize) -> __m256i {
    let lanes = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(bytes.min(32) as i32), lanes);
    _mm256_and_si256(register, mask)
}

/// The first `bytes` of a register, and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn cut_128(register: __m128i, bytes: usize) -> __m128i {
    let lanes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm_and_si128(register, _mm_cmpgt_epi8(_mm_set1_epi8(bytes.min(16) as i8), lanes))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total_epi32(sums: __m256i) -> f32 {
    let (low, high) = (_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let four = _mm256_add_epi64(_mm256_cvtepi32_epi64(low), _mm256_cvtepi32_epi64(high));
    let (low, high) = (_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
    let two = _mm_add_epi64(low, high);
    (_mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two)) as f32
}

/// Sixteen bytes of a code at a time: 32 numbers of it are unpacked at once, the first of them into the
/// lower half of a register. Products of pairs are below 2^12, and a lane has an eighth of all: of the
/// longest vectors that there can be, 2^16 pairs.
#[target_feature(enable = "avx2")]
fn products_of_codes<const BITS: i64>(code: Run<'_>, query: Run<'_>) -> f32 {
    let (mask, ones) = (_mm256_set1_epi8((1 << BITS) - 1), _mm256_set1_epi16(1));
    let mut sum = _mm256_setzero_si256();
    let mut done = 0;
    for at in (0..code.len()).step_by(16) {
        let unit = _mm256_broadcastsi128_si256(code.load_128(at));
        for part in (0..8 / BITS).step_by(2) {
            let (low, high) = (BITS * part, BITS * (part + 1));
            let shifts = _mm256_setr_epi64x(low, low, high, high);
            let numbers = _mm256_and_si256(_mm256_srlv_epi64(unit, shifts), mask);
            let pairs = _mm256_maddubs_epi16(numbers, query.load_256(done));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
            done += 32;
        }
    }
    let four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    (_mm_cvtsi128_si32(two) + _mm_extract_epi32::<1>(two)) as f32
}

#[target_feature(enable = "popcnt")]
fn different_bits(one: Run<'_>, other: Run<'_>) -> f32 {
    let count = one.len().min(other.len());
    let (mut sum, mut done) = (0, 0);
    while done + 8 <= count {
        sum += (one.u64(done) ^ other.u64(done)).count_ones();
        done += 8;
    }
    if done < count {
        let differ = one.u64(done) ^ other.u64(done);
        sum += (differ << (64 - 8 * (count - done))).count_ones();
    }
    sum as f32
}
