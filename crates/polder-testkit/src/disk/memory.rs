//! The memory of requests. Other threads may look at what a read fills, so that it is stored by
//! relaxed atomics, as everywhere in the pool; there is no reference to it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use polder_pool::device::Buffer;

/// Fills the buffer, as a read does.
///
/// # Safety
/// The buffer's batch is not complete, and the buffer is aligned to 8 and as long as `bytes`.
pub(super) unsafe fn fill(buffer: Buffer, bytes: &[u8]) {
    let words = buffer.as_ptr().cast::<u64>();
    for (i, word) in bytes.chunks_exact(8).enumerate() {
        let mut value = [0; 8];
        value.copy_from_slice(word);
        // SAFETY: mapped, and ours to write until the batch is complete (Buffer::new); aligned and
        // within the buffer by the caller's promise.
        unsafe { AtomicU64::from_ptr(words.add(i)) }.store(u64::from_ne_bytes(value), Relaxed);
    }
}

/// Copies what is in the buffer, as a write does.
///
/// # Safety
/// The buffer's batch is not complete, and the buffer is aligned to 8.
pub(super) unsafe fn copy(buffer: Buffer) -> Box<[u8]> {
    let words = buffer.as_ptr().cast::<u64>();
    let mut bytes = vec![0; buffer.len()].into_boxed_slice();
    for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
        // SAFETY: mapped until the batch is complete (Buffer::new); aligned by the caller's
        // promise, and within the buffer.
        let value = unsafe { AtomicU64::from_ptr(words.add(i)) }.load(Relaxed);
        word.copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}
