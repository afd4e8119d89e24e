//! One match on the translation for each operation, then code that was made for it.

use std::fmt;
use std::sync::Arc;

use polder_pool::{Array, Direct, Hash, Open, Predictive, Simd, Translation, Vm, VmHuge};

use crate::engine::{Engine, TableCore};
use crate::options::TranslationKind;

/// Runs an expression for the variant that is there.
macro_rules! dispatch {
    ($any:expr, $it:ident => $body:expr) => {
        match $any {
            $crate::any::Any::Array($it) => $body,
            $crate::any::Any::Direct($it) => $body,
            $crate::any::Any::Hash($it) => $body,
            $crate::any::Any::Open($it) => $body,
            $crate::any::Any::Predictive($it) => $body,
            $crate::any::Any::Simd($it) => $body,
            $crate::any::Any::Vm($it) => $body,
            $crate::any::Any::VmHuge($it) => $body,
        }
    };
}

/// The same, wrapping what the expression gives in the same variant.
macro_rules! map_any {
    ($any:expr, $it:ident => $body:expr) => {
        match $any {
            $crate::any::Any::Array($it) => $crate::any::Any::Array($body),
            $crate::any::Any::Direct($it) => $crate::any::Any::Direct($body),
            $crate::any::Any::Hash($it) => $crate::any::Any::Hash($body),
            $crate::any::Any::Open($it) => $crate::any::Any::Open($body),
            $crate::any::Any::Predictive($it) => $crate::any::Any::Predictive($body),
            $crate::any::Any::Simd($it) => $crate::any::Any::Simd($body),
            $crate::any::Any::Vm($it) => $crate::any::Any::Vm($body),
            $crate::any::Any::VmHuge($it) => $crate::any::Any::VmHuge($body),
        }
    };
}

/// Runs an expression with the type of a translation.
macro_rules! with_kind {
    ($kind:expr, $type:ident => $body:expr) => {{
        use polder_pool as pool;
        use $crate::options::TranslationKind as Kind;
        macro_rules! with {
            ($variant:ident) => {{
                type $type = pool::$variant;
                $body
            }};
        }
        match $kind {
            Kind::Array => with!(Array),
            Kind::Direct => with!(Direct),
            Kind::Hash => with!(Hash),
            Kind::Open => with!(Open),
            Kind::Predictive => with!(Predictive),
            Kind::Simd => with!(Simd),
            Kind::Vm => with!(Vm),
            Kind::VmHuge => with!(VmHuge),
        }
    }};
}

pub(crate) use {dispatch, map_any, with_kind};

/// A type that exists once for each translation.
pub(crate) trait Family {
    type Of<T: Translation>;
}

/// An open store.
pub(crate) struct Engines;

impl Family for Engines {
    type Of<T: Translation> = Arc<Engine<T>>;
}

/// A table of one.
pub(crate) struct Tables;

impl Family for Tables {
    type Of<T: Translation> = Arc<TableCore<T>>;
}

/// A translation that a store can have.
pub(crate) trait Variant: Translation {
    /// What is there, if it is of this translation.
    fn of<F: Family>(any: &Any<F>) -> Option<&F::Of<Self>>;
    fn wrap<F: Family>(it: F::Of<Self>) -> Any<F>;
}

/// The list of them; all else follows from it.
macro_rules! variants {
    ($($variant:ident),+ $(,)?) => {
        /// The member of a family that is there.
        pub(crate) enum Any<F: Family> {
            $($variant(F::Of<$variant>),)+
        }

        impl<F: Family> Any<F> {
            /// Which it is.
            pub(crate) fn kind(&self) -> TranslationKind {
                match self {
                    $(Any::$variant(_) => TranslationKind::$variant,)+
                }
            }
        }

        $(impl Variant for $variant {
            fn of<F: Family>(any: &Any<F>) -> Option<&F::Of<Self>> {
                match any {
                    Any::$variant(it) => Some(it),
                    _ => None,
                }
            }

            fn wrap<F: Family>(it: F::Of<Self>) -> Any<F> {
                Any::$variant(it)
            }
        })+
    };
}

variants!(Array, Direct, Hash, Open, Predictive, Simd, Vm, VmHuge);

impl<F: Family> fmt::Debug for Any<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind(), f)
    }
}

impl Clone for Any<Engines> {
    fn clone(&self) -> Self {
        map_any!(self, it => Arc::clone(it))
    }
}

impl Clone for Any<Tables> {
    fn clone(&self) -> Self {
        map_any!(self, it => Arc::clone(it))
    }
}
