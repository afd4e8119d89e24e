//! One match on the translation for each operation, then code that was made for it.

use std::fmt;

use polder_pool::Translation;

use crate::kind::TranslationKind;

/// A type that exists once for each translation.
pub(crate) trait Family {
    type Of<T: Translation>;
}

/// A translation that a store can have.
pub(crate) trait Variant: Translation {
    /// What is there, if it is of this translation.
    fn of<F: Family>(any: &Any<F>) -> Option<&F::Of<Self>>;
    fn wrap<F: Family>(it: F::Of<Self>) -> Any<F>;
}

/// Makes all that follows from the list of translations. (`$` in the macros that it makes is `$d`.)
///
/// Unit tests of this crate are of parts that no translation touches. They have the default alone: the
/// engine would be compiled ten times more for them.
macro_rules! variants {
    (
        ($d:tt)
        evicting { $(
            $(#[doc = $e_about:literal])+
            $(#[cfg($e_needs:meta)])?
            $evicting:ident as $e:ident,
        )* }
        resident { $(
            $(#[doc = $r_about:literal])+
            $(#[cfg($r_needs:meta)])?
            $resident:ident as $r:ident,
        )* }
        $($rest:tt)*
    ) => {
        variants!(@ $d $($evicting ($($e_needs)?),)* $($resident ($($r_needs)?),)*);
    };
    (@ $d:tt $($variant:ident ($($needs:meta)?),)+) => {
        /// The member of a family that is there.
        pub(crate) enum Any<F: Family> {
            $(
                #[cfg(all($(not(test), $needs)?))]
                $variant(F::Of<polder_pool::$variant>),
            )+
        }

        impl<F: Family> Any<F> {
            /// Which it is.
            pub(crate) fn kind(&self) -> TranslationKind {
                match self {
                    $(#[cfg(all($(not(test), $needs)?))]
                    Any::$variant(_) => TranslationKind::$variant,)+
                }
            }
        }

        $(#[cfg(all($(not(test), $needs)?))]
        impl Variant for polder_pool::$variant {
            fn of<F: Family>(any: &Any<F>) -> Option<&F::Of<Self>> {
                #[allow(unreachable_patterns, reason = "there may be one variant alone")]
                match any {
                    Any::$variant(it) => Some(it),
                    _ => None,
                }
            }

            fn wrap<F: Family>(it: F::Of<Self>) -> Any<F> {
                Any::$variant(it)
            }
        })+

        /// Runs an expression for the variant that is there.
        macro_rules! dispatch {
            ($d any:expr, $d it:ident => $d body:expr) => {
                match $d any {
                    $(#[cfg(all($(not(test), $needs)?))]
                    $crate::any::Any::$variant($d it) => $d body,)+
                }
            };
        }

        /// The same, wrapping what the expression gives in the same variant.
        macro_rules! map_any {
            ($d any:expr, $d it:ident => $d body:expr) => {
                match $d any {
                    $(#[cfg(all($(not(test), $needs)?))]
                    $crate::any::Any::$variant($d it) => $crate::any::Any::$variant($d body),)+
                }
            };
        }

        /// Runs an expression with the type of a translation.
        macro_rules! with_kind {
            ($d kind:expr, $d type:ident => $d body:expr) => {
                match $d kind {
                    $(#[cfg(all($(not(test), $needs)?))]
                    $crate::kind::TranslationKind::$variant => {
                        type $d type = polder_pool::$variant;
                        $d body
                    })+
                    #[cfg(test)]
                    kind => unreachable!("unit tests are built without {kind}"),
                }
            };
        }
    };
}

polder_pool::translations!(variants (($)));

impl<F: Family> fmt::Debug for Any<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind(), f)
    }
}

// Made by a macro, of which the lint does not know.
#[allow(clippy::single_component_path_imports)]
pub(crate) use {dispatch, map_any, with_kind};
