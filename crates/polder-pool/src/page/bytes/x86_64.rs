//! Loads and stores that the compiler can neither split, join nor assume things about.

use std::arch::asm;
use std::arch::x86_64::{__m128i, __m256i, __m512i};
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_setzero_si128};
use std::arch::x86_64::{_mm_loadu_si128, _mm_storeu_si128};

/// What is moved by one turn of [`move_blocks`].
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
unsafe fn load_u8(at: *const u8) -> u8 {
    let word: u32;
    // SAFETY: the caller promises a mapped byte.
    unsafe {
        asm!("movzx {:e}, byte ptr [{}]", out(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word as u8
}

#[inline(always)]
unsafe fn load_128(at: *const u8) -> __m128i {
    let word;
    // SAFETY: the caller promises 16 mapped bytes.
    unsafe {
        asm!("movups {}, xmmword ptr [{}]", out(xmm_reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// Among instructions of AVX one that is none of them is slow.
#[inline]
#[target_feature(enable = "avx")]
pub(super) unsafe fn load_128_by_avx(at: *const u8) -> __m128i {
    let word;
    // SAFETY: the caller promises 16 mapped bytes.
    unsafe {
        asm!("vmovups {}, xmmword ptr [{}]", out(xmm_reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

#[inline]
#[target_feature(enable = "avx")]
pub(super) unsafe fn load_256(at: *const u8) -> __m256i {
    let word;
    // SAFETY: the caller promises 32 mapped bytes.
    unsafe {
        asm!("vmovups {}, ymmword ptr [{}]", out(ymm_reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_512(at: *const u8) -> __m512i {
    let word;
    // SAFETY: the caller promises 64 mapped bytes.
    unsafe {
        asm!("vmovups {}, zmmword ptr [{}]", out(zmm_reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// The 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx")]
pub(super) unsafe fn load_4x128(at: *const u8) -> [__m128i; 4] {
    let (a, b, c, d);
    // SAFETY: the caller promises 64 mapped bytes.
    unsafe {
        asm!(
            "vmovups {a}, xmmword ptr [{at}]",
            "vmovups {b}, xmmword ptr [{at} + 16]",
            "vmovups {c}, xmmword ptr [{at} + 32]",
            "vmovups {d}, xmmword ptr [{at} + 48]",
            at = in(reg) at,
            a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c, d = out(xmm_reg) d,
            options(nostack, preserves_flags, readonly)
        );
    }
    [a, b, c, d]
}

/// The 128 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx")]
pub(super) unsafe fn load_4x256(at: *const u8) -> [__m256i; 4] {
    let (a, b, c, d);
    // SAFETY: the caller promises 128 mapped bytes.
    unsafe {
        asm!(
            "vmovups {a}, ymmword ptr [{at}]",
            "vmovups {b}, ymmword ptr [{at} + 32]",
            "vmovups {c}, ymmword ptr [{at} + 64]",
            "vmovups {d}, ymmword ptr [{at} + 96]",
            at = in(reg) at,
            a = out(ymm_reg) a, b = out(ymm_reg) b, c = out(ymm_reg) c, d = out(ymm_reg) d,
            options(nostack, preserves_flags, readonly)
        );
    }
    [a, b, c, d]
}

/// The 256 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_4x512(at: *const u8) -> [__m512i; 4] {
    let (a, b, c, d);
    // SAFETY: the caller promises 256 mapped bytes.
    unsafe {
        asm!(
            "vmovups {a}, zmmword ptr [{at}]",
            "vmovups {b}, zmmword ptr [{at} + 64]",
            "vmovups {c}, zmmword ptr [{at} + 128]",
            "vmovups {d}, zmmword ptr [{at} + 192]",
            at = in(reg) at,
            a = out(zmm_reg) a, b = out(zmm_reg) b, c = out(zmm_reg) c, d = out(zmm_reg) d,
            options(nostack, preserves_flags, readonly)
        );
    }
    [a, b, c, d]
}

#[inline(always)]
unsafe fn store_128(at: *mut u8, word: __m128i) {
    // SAFETY: the caller promises 16 bytes that it may write.
    unsafe {
        asm!("movups xmmword ptr [{}], {}", in(reg) at, in(xmm_reg) word,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
unsafe fn store_u64(at: *mut u8, word: u64) {
    // SAFETY: the caller promises 8 bytes that it may write.
    unsafe {
        asm!("mov qword ptr [{}], {}", in(reg) at, in(reg) word,
            options(nostack, preserves_flags));
    }
}

#[inline(always)]
unsafe fn store_u8(at: *mut u8, byte: u8) {
    // SAFETY: the caller promises a byte that it may write.
    unsafe {
        asm!("mov byte ptr [{}], {}", in(reg) at, in(reg_byte) byte,
            options(nostack, preserves_flags));
    }
}

/// From a page to private memory.
#[inline(always)]
pub(super) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes on both sides; every access below stays within.
    unsafe {
        if len >= 16 {
            let mut done = 0;
            while done + 16 <= len {
                _mm_storeu_si128(to.add(done).cast(), load_128(from.add(done)));
                done += 16;
            }
            if done < len {
                let last = len - 16;
                _mm_storeu_si128(to.add(last).cast(), load_128(from.add(last)));
            }
        } else if len >= 8 {
            let last = len - 8;
            let (first, second) = (load_u64(from), load_u64(from.add(last)));
            to.cast::<u64>().write_unaligned(first);
            to.add(last).cast::<u64>().write_unaligned(second);
        } else {
            for i in 0..len {
                to.add(i).write(load_u8(from.add(i)));
            }
        }
    }
}

/// From private memory to a page.
#[inline(always)]
pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes on both sides; every access below stays within.
    unsafe {
        if len >= 16 {
            let mut done = 0;
            while done + 16 <= len {
                store_128(to.add(done), _mm_loadu_si128(from.add(done).cast()));
                done += 16;
            }
            if done < len {
                let last = len - 16;
                store_128(to.add(last), _mm_loadu_si128(from.add(last).cast()));
            }
        } else if len >= 8 {
            let last = len - 8;
            let second = from.add(last).cast::<u64>().read_unaligned();
            store_u64(to, from.cast::<u64>().read_unaligned());
            store_u64(to.add(last), second);
        } else {
            for i in 0..len {
                store_u8(to.add(i), from.add(i).read());
            }
        }
    }
}

/// Copies whole blocks from the beginning of a long run by registers of 32 bytes, where the processor
/// has them; gives how many bytes that were. `to` may lie below `from` and overlap it.
#[inline(never)]
unsafe fn move_blocks(from: *const u8, to: *mut u8, len: usize) -> usize {
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

/// Within pages, or from one to another; the two runs may overlap.
#[inline(always)]
pub(super) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes on both sides. The order of the steps is such
    // that no byte is overwritten before it was read.
    unsafe {
        if (to as usize) <= (from as usize) {
            let mut done = if len < LONG_BYTES { 0 } else { move_blocks(from, to, len) };
            while done + 16 <= len {
                store_128(to.add(done), load_128(from.add(done)));
                done += 16;
            }
            while done + 8 <= len {
                store_u64(to.add(done), load_u64(from.add(done)));
                done += 8;
            }
            while done < len {
                store_u8(to.add(done), load_u8(from.add(done)));
                done += 1;
            }
        } else {
            let mut left = len;
            while left >= 16 {
                left -= 16;
                store_128(to.add(left), load_128(from.add(left)));
            }
            while left >= 8 {
                left -= 8;
                store_u64(to.add(left), load_u64(from.add(left)));
            }
            while left > 0 {
                left -= 1;
                store_u8(to.add(left), load_u8(from.add(left)));
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn zero(at: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes that it may write.
    unsafe {
        let mut done = 0;
        while done + 16 <= len {
            store_128(at.add(done), _mm_setzero_si128());
            done += 16;
        }
        while done < len {
            store_u8(at.add(done), 0);
            done += 1;
        }
    }
}

#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch of any address does nothing but warm a cache.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}
