//! What the error families of structures have in common.

/// For an error enum with a variant `Pool` for the pool's own errors: whether the pool found no frame,
/// so that [`Space::when_admitted`](polder_pool::Space::when_admitted) calls the operation once more.
#[macro_export]
macro_rules! exhaustion_of {
    ($error:ident) => {
        impl polder_pool::Exhaustion for $error {
            #[inline]
            fn is_exhausted(&self) -> bool {
                matches!(self, $error::Pool(error) if error.is_exhausted())
            }
        }
    };
}
