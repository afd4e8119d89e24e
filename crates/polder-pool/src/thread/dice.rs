//! Chances for decisions where it does not matter much how fair they are: numbers of a thread's own.

#![cfg(not(loom))]

/// A number.
pub(crate) fn draw() -> u32 {
    fastrand::u32(..)
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
