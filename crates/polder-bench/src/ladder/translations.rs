//! The translations that are compared, by their names, and which of them a part is compiled for.

use polder_pool::Translation as _;

/// Makes [`TranslationName`] of the pool's list, of all that is there to be compared.
macro_rules! names {
    (
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        steps { $($(#[$s:meta])* $step:ident as $sm:ident,)* }
        $($rest:tt)*
    ) => {
        names!([$($evicting)* $($resident)* $($step)*]);
    };
    ([$($translation:ident)*]) => {
        /// A translation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum TranslationName {
            $($translation),*
        }

        impl TranslationName {
            const ALL: &[TranslationName] = &[$(TranslationName::$translation),*];

            /// What results call it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(TranslationName::$translation => polder_pool::$translation::NAME),*
                }
            }
        }
    };
}
polder_pool::translations!(names);

impl TranslationName {
    /// The translation of this name.
    pub(crate) fn find(name: &str) -> Option<TranslationName> {
        TranslationName::ALL.iter().copied().find(|translation| translation.name() == name)
    }
}

/// `$module::$run` for each translation that a list of `sides.toml` has, and for no other: each
/// takes its time to compile.
macro_rules! instances {
    (peers, $($run:tt)*) => { polder_pool::translations!(instances(@peers [$($run)*])) };
    (steps, $($run:tt)*) => { polder_pool::translations!(instances(@steps [$($run)*])) };
    (evicting, $($run:tt)*) => { polder_pool::translations!(instances(@evicting [$($run)*])) };
    (engines, $($run:tt)*) => {
        instances!([
            Array ArrayPlain ArraySwizzled Direct Hash Open Predictive PredictiveHashed Simd SimdPlain
            Swizzle Vm VmHuge
        ] $($run)*)
    };
    (promoting, $($run:tt)*) => {
        instances!([Array PredictiveHashed Predictive Simd] $($run)*)
    };
    (holds, $($run:tt)*) => { instances!([Array Hash Simd SimdPlain] $($run)*) };
    (holds_larger, $($run:tt)*) => { instances!([Array Hash SimdPlain] $($run)*) };
    (copying, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    (cooled, $($run:tt)*) => { instances!([Swizzle] $($run)*) };
    (tiered, $($run:tt)*) => { instances!([Array Hash Predictive Simd Swizzle Vm] $($run)*) };
    (scanned, $($run:tt)*) => { instances!([Array Hash Simd Swizzle Vm] $($run)*) };
    (broken_down, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    (
        @$list:ident [$($run:tt)*]
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        steps { $($(#[$s:meta])* $step:ident as $sm:ident,)* }
        $($rest:tt)*
    ) => {
        instances!(@$list [$($evicting)*] [$($resident)*] [$($step)*] $($run)*)
    };
    (@evicting [$($evicting:ident)*] $resident:tt $steps:tt $($run:tt)*) => {
        instances!([$($evicting)*] $($run)*)
    };
    (@peers [$($evicting:ident)*] [$($resident:ident)*] $steps:tt $($run:tt)*) => {
        instances!([$($evicting)* $($resident)*] $($run)*)
    };
    (@steps [$($evicting:ident)*] [$($resident:ident)*] [$($step:ident)*] $($run:tt)*) => {
        instances!([$($evicting)* $($resident)* $($step)*] $($run)*)
    };
    ([$($translation:ident)*] $module:ident :: $run:ident) => {
        &[$((
            $crate::ladder::translations::TranslationName::$translation,
            $module::$run::<polder_pool::$translation>,
        )),*]
    };
}
pub(crate) use instances;
