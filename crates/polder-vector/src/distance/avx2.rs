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
    is_here.then_some(match (element, sum) {
        (ElementKind::F32, Sum::Products) => products_f32,
        (ElementKind::F32, _) => differences_f32,
        (ElementKind::F16, Sum::Products) => products_f16,
        (ElementKind::F16, _) => differences_f16,
        (ElementKind::Bf16, Sum::Products) => products_bf16,
        (ElementKind::Bf16, _) => differences_bf16,
        (ElementKind::I8, Sum::Products) => products_i8,
        (ElementKind::I8, _) => differences_i8,
        (ElementKind::Bit, _) => different_bits,
    })
}

/// The kernel for numbers of codes, if the processor has what it needs.
pub(super) fn kernel_of_codes(bits: usize) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    is_x86_feature_detected!("avx2").then_some(match bits {
        1 => products_of_codes::<1>,
        2 => products_of_codes::<2>,
        _ => products_of_codes::<4>,
    })
}

/// Numbers in a register of floats.
const LANES: usize = 8;
/// Registers that are summed independently of each other: the latency of an addition, times those
/// that are begun in one cycle.
const SUMS: usize = 4;

/// For each kind of floats: how four registers of them are loaded, and each becomes eight f32. The last
/// ones are cut off by a mask, since what lies behind a vector is not zero.
macro_rules! floats {
    ($bytes:literal, $load:ident, $split:ident, $to_f32:expr, $products:ident, $differences:ident) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn $products(one: Run<'_>, other: Run<'_>) -> f32 {
            floats!(one, other, $bytes, $load, $split, $to_f32, |sum, a, b| {
                _mm256_fmadd_ps(a, b, sum)
            })
        }

        #[target_feature(enable = "avx2,fma,f16c")]
        fn $differences(one: Run<'_>, other: Run<'_>) -> f32 {
            floats!(one, other, $bytes, $load, $split, $to_f32, |sum, a, b| {
                let difference = _mm256_sub_ps(a, b);
                _mm256_fmadd_ps(difference, difference, sum)
            })
        }
    };
    ($one:ident, $other:ident, $bytes:literal, $load:ident, $split:ident, $to_f32:expr, |$sum:ident, $a:ident, $b:ident| $step:expr) => {{
        let (mut one, mut other) = ($one, $other);
        let mut sums = [_mm256_setzero_ps(); SUMS];
        while let Some((ones, one_rest)) = one.$split()
            && let Some((others, other_rest)) = other.$split()
        {
            for i in 0..SUMS {
                let ($sum, $a, $b) = (sums[i], $to_f32(ones[i]), $to_f32(others[i]));
                sums[i] = $step;
            }
            (one, other) = (one_rest, other_rest);
        }
        let end = one.len().min(other.len());
        let mut at = 0;
        while at < end {
            let mask = first((end - at) / $bytes);
            let ($sum, $a, $b) = (
                sums[0],
                _mm256_and_ps($to_f32(one.$load(at)), mask),
                _mm256_and_ps($to_f32(other.$load(at)), mask),
            );
            sums[0] = $step;
            at += $bytes * LANES;
        }
        let [a, b, c, d] = sums;
        total(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)))
    }};
}

floats!(4, load_256, split_4x256, _mm256_castsi256_ps, products_f32, differences_f32);
floats!(2, load_128, split_4x128, _mm256_cvtph_ps, products_f16, differences_f16);
floats!(2, load_128, split_4x128, bf16_to_f32, products_bf16, differences_bf16);

#[inline]
#[target_feature(enable = "avx2")]
fn bf16_to_f32(numbers: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(numbers)))
}

/// All bits of the first `count` lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first(count: usize) -> __m256 {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(LANES) as i32), lanes))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Sixteen bytes a register, as numbers of two bytes, whose products are added in pairs. A lane has an
/// eighth of them: of the longest vectors that fit a page, 2^13 of at most 2^16 each.
macro_rules! bytes {
    ($name:ident, |$a:ident, $b:ident| $pairs:expr) => {
        #[target_feature(enable = "avx2")]
        fn $name(one: Run<'_>, other: Run<'_>) -> f32 {
            let (mut one, mut other) = (one, other);
            let mut sums = [_mm256_setzero_si256(); 2];
            while let Some((ones, one_rest)) = one.split_4x128()
                && let Some((others, other_rest)) = other.split_4x128()
            {
                for i in 0..4 {
                    let $a = _mm256_cvtepi8_epi16(ones[i]);
                    let $b = _mm256_cvtepi8_epi16(others[i]);
                    sums[i % 2] = _mm256_add_epi32(sums[i % 2], $pairs);
                }
                (one, other) = (one_rest, other_rest);
            }
            let end = one.len().min(other.len());
            let mut at = 0;
            while at < end {
                let mask = first_bytes(end - at);
                let $a = _mm256_cvtepi8_epi16(_mm_and_si128(one.load_128(at), mask));
                let $b = _mm256_cvtepi8_epi16(_mm_and_si128(other.load_128(at), mask));
                sums[0] = _mm256_add_epi32(sums[0], $pairs);
                at += 16;
            }
            let sum = _mm256_add_epi32(sums[0], sums[1]);
            let (low, high) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            let four = _mm256_add_epi64(_mm256_cvtepi32_epi64(low), _mm256_cvtepi32_epi64(high));
            let (low, high) = (_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            let two = _mm_add_epi64(low, high);
            (_mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two)) as f32
        }
    };
}

bytes!(products_i8, |a, b| _mm256_madd_epi16(a, b));
bytes!(differences_i8, |a, b| {
    let difference = _mm256_sub_epi16(a, b);
    _mm256_madd_epi16(difference, difference)
});

/// All bits of the first `count` bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn first_bytes(count: usize) -> __m128i {
    let bytes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm_cmpgt_epi8(_mm_set1_epi8(count.min(16) as i8), bytes)
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
