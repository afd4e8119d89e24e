//! What is compared: a translation, how readers hold pages on it, which pages go when room is
//! needed, and whether the kernel may back memory by huge pages. A side is known by its name, which
//! says all of that; `sides.toml` has the lists of sides.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use polder_pool::ReadMode;
use polder_pool::replacement::ReplacementKind;
use serde::Deserialize;

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Side {
    /// What results call it.
    pub(crate) name: &'static str,
    /// What the pool calls it.
    pub(crate) translation: &'static str,
    pub(crate) hold: ReadMode,
    pub(crate) replacement: ReplacementKind,
    /// Else the whole process does without: frames, tables and all.
    pub(crate) huge_pages: bool,
    /// The process may have no more memory than the others' budget, and the kernel swaps the rest.
    pub(crate) swapped: bool,
}

static LISTS: LazyLock<BTreeMap<String, Vec<Side>>> = LazyLock::new(|| {
    toml::from_str(include_str!("sides.toml")).expect("a test reads each list of the file")
});

/// A list of `sides.toml`; empty if there is none of that name.
pub(crate) fn list(name: &str) -> &'static [Side] {
    LISTS.get(name).map_or(&[], Vec::as_slice)
}

impl TryFrom<String> for Side {
    type Error = String;

    /// Reads a name: a translation, and what may stand behind it, each after a comma.
    fn try_from(name: String) -> Result<Side, String> {
        // There are a few dozen, in lists that live as long as the program.
        let name: &'static str = name.leak();
        let mut words = name.split(", ");
        let mut side = Side {
            name,
            translation: words.next().unwrap_or_default(),
            hold: ReadMode::Optimistic,
            replacement: ReplacementKind::default(),
            huge_pages: true,
            swapped: false,
        };
        for word in words {
            match (word, word.parse(), word.parse()) {
                ("small pages", ..) => side.huge_pages = false,
                ("swapped", ..) => side.swapped = true,
                (_, Ok(replacement), _) => side.replacement = replacement,
                (_, _, Ok(hold)) => side.hold = hold,
                _ => return Err(format!("nobody knows what {word:?} means in {name:?}")),
            }
        }
        Ok(side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str) -> Side {
        Side::try_from(name.to_owned()).unwrap()
    }

    #[test]
    fn a_name_says_all_of_a_side() {
        let plain = side("swizzle");
        assert_eq!((plain.hold, plain.replacement), Default::default());
        assert!(plain.huge_pages && !plain.swapped);
        let cooling = side("swizzle, cooling, shared");
        assert_eq!(cooling.replacement, ReplacementKind::Cooling { percent: 10 });
        assert_eq!((cooling.hold, cooling.translation), (ReadMode::Shared, "swizzle"));
        assert_eq!(side("simd-plain, group:4").hold.to_string(), "group:4");
        assert_eq!(side("hash, lru, shared").replacement, ReplacementKind::Lru);
        assert!(!side("hash, small pages").huge_pages && side("direct, swapped").swapped);
        assert_eq!(side("hash+optimistic").translation, "hash+optimistic");
        assert!(Side::try_from("array, huge".to_owned()).is_err());
    }

    #[test]
    fn each_list_has_sides() {
        assert!(LISTS.values().all(|sides| !sides.is_empty()));
        assert_eq!(list("peers").len(), 10);
    }
}
