//! Sums over the dimensions of two vectors, of which distances are made.
//!
//! A vector is read where it lies, in a page that may change meanwhile, by the registers that
//! [`Run`] loads: a library's kernels take memory that nobody writes. Which kernel is used is found
//! out once, when an index is opened ([`Kernel::of`]); `portable.rs` says what each of them computes,
//! and tests compare the others with it.

/// Which kernel of a module is the one for a kind of numbers and what is summed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! kernel_for {
    ($element:expr, $sum:expr) => {
        match ($element, $sum) {
            (ElementKind::F32, Sum::Products) => products_f32,
            (ElementKind::F32, _) => differences_f32,
            (ElementKind::F16, Sum::Products) => products_f16,
            (ElementKind::F16, _) => differences_f16,
            (ElementKind::Bf16, Sum::Products) => products_bf16,
            (ElementKind::Bf16, _) => differences_bf16,
            (ElementKind::I8, Sum::Products) => products_i8,
            (ElementKind::I8, _) => differences_i8,
            (ElementKind::Bit, _) => different_bits,
        }
    };
}

/// A kernel that sums up what a step makes of two registers and a sum. Four registers of each vector are
/// loaded at once, and have sums of their own, none of which waits for another one. Of the last register
/// those bytes count that are the vector's, since what lies behind it is not zero.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! kernel {
    (
        $name:ident, $features:literal,
        $bytes:literal by $load:ident $split:ident $cut:ident,
        $zero:expr, $add:ident $total:ident,
        |$sum:ident, $a:ident, $b:ident| $step:expr
    ) => {
        #[target_feature(enable = $features)]
        fn $name(one: Run<'_>, other: Run<'_>) -> f32 {
            let (mut one, mut other) = (one, other);
            let mut sums = [$zero; 4];
            while let Some((ones, one_rest)) = one.$split()
                && let Some((others, other_rest)) = other.$split()
            {
                for i in 0..4 {
                    let ($sum, $a, $b) = (sums[i], ones[i], others[i]);
                    sums[i] = $step;
                }
                (one, other) = (one_rest, other_rest);
            }
            let end = one.len().min(other.len());
            for (i, at) in (0..end).step_by($bytes).enumerate() {
                let ($a, $b) = match end - at {
                    left @ 1..$bytes => ($cut(one.$load(at), left), $cut(other.$load(at), left)),
                    _ => (one.$load(at), other.$load(at)),
                };
                let $sum = sums[i];
                sums[i] = $step;
            }
            let [a, b, c, d] = sums;
            $total($add($add(a, b), $add(c, d)))
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use polder_pool::bytes::Run;

use crate::element::ElementKind;

/// What is summed over the dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Squares of differences.
    SquaredDifferences,
    /// Products.
    Products,
    /// Bits that differ.
    DifferentBits,
}

/// Sums over two vectors of the same length, which is a whole number of elements. Called where the
/// processor has what it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel(unsafe fn(Run<'_>, Run<'_>) -> f32);

impl Kernel {
    /// The fastest one for this processor.
    pub(crate) fn of(element: ElementKind, sum: Sum) -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = avx512::kernel(element, sum).or_else(|| avx2::kernel(element, sum)) {
            return Kernel(kernel);
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(kernel) = neon::kernel(element, sum) {
            return Kernel(kernel);
        }
        Kernel(portable::kernel(element, sum))
    }

    /// The fastest one that sums products of the numbers of a code, of so many bits each, and of the bytes of
    /// a query (`vamana/code.rs`). A unit of 16 bytes of a code has its first 16 numbers in the lowest bits of
    /// these, the next 16 in those above them, and so on.
    pub(crate) fn of_codes(bits: usize) -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = avx2::kernel_of_codes(bits) {
            return Kernel(kernel);
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(kernel) = neon::kernel_of_codes(bits) {
            return Kernel(kernel);
        }
        Kernel(portable::kernel_of_codes(bits))
    }

    /// The sum.
    #[inline(always)]
    pub(crate) fn sum(self, one: Run<'_>, other: Run<'_>) -> f32 {
        // SAFETY: `of` has found that the processor has what the kernel needs; the portable ones need
        // nothing.
        unsafe { (self.0)(one, other) }
    }
}

#[cfg(test)]
mod tests;
