//! Chances for decisions where it does not matter much how fair they are: a number a thread.

use std::cell::Cell;

thread_local! {
    /// State of a xorshift; any number but 0 will do.
    static DICE: Cell<u32> = const { Cell::new(0x9E37_79B9) };
}

/// A number.
pub(crate) fn draw() -> u32 {
    let mut dice = DICE.get();
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
