//! What is compared: a translation, how readers hold pages on it, which pages go when room is
//! needed, and whether the kernel may back memory by huge pages. A side is known by its name, which
//! says all of that; `sides.toml` has the lists of sides, in which a section of the pool's list of
//! translations stands for those that are in it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use polder::TranslationKind;
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

static LISTS: LazyLock<BTreeMap<String, List>> = LazyLock::new(|| {
    toml::from_str(include_str!("sides.toml")).expect("a test reads each list of the file")
});

/// Sides, of which a file may name many by one word.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct List(pub(crate) Vec<Side>);

impl TryFrom<Vec<String>> for List {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<List, String> {
        let named = |word: String| {
            let kinds = match &*word {
                "*evicting" => TranslationKind::EVICTING,
                "*resident" => TranslationKind::RESIDENT,
                section if section.starts_with('*') => {
                    return vec![Err(format!("there is no section {section:?}"))];
                }
                _ => return vec![Side::try_from(word)],
            };
            kinds.iter().map(|kind| Side::try_from(kind.name().to_owned())).collect()
        };
        Ok(List(words.into_iter().flat_map(named).collect::<Result<_, _>>()?))
    }
}

/// A list of `sides.toml`; empty if there is none of that name.
pub(crate) fn list(name: &str) -> &'static [Side] {
    LISTS.get(name).map_or(&[], |List(sides)| sides)
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
        assert!(LISTS.values().all(|List(sides)| !sides.is_empty()));
        let kinds = TranslationKind::ALL.iter().map(|kind| kind.name());
        let peers = list("peers").iter().map(|side| side.name);
        assert!(kinds.eq(peers), "the peers are those that a store can have");
        assert!(List::try_from(vec!["*evicted".to_owned()]).is_err());
    }
}
