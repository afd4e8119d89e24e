//! How much is asked of a test that could go on for ever: seeds, rounds, steps.
//!
//! An ordinary run tries a part of what a long one does. A run is long where `POLDER_TEST_LONG` is
//! set, as `scripts/test --long` does. `POLDER_TEST_SCALE=10` asks ten times as
//! much of either.
//!
//! What is generic over translations takes longest to compile, once for each. So which translations are
//! tested is chosen when the tests are built: all, unless this crate has the feature `few-translations`,
//! as in an ordinary run of `scripts/test`. What a constant of this module leaves out is not compiled.

use std::env;
use std::ops::Range;

/// How many times as much as usual is asked of the tests.
pub fn scale() -> u64 {
    env::var("POLDER_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

/// Whether this is a long run.
pub fn is_long() -> bool {
    env::var_os("POLDER_TEST_LONG").is_some()
}

/// `few` in an ordinary run, `all` in a long one, times the scale.
pub fn steps(few: u64, all: u64) -> u64 {
    scale() * if is_long() { all } else { few }
}

/// The seeds that the environment variable names, as `a` or `a..b`; without it, the first of all
/// seeds, as many as [`steps`] says.
///
/// # Panics
/// If the variable is something else.
pub fn seeds(variable: &str, few: u64, all: u64) -> Range<u64> {
    let Ok(text) = env::var(variable) else { return 0..steps(few, all) };
    let mut ends = text.split("..").map(|end| end.parse::<u64>().expect("a seed is a number"));
    let first = ends.next().expect("seeds are `a` or `a..b`");
    first..ends.next().unwrap_or(first + 1)
}

/// Preemptions in models of loom that take up to a minute with three: two in an ordinary run.
pub fn preemptions() -> usize {
    if is_long() { 3 } else { 2 }
}

/// Whether tests are built for every translation.
pub const EVERY_TRANSLATION: bool = !cfg!(feature = "few-translations");

/// Runs what a test does with a translation, if tests are built for it; else the test is skipped. Always
/// built are those that differ for what is above the pool: found by number, or from links in pages; never
/// evicted; to learn from.
#[macro_export]
macro_rules! if_built {
    (Array, $run:expr) => {
        $run
    };
    (Swizzle, $run:expr) => {
        $run
    };
    (Direct, $run:expr) => {
        $run
    };
    (Sorted, $run:expr) => {
        $run
    };
    ($other:ident, $run:expr) => {
        if $crate::effort::EVERY_TRANSLATION {
            $run
        } else {
            $crate::found::skip($crate::effort::NOT_BUILT)
        }
    };
}

/// Makes a test for each of these translations, by its name, of what a function does with it; see
/// [`if_built!`](crate::if_built). Without a list it makes one for each of the pool's that evicts, and one
/// for `Direct`, which does not.
#[macro_export]
macro_rules! test_with {
    ($run:ident) => {
        polder_pool::translations!(test_with($run));
    };
    (
        $run:ident
        evicting { $($(#[$about:meta])* $translation:ident as $name:ident,)* }
        $($rest:tt)*
    ) => {
        $crate::test_with!($run: $($name: $translation,)* direct: Direct);
    };
    ($run:ident: $($name:ident: $translation:ident),+ $(,)?) => {
        $(#[test] fn $name() {
            $crate::if_built!($translation, $run::<polder_pool::$translation>());
        })+
    };
}

/// Why a test of a translation is skipped; `scripts/test` counts these together.
pub const NOT_BUILT: &str = "not built, but for `scripts/test --long`";
