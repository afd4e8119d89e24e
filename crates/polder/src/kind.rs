//! The translations that a store can have, by the names that users know.

use std::fmt;

use polder_pool::Translation as _;
use polder_pool::translation::ReadModes;

/// Makes the kinds of the pool's list that a store can have.
macro_rules! kinds {
    (
        evicting { $($(#[doc = $evicting_about:literal])+ $evicting:ident as $e:ident,)* }
        resident { $($(#[doc = $resident_about:literal])+ $resident:ident as $r:ident,)* }
        $($rest:tt)*
    ) => {
        /// How a page id becomes a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum TranslationKind {
            $($(#[doc = $evicting_about])+ $evicting,)*
            $($(#[doc = $resident_about])+ $resident,)*
        }

        impl TranslationKind {
            /// All of them; the first is the default.
            pub const ALL: [TranslationKind;
                TranslationKind::EVICTING.len() + TranslationKind::RESIDENT.len()] =
                [$(Self::$evicting,)* $(Self::$resident,)*];
            /// Those that evict.
            pub const EVICTING: &[TranslationKind] = &[$(Self::$evicting),*];
            /// Those that never evict: all data must fit in the budget.
            pub const RESIDENT: &[TranslationKind] = &[$(Self::$resident),*];

            /// What users call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$evicting => polder_pool::$evicting::NAME,)*
                    $(Self::$resident => polder_pool::$resident::NAME,)*
                }
            }

            /// What it is, in a sentence or two.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$evicting => concat!($($evicting_about),+).trim_start(),)*
                    $(Self::$resident => concat!($($resident_about),+).trim_start(),)*
                }
            }

            /// How readers can hold pages on it, and why not otherwise.
            pub const fn read_modes(self) -> ReadModes {
                match self {
                    $(Self::$evicting => polder_pool::$evicting::READ_MODES,)*
                    $(Self::$resident => polder_pool::$resident::READ_MODES,)*
                }
            }
        }
    };
}
polder_pool::translations!(kinds);

impl TranslationKind {
    /// The names of all, for help texts and messages.
    pub fn names() -> String {
        TranslationKind::ALL.map(TranslationKind::name).join(", ")
    }

    /// Whether pages are evicted.
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
