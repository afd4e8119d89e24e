//! The translations that are compared, by their names, and which of them a part is compiled for.

/// Makes [`TranslationName`] of the types of `polder_pool` and their names.
macro_rules! translations {
    ($($translation:ident $name:literal,)*) => {
        /// A translation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum TranslationName {
            $($translation),*
        }

        impl TranslationName {
            /// The translation of this name.
            pub(crate) fn find(name: &str) -> Option<TranslationName> {
                match name {
                    $($name => Some(TranslationName::$translation),)*
                    _ => None,
                }
            }

            /// What results call it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(TranslationName::$translation => $name),*
                }
            }
        }
    };
}

translations! {
    Array "array",
    ArrayPlain "array-plain",
    ArraySwizzled "array-swizzled",
    Direct "direct",
    Hash "hash",
    HashOptimistic "hash+optimistic",
    HashInlined "hash+inlined",
    HashPreferred "hash+preferred",
    HashOptimisticInlined "hash+optimistic+inlined",
    PredictiveHashed "predictive-hashed",
    Open "open",
    Predictive "predictive",
    Simd "simd",
    SimdPlain "simd-plain",
    Swizzle "swizzle",
    Vm "vm",
    VmHuge "vm-huge",
}

/// `$module::$run` for each translation that a list of `sides.toml` has, and for no other: each takes
/// its time to compile.
macro_rules! instances {
    (peers, $($run:tt)*) => {
        instances!([Array ArraySwizzled Direct Hash Open Predictive Simd Swizzle Vm VmHuge] $($run)*)
    };
    (engines, $($run:tt)*) => {
        instances!([
            Array ArrayPlain ArraySwizzled Direct Hash Open Predictive PredictiveHashed Simd SimdPlain
            Swizzle Vm VmHuge
        ] $($run)*)
    };
    (steps, $($run:tt)*) => {
        instances!([
            Array ArrayPlain ArraySwizzled Direct Hash HashOptimistic HashInlined HashPreferred
            HashOptimisticInlined PredictiveHashed Open Predictive Simd SimdPlain Swizzle Vm VmHuge
        ] $($run)*)
    };
    (evicting, $($run:tt)*) => {
        instances!([Array ArraySwizzled Hash Open Predictive Simd Swizzle Vm] $($run)*)
    };
    (promoting, $($run:tt)*) => {
        instances!([Array PredictiveHashed Predictive Simd] $($run)*)
    };
    (holds, $($run:tt)*) => { instances!([Array Hash Simd SimdPlain] $($run)*) };
    (holds_larger, $($run:tt)*) => { instances!([Array Hash SimdPlain] $($run)*) };
    (copying, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    (cooled, $($run:tt)*) => { instances!([Swizzle] $($run)*) };
    (scanned, $($run:tt)*) => { instances!([Array Hash Simd Swizzle Vm] $($run)*) };
    (broken_down, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    ([$($translation:ident)*] $module:ident :: $run:ident) => {
        &[$((
            $crate::ladder::translations::TranslationName::$translation,
            $module::$run::<polder_pool::$translation>,
        )),*]
    };
}
pub(crate) use instances;
