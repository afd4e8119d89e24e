//! Portable: byte by byte with relaxed atomics, so that widths never mix. On aarch64, where
//! fields are read with their own width elsewhere in the module, single-copy atomicity of
//! plain loads and stores gives the same meaning.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

#[inline(always)]
unsafe fn byte<'a>(at: *const u8) -> &'a AtomicU8 {
    // SAFETY: the caller promises a mapped byte that outlives the use.
    unsafe { AtomicU8::from_ptr(at.cast_mut()) }
}

#[inline(always)]
pub(super) unsafe fn load_u64(at: *const u8) -> u64 {
    let mut word = [0; 8];
    // SAFETY: the caller promises 8 mapped bytes.
    unsafe { copy_out(at, word.as_mut_ptr(), 8) };
    u64::from_ne_bytes(word)
}

#[inline(always)]
pub(super) unsafe fn load_u16(at: *const u8) -> u16 {
    let mut word = [0; 2];
    // SAFETY: the caller promises 2 mapped bytes.
    unsafe { copy_out(at, word.as_mut_ptr(), 2) };
    u16::from_ne_bytes(word)
}

#[inline(always)]
pub(super) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: the caller promises `len` bytes on both sides.
        unsafe { to.add(i).write(byte(from.add(i)).load(Relaxed)) };
    }
}

#[inline(always)]
pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: the caller promises `len` bytes on both sides.
        unsafe { byte(to.add(i)).store(from.add(i).read(), Relaxed) };
    }
}

#[inline(always)]
pub(super) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    let one = |i: usize| {
        // SAFETY: the caller promises `len` bytes on both sides.
        unsafe { byte(to.add(i)).store(byte(from.add(i)).load(Relaxed), Relaxed) }
    };
    if (to as usize) <= (from as usize) {
        (0..len).for_each(one);
    } else {
        (0..len).rev().for_each(one);
    }
}

#[inline(always)]
pub(super) unsafe fn zero(at: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: the caller promises `len` bytes that it may write.
        unsafe { byte(at.add(i)).store(0, Relaxed) };
    }
}

#[inline(always)]
pub(super) fn prefetch(_at: *const u8) {}
