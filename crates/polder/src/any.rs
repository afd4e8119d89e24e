//! One match on the translation for each operation, then code that was made for it.

use std::sync::Arc;

/// A thing that exists once for each translation.
#[derive(Debug)]
pub(crate) enum Any<A, D> {
    Array(A),
    Direct(D),
}

impl<A, D> Clone for Any<Arc<A>, Arc<D>> {
    fn clone(&self) -> Self {
        match self {
            Any::Array(array) => Any::Array(Arc::clone(array)),
            Any::Direct(direct) => Any::Direct(Arc::clone(direct)),
        }
    }
}

/// Runs an expression for the variant that is there.
macro_rules! dispatch {
    ($any:expr, $it:ident => $body:expr) => {
        match $any {
            $crate::any::Any::Array($it) => $body,
            $crate::any::Any::Direct($it) => $body,
        }
    };
}

/// The same, wrapping what the expression gives in the same variant.
macro_rules! map_any {
    ($any:expr, $it:ident => $body:expr) => {
        match $any {
            $crate::any::Any::Array($it) => $crate::any::Any::Array($body),
            $crate::any::Any::Direct($it) => $crate::any::Any::Direct($body),
        }
    };
}

pub(crate) use {dispatch, map_any};
