//! Portable: byte by byte with relaxed atomics, so that widths never mix. On a processor, where
//! fields are read with their own width elsewhere in the module, single-copy atomicity of
//! plain loads and stores gives the same meaning.

use std::array;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// 16 bytes, in the order of memory.
pub(super) type Word128 = [u8; 16];

#[inline(always)]
pub(super) unsafe fn load_128(at: *const u8) -> Word128 {
    // SAFETY: the caller promises 16 mapped bytes.
    unsafe { load(at) }
}

#[inline(always)]
pub(super) unsafe fn load_u64(at: *const u8) -> u64 {
    // SAFETY: the caller promises 8 mapped bytes.
    u64::from_ne_bytes(unsafe { load(at) })
}

#[inline(always)]
pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
    // SAFETY: the caller promises 2 mapped bytes.
    u16::from_ne_bytes(unsafe { load(at) })
}

#[inline(always)]
pub(super) unsafe fn load_u8(at: *const u8) -> u8 {
    // SAFETY: the caller promises a mapped byte.
    u8::from_ne_bytes(unsafe { load(at) })
}

#[inline(always)]
unsafe fn load<const N: usize>(at: *const u8) -> [u8; N] {
    // SAFETY: the caller promises `N` mapped bytes that outlive the use.
    array::from_fn(|i| unsafe { AtomicU8::from_ptr(at.add(i).cast_mut()) }.load(Relaxed))
}

#[inline(always)]
pub(super) unsafe fn store_128(at: *mut u8, word: Word128) {
    // SAFETY: the caller promises 16 bytes that it may write.
    unsafe { store(at, word) }
}

#[inline(always)]
pub(super) unsafe fn store_u64(at: *mut u8, word: u64) {
    // SAFETY: the caller promises 8 bytes that it may write.
    unsafe { store(at, word.to_ne_bytes()) }
}

#[inline(always)]
pub(super) unsafe fn store_u8(at: *mut u8, byte: u8) {
    // SAFETY: the caller promises a byte that it may write.
    unsafe { store(at, [byte]) }
}

#[inline(always)]
unsafe fn store<const N: usize>(at: *mut u8, bytes: [u8; N]) {
    for (i, byte) in bytes.into_iter().enumerate() {
        // SAFETY: the caller promises `N` bytes that it may write, and that outlive the use.
        unsafe { AtomicU8::from_ptr(at.add(i)) }.store(byte, Relaxed);
    }
}

/// Moves none: there are no registers for blocks.
#[inline(always)]
pub(super) unsafe fn move_blocks(_from: *const u8, _to: *mut u8, _len: usize) -> usize {
    0
}

#[inline(always)]
pub(super) fn prefetch(_at: *const u8) {}

#[inline(always)]
pub(super) fn prefetch_l2(_at: *const u8) {}
