//! Loads and stores that the compiler can neither split, join nor assume things about.

use std::arch::aarch64::uint8x16_t;
use std::arch::asm;

/// 16 bytes, in the order of memory.
pub(super) type Word128 = uint8x16_t;

/// Loads and stores of one word: the instructions that do it, and how they name a register.
macro_rules! words {
    ($($load:ident $store:ident, $word:ty: $class:ident, $ldr:literal $str:literal $name:literal;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $load(at: *const u8) -> $word {
            let word;
            // SAFETY: the caller promises the bytes of a word, mapped.
            unsafe {
                asm!(concat!($ldr, " ", $name, ", [{}]"), out($class) word, in(reg) at,
                    options(nostack, preserves_flags, readonly));
            }
            word
        }

        #[inline(always)]
        pub(super) unsafe fn $store(at: *mut u8, word: $word) {
            // SAFETY: the caller promises the bytes of a word, which it may write.
            unsafe {
                asm!(concat!($str, " ", $name, ", [{}]"), in($class) word, in(reg) at,
                    options(nostack, preserves_flags));
            }
        }
    )*};
}

words! {
    load_u8 store_u8, u8: reg, "ldrb" "strb" "{:w}";
    load_u64 store_u64, u64: reg, "ldr" "str" "{:x}";
    load_128 store_128, Word128: vreg, "ld1" "st1" "{{{:v}.16b}}";
}

#[inline(always)]
pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
    let word;
    // SAFETY: the caller promises 2 mapped bytes.
    unsafe {
        asm!("ldrh {:w}, [{}]", out(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// Four words that lie behind each other.
#[inline(always)]
pub(super) unsafe fn load_4x128(at: *const u8) -> [Word128; 4] {
    let (a, b, c, d);
    // SAFETY: the caller promises 64 mapped bytes.
    unsafe {
        asm!(
            "ldp {a:q}, {b:q}, [{at}]",
            "ldp {c:q}, {d:q}, [{at}, 32]",
            at = in(reg) at, a = out(vreg) a, b = out(vreg) b, c = out(vreg) c, d = out(vreg) d,
            options(nostack, preserves_flags, readonly)
        );
    }
    [a, b, c, d]
}

/// Moves none: a register of 16 bytes is the longest one.
#[inline(always)]
pub(super) unsafe fn move_blocks(_from: *const u8, _to: *mut u8, _len: usize) -> usize {
    0
}

#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch of any address does nothing but warm a cache.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
    };
}

#[inline(always)]
pub(super) fn prefetch_l2(at: *const u8) {
    // SAFETY: as above.
    unsafe {
        asm!("prfm pldl2keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly))
    };
}
