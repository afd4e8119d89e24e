//! Chances for decisions where it does not matter much how fair they are: a number a thread.

#![cfg(not(loom))]

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    /// State of a xorshift; zero before the first number was drawn.
    static DICE: Cell<u32> = const { Cell::new(0) };
}

/// Where this thread's numbers begin: threads draw different ones, also those that draw only one.
/// (Weyl's sequence by the golden ratio, scattered as the last steps of MurmurHash3 do.)
#[cold]
fn seed() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    let mut seed = THREADS.fetch_add(0x9E37_79B9, Ordering::Relaxed).wrapping_add(0x9E37_79B9);
    seed = (seed ^ (seed >> 16)).wrapping_mul(0x85EB_CA6B);
    seed = (seed ^ (seed >> 13)).wrapping_mul(0xC2B2_AE35);
    (seed ^ (seed >> 16)).max(1)
}

/// A number.
pub(crate) fn draw() -> u32 {
    let mut dice = DICE.get();
    if dice == 0 {
        dice = seed();
    }
    dice ^= dice << 13;
    dice ^= dice >> 17;
    dice ^= dice << 5;
    DICE.set(dice);
    dice
}

/// Whether this time is one of `n`, a power of two.
pub(crate) fn one_in(n: u32) -> bool {
    draw().is_multiple_of(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that lives for one request draws as well as any other.
    #[test]
    fn threads_that_draw_once_draw_different_numbers() {
        let draws = 4096;
        let hits = (0..draws).filter(|_| std::thread::spawn(|| one_in(32)).join().unwrap()).count();
        assert!((64..256).contains(&hits), "{hits} instead of {}", draws / 32);
    }

    #[test]
    fn the_dice_are_fair() {
        let tries = 1 << 16;
        for n in [32, 512] {
            let expected = f64::from(tries) / f64::from(n);
            let hits = (0..tries).filter(|_| one_in(n)).count();
            assert!((hits as f64 / expected - 1.0).abs() < 0.3, "{hits} instead of {expected}");
        }
    }
}
