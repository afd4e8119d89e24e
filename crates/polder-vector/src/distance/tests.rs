use half::{bf16, f16};
use polder_pool::bytes::OVERRUN_BYTES;

use super::*;
use crate::element::{Bits, Element};

/// Words that begin with these bytes, and go on with others that count for nothing: other ones for each vector,
/// and numbers of every kind that a sum would show.
fn words(bytes: &[u8], behind: u8) -> Vec<u64> {
    let mut bytes = bytes.to_vec();
    let len = bytes.len();
    bytes.resize(len.next_multiple_of(8) + OVERRUN_BYTES, behind);
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// All kernels for these that this processor can run.
fn kernels(element: ElementKind, sum: Sum) -> Vec<Kernel> {
    let portable = Some(portable::kernel(element, sum));
    #[cfg(target_arch = "x86_64")]
    let others = [avx2::kernel(element, sum), avx512::kernel(element, sum)];
    #[cfg(target_arch = "aarch64")]
    let others = [neon::kernel(element, sum)];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let others = [];
    [portable].into_iter().chain(others).flatten().map(Kernel).collect()
}

/// What each kernel sums up.
fn sums<E: Element>(a: &[E], b: &[E], sum: Sum) -> Vec<f32> {
    let bytes = |elements: &[E]| {
        let mut bytes = Vec::new();
        for element in elements {
            let bits = element.to_low_bits().to_le_bytes();
            bytes.extend(&bits[..E::KIND.bytes_of(1)]);
        }
        bytes
    };
    let (a, b) = (bytes(a), bytes(b));
    let (len, a, b) = (a.len(), words(&a, 0x41), words(&b, 0xc2));
    let (a, b) = (Run::of(&a).part(0, len), Run::of(&b).part(0, len));
    kernels(E::KIND, sum).iter().map(|kernel| kernel.sum(a, b)).collect()
}

/// Of whole numbers below 2^24 in all, which floats add without an error, so that the order does not
/// matter.
fn compare<E: Element>(element: impl Fn(i8) -> E, exact: impl Fn(i64, i64) -> i64, sum: Sum) {
    let mut random = fastrand::Rng::with_seed(7);
    for dimensions in 0..300 {
        let numbers: Vec<(i8, i8)> =
            (0..dimensions).map(|_| (random.i8(-100..100), random.i8(-100..100))).collect();
        let (a, b): (Vec<E>, Vec<E>) =
            numbers.iter().map(|(a, b)| (element(*a), element(*b))).unzip();
        let expected: i64 = numbers.iter().map(|(a, b)| exact((*a).into(), (*b).into())).sum();
        for sum in sums(&a, &b, sum) {
            assert_eq!(sum, expected as f32, "{dimensions} of {}", E::KIND);
        }
    }
}

#[test]
fn every_kernel_sums_exactly() {
    let square = |a: i64, b: i64| (a - b) * (a - b);
    let product = |a: i64, b: i64| a * b;
    compare(f32::from, square, Sum::SquaredDifferences);
    compare(f32::from, product, Sum::Products);
    compare(|value| f16::from_f32(value.into()), square, Sum::SquaredDifferences);
    compare(|value| f16::from_f32(value.into()), product, Sum::Products);
    compare(|value| bf16::from_f32(value.into()), square, Sum::SquaredDifferences);
    compare(|value| bf16::from_f32(value.into()), product, Sum::Products);
    compare(|value| value, square, Sum::SquaredDifferences);
    compare(|value| value, product, Sum::Products);
    let different = |a: i64, b: i64| i64::from((a as u8 ^ b as u8).count_ones());
    compare(|value| Bits(value as u8), different, Sum::DifferentBits);
}

/// Numbers of codes by bytes of queries, also the greatest of them.
#[test]
fn products_of_codes_are_what_the_portable_kernel_sums() {
    let mut random = fastrand::Rng::with_seed(9);
    for bits in [1, 2, 4] {
        for units in [1, 2, 3, 8, 4096] {
            for is_greatest in [false, true] {
                let mut byte = |_| if is_greatest { 0xff } else { random.u8(..) };
                let code: Vec<u8> = (0..16 * units).map(&mut byte).collect();
                let mut byte = |_| if is_greatest { 0x80 } else { random.u8(..) };
                let query: Vec<u8> = (0..16 * units * 8 / bits).map(&mut byte).collect();
                let lens = (code.len(), query.len());
                let (code, query) = (words(&code, 0x41), words(&query, 0xc2));
                let code = Run::of(&code).part(0, lens.0);
                let query = Run::of(&query).part(0, lens.1);
                let fast = Kernel::of_codes(bits).sum(code, query);
                let portable = Kernel(portable::kernel_of_codes(bits)).sum(code, query);
                assert_eq!(fast, portable, "{units} units of {bits} bits");
                if is_greatest {
                    let greatest = ((1 << bits) - 1) * -128_i64 * lens.1 as i64;
                    assert_eq!(fast, greatest as f32);
                }
            }
        }
    }
}

/// The longest vectors of a page: nothing overflows.
#[test]
fn the_longest_vectors_have_sums() {
    let (low, high) = ([i8::MIN; 1 << 16], [i8::MAX; 1 << 16]);
    for (other, kind, each) in
        [(high, Sum::SquaredDifferences, 255.0 * 255.0), (low, Sum::Products, 128.0 * 128.0)]
    {
        let sums = sums(&low, &other, kind);
        assert!(sums.iter().all(|sum| *sum == each * 65536.0), "{sums:?}");
    }
}

/// Numbers that are no whole ones differ by what is rounded.
#[test]
fn floats_are_summed_as_exactly_as_they_can_be() {
    let mut random = fastrand::Rng::with_seed(8);
    for dimensions in [1, 3, 31, 128, 129, 960, 1536] {
        let mut vector = || -> Vec<f32> { (0..dimensions).map(|_| random.f32() - 0.5).collect() };
        let (a, b) = (vector(), vector());
        let exact: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        for sum in sums(&a, &b, Sum::SquaredDifferences) {
            assert!((f64::from(sum) / exact - 1.0).abs() < 1e-5, "{sum}, and exactly {exact}");
        }
    }
}
