//! Runs of bytes, read and written by the words of [`super::raw`].

use super::raw::{
    Word128, load_128, load_u8, load_u64, move_blocks, store_128, store_u8, store_u64,
};

/// From a page to private memory.
#[inline(always)]
pub(super) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes on both sides; every access below stays within.
    unsafe {
        if len >= 16 {
            let mut done = 0;
            while done + 16 <= len {
                to.add(done).cast::<Word128>().write_unaligned(load_128(from.add(done)));
                done += 16;
            }
            if done < len {
                let last = len - 16;
                to.add(last).cast::<Word128>().write_unaligned(load_128(from.add(last)));
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
                store_128(to.add(done), from.add(done).cast::<Word128>().read_unaligned());
                done += 16;
            }
            if done < len {
                let last = len - 16;
                store_128(to.add(last), from.add(last).cast::<Word128>().read_unaligned());
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

/// Within pages, or from one to another; the two runs may overlap.
#[inline(always)]
pub(super) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` bytes on both sides. The order of the steps is such
    // that no byte is overwritten before it was read.
    unsafe {
        if (to as usize) <= (from as usize) {
            let mut done = move_blocks(from, to, len);
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
    // SAFETY: the caller promises `len` bytes that it may write; zeros are a word.
    unsafe {
        let mut done = 0;
        while done + 16 <= len {
            store_128(at.add(done), std::mem::zeroed());
            done += 16;
        }
        while done < len {
            store_u8(at.add(done), 0);
            done += 1;
        }
    }
}
