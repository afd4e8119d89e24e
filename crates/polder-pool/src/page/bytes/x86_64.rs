//! Loads and stores that the compiler can neither split, join nor assume things about.

use std::arch::asm;
use std::arch::x86_64::{__m128i, __m256i, __m512i};
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

/// 16 bytes, in the order of memory.
pub(super) type Word128 = __m128i;

/// What is moved by one turn of [`move_long`].
const BLOCK_BYTES: usize = 128;
/// From so many bytes on that is worth a call.
const LONG_BYTES: usize = 512;

#[inline(always)]
pub(super) unsafe fn load_u64(at: *const u8) -> u64 {
    let word;
    // SAFETY: the caller promises 8 mapped bytes.
    unsafe {
        asm!("mov {}, qword ptr [{}]", out(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

#[inline(always)]
pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
    let word: u32;
    // SAFETY: the caller promises 2 mapped bytes.
    unsafe {
        asm!("movzx {:e}, word ptr [{}]", out(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word as u16
}

#[inline(always)]
pub(super) unsafe fn load_u8(at: *const u8) -> u8 {
    let word: u32;
    // SAFETY: the caller promises a mapped byte.
    unsafe {
        asm!("movzx {:e}, byte ptr [{}]", out(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word as u8
}

#[inline(always)]
pub(super) unsafe fn load_128(at: *const u8) -> Word128 {
    let word;
    // SAFETY: the caller promises 16 mapped bytes.
    unsafe {
        asm!("movups {}, xmmword ptr [{}]", out(xmm_reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// Loads of one register of this size, and of four that lie behind each other. (Among instructions of AVX one
/// that is none of them is slow, so that there are some for 16 bytes as well.)
macro_rules! loads {
    ($one:ident, $four:ident, $feature:literal, $register:ty, $class:ident, $word:literal, $bytes:literal) => {
        #[inline]
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $one(at: *const u8) -> $register {
            let word;
            // SAFETY: the caller promises the bytes of a register, mapped.
            unsafe {
                asm!(concat!("vmovups {}, ", $word, " ptr [{}]"), out($class) word, in(reg) at,
                    options(nostack, preserves_flags, readonly));
            }
            word
        }

        #[inline]
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $four(at: *const u8) -> [$register; 4] {
            let (a, b, c, d);
            // SAFETY: the caller promises the bytes of four registers, mapped.
            unsafe {
                asm!(
                    concat!("vmovups {a}, ", $word, " ptr [{at}]"),
                    concat!("vmovups {b}, ", $word, " ptr [{at} + ", $bytes, "]"),
                    concat!("vmovups {c}, ", $word, " ptr [{at} + 2 * ", $bytes, "]"),
                    concat!("vmovups {d}, ", $word, " ptr [{at} + 3 * ", $bytes, "]"),
                    at = in(reg) at,
                    a = out($class) a, b = out($class) b, c = out($class) c, d = out($class) d,
                    options(nostack, preserves_flags, readonly)
                );
            }
            [a, b, c, d]
        }
    };
}

loads!(load_128_by_avx, load_4x128, "avx", __m128i, xmm_reg, "xmmword", 16);
loads!(load_256, load_4x256, "avx", __m256i, ymm_reg, "ymmword", 32);
loads!(load_512, load_4x512, "avx512f", __m512i, zmm_reg, "zmmword", 64);

#[inline(always)]
pub(super) unsafe fn store_128(at: *mut u8, word: Word128) {
    // SAFETY: the caller promises 16 bytes that it may write.
    unsafe {
        asm!("movups xmmword ptr [{}], {}", in(reg) at, in(xmm_reg) word,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(super) unsafe fn store_u64(at: *mut u8, word: u64) {
    // SAFETY: the caller promises 8 bytes that it may write.
    unsafe {
        asm!("mov qword ptr [{}], {}", in(reg) at, in(reg) word,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(super) unsafe fn store_u8(at: *mut u8, byte: u8) {
    // SAFETY: the caller promises a byte that it may write.
    unsafe {
        asm!("mov byte ptr [{}], {}", in(reg) at, in(reg_byte) byte,
            options(nostack, preserves_flags));
    }
}

/// Copies whole blocks from the beginning of a long run by registers of 32 bytes, where the processor
/// has them; gives how many bytes that were. `to` may lie below `from` and overlap it.
#[inline(always)]
pub(super) unsafe fn move_blocks(from: *const u8, to: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    if len < LONG_BYTES { 0 } else { unsafe { move_long(from, to, len) } }
}

#[inline(never)]
unsafe fn move_long(from: *const u8, to: *mut u8, len: usize) -> usize {
    let blocks = len / BLOCK_BYTES;
    if blocks == 0 || !is_x86_feature_detected!("avx") {
        return 0;
    }
    // SAFETY: the caller promises `len` bytes on both sides; the processor knows the instructions. A
    // block is read before it is written, and what it overwrites of the source was read.
    unsafe {
        asm!(
            "2:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqu [{to}], ymm0",
            "vmovdqu [{to} + 32], ymm1",
            "vmovdqu [{to} + 64], ymm2",
            "vmovdqu [{to} + 96], ymm3",
            "add {from}, 128",
            "add {to}, 128",
            "dec {blocks}",
            "jnz 2b",
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            blocks = inout(reg) blocks => _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            options(nostack),
        );
    }
    blocks * BLOCK_BYTES
}

#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch of any address does nothing but warm a cache.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[inline(always)]
pub(super) fn prefetch_l2(at: *const u8) {
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
}
