//! The translations that a store can have, by the names that users know.

use std::fmt;

#[cfg(feature = "tiers")]
use polder_pool::translation::PageMemory;
use polder_pool::translation::ReadModes;
use polder_pool::{ReadMode, Translation as _};

/// Makes the kinds of the pool's list that a store can have. All but the default are behind the
/// feature that the list names.
macro_rules! kinds {
    (
        evicting { $(
            $(#[doc = $e_about:literal])+
            $(#[cfg(feature = $e_feature:literal)])?
            $evicting:ident as $e:ident,
        )* }
        resident { $(
            $(#[doc = $r_about:literal])+
            $(#[cfg(feature = $r_feature:literal)])?
            $resident:ident as $r:ident,
        )* }
        $($rest:tt)*
    ) => {
        kinds!(all
            $($evicting ($($e_feature)?) ($($e_about)+),)*
            $($resident ($($r_feature)?) ($($r_about)+),)*
        );
        kinds!(EVICTING "Those of them that evict." $($evicting ($($e_feature)?),)*);
        kinds!(
            RESIDENT "Those of them that never evict: all data must fit in the budget."
            $($resident ($($r_feature)?),)*
        );
    };
    (all $($kind:ident ($($feature:literal)?) ($($about:literal)+),)*) => {
        /// How a page id becomes a frame.
        ///
        /// [`Array`](TranslationKind::Array) is always there. Each of the others is a feature of this
        /// crate, called as the translation is ([`name`](TranslationKind::name)); all of them are
        /// `all-translations`. A program compiles faster and is smaller without those that it never
        /// asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum TranslationKind {
            $(
                $(#[doc = $about])+
                #[cfg(all($(feature = $feature)?))]
                $kind,
            )*
        }

        impl TranslationKind {
            /// All that are built in; the first is the default.
            pub const ALL: &[TranslationKind] =
                &[$(#[cfg(all($(feature = $feature)?))] Self::$kind),*];
            /// The features of this crate with which there are others than the default.
            pub(crate) const FEATURES: &[&str] = &[$($($feature,)?)*];

            /// What users call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(#[cfg(all($(feature = $feature)?))]
                    Self::$kind => polder_pool::$kind::NAME,)*
                }
            }

            /// What it is, in a sentence or two.
            pub fn about(self) -> &'static str {
                match self {
                    $(#[cfg(all($(feature = $feature)?))]
                    Self::$kind => concat!($($about),+).trim_start(),)*
                }
            }

            #[cfg(feature = "tiers")]
            const fn memory(self) -> PageMemory {
                match self {
                    $(#[cfg(all($(feature = $feature)?))]
                    Self::$kind => polder_pool::$kind::MEMORY,)*
                }
            }

            /// Why there cannot be several tiers of memory with the translation; `None` if there can.
            ///
            /// ```
            /// assert_eq!(polder::TranslationKind::Array.why_no_tiers(), None);
            /// ```
            pub const fn why_no_tiers(self) -> Option<&'static str> {
                match self {
                    $(#[cfg(all($(feature = $feature)?))]
                    Self::$kind => polder_pool::$kind::WHY_NO_TIERS,)*
                }
            }

            const fn read_modes(self) -> ReadModes {
                match self {
                    $(#[cfg(all($(feature = $feature)?))]
                    Self::$kind => polder_pool::$kind::READ_MODES,)*
                }
            }
        }
    };
    ($list:ident $about:literal $($kind:ident ($($feature:literal)?),)*) => {
        impl TranslationKind {
            #[doc = $about]
            pub const $list: &[TranslationKind] =
                &[$(#[cfg(all($(feature = $feature)?))] Self::$kind),*];
        }
    };
}
polder_pool::translations!(kinds);

impl TranslationKind {
    /// The names of all that are built in, for help texts and messages.
    ///
    /// ```
    /// assert!(polder::TranslationKind::names().starts_with("array"));
    /// ```
    pub fn names() -> String {
        let names: Vec<_> = TranslationKind::ALL.iter().map(|kind| kind.name()).collect();
        names.join(", ")
    }

    /// Why readers cannot hold pages in this way with it; none if they can.
    ///
    /// ```
    /// use polder::{ReadMode, TranslationKind};
    /// assert_eq!(TranslationKind::Array.why_not(ReadMode::Copy), None);
    /// ```
    pub const fn why_not(self, read_mode: ReadMode) -> Option<&'static str> {
        self.read_modes().why_not(read_mode)
    }

    /// Whether each page has an address of its own, behind which the kernel puts memory.
    #[cfg(feature = "tiers")]
    pub(crate) const fn has_addresses(self) -> bool {
        self.memory().has_addresses()
    }

    /// Whether pages are evicted.
    ///
    /// ```
    /// assert!(polder::TranslationKind::Array.evicts());
    /// ```
    pub fn evicts(self) -> bool {
        TranslationKind::EVICTING.contains(&self)
    }
}

impl Default for TranslationKind {
    fn default() -> TranslationKind {
        TranslationKind::ALL[0]
    }
}

impl fmt::Display for TranslationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each feature that the list of translations names is one of this crate, and has the name of the
    /// translation that it brings.
    #[test]
    fn each_translation_but_the_default_is_a_feature_of_its_name() {
        let names: Vec<_> = TranslationKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names[0], TranslationKind::default().name());
        assert!(names[1..].iter().all(|name| TranslationKind::FEATURES.contains(name)));
        if cfg!(feature = "all-translations") {
            assert_eq!(names[1..], *TranslationKind::FEATURES);
        }
    }
}
