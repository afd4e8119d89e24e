//! Engines as the command line names them: `device`, `polder:hash`, `polder:array+lru+group`.
//!
//! Behind the name of an engine of Polder may stand, each after a `+`, which pages go when room is
//! needed and how readers hold them. What is not said is as a new store has it. The whole name
//! travels to workers and stands in results, so that it always tells what was measured.

use std::fmt;

use polder::{Hold, ReplacementKind, UnknownReplacement};

use super::{EngineKind, polder as on_polder};
use crate::error::BenchError;

/// An engine, and what was said of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) kind: EngineKind,
    replacement: Option<ReplacementKind>,
    hold: Option<Hold>,
}

impl Named {
    /// The engine that `name` means.
    pub(crate) fn find(engines: &[EngineKind], name: &str) -> Result<Named, BenchError> {
        let (kind, words) = name.split_once('+').unwrap_or((name, ""));
        let found = engines.iter().find(|engine| engine.name == kind).copied();
        let mut named = found.map(Named::from).ok_or_else(|| {
            let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
            BenchError::NoSuchEngine { name: kind.to_owned(), known: names.join(", ") }
        })?;
        for word in words.split('+').filter(|_| name != kind) {
            named.take(word).map_err(|why| BenchError::Options(format!("{name}: {why}")))?;
        }
        named.checked()
    }

    /// Takes what stands after a `+`.
    fn take(&mut self, word: &str) -> Result<(), String> {
        let said_before = match (word.parse(), word.parse()) {
            (Ok(replacement), _) => {
                self.replacement.replace(replacement).map(|old| old.to_string())
            }
            (_, Ok(hold)) => self.hold.replace(hold).map(|old| old.to_string()),
            (Err(no_policy @ UnknownReplacement::Name(_)), Err(no_way)) => {
                return Err(format!("{no_policy}; {no_way}"));
            }
            (Err(no_policy), _) => return Err(no_policy.to_string()),
        };
        said_before.map_or(Ok(()), |old| Err(format!("it cannot be both {old} and {word}")))
    }

    /// The same, with these where its name does not say otherwise.
    pub(crate) fn or(
        self,
        replacement: Option<ReplacementKind>,
        hold: Option<Hold>,
    ) -> Result<Named, BenchError> {
        let replacement = self.replacement.or(replacement);
        Named { replacement, hold: self.hold.or(hold), ..self }.checked()
    }

    fn checked(self) -> Result<Named, BenchError> {
        on_polder::can_have(self.kind.name, self.replacement, self.hold)
            .map_err(BenchError::Options)?;
        Ok(self)
    }

    /// Which pages go when room is needed.
    pub(crate) fn replacement(&self) -> ReplacementKind {
        self.replacement.unwrap_or_default()
    }

    /// How readers hold pages.
    pub(crate) fn hold(&self) -> Hold {
        self.hold.unwrap_or_default()
    }

    /// Whether both do the same in the same way, whatever their names.
    pub(crate) fn is_same(&self, other: &Named) -> bool {
        let all = |named: &Named| (named.kind.name, named.replacement(), named.hold());
        all(self) == all(other)
    }
}

impl From<EngineKind> for Named {
    fn from(kind: EngineKind) -> Named {
        Named { kind, replacement: None, hold: None }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        if let Some(replacement) = self.replacement {
            write!(f, "+{replacement}")?;
        }
        self.hold.map_or(Ok(()), |hold| write!(f, "+{hold}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::built_in;

    fn find(name: &str) -> Result<Named, BenchError> {
        Named::find(&built_in(), name)
    }

    #[test]
    fn names_say_policies_and_ways_in_any_order() {
        for replacement in ReplacementKind::ALL {
            let name = format!("polder:array+{replacement}");
            let named = find(&name).unwrap();
            assert_eq!((named.replacement(), named.hold()), (replacement, Hold::Optimistic));
            assert_eq!(named.to_string(), name);
        }
        for hold in Hold::ALL {
            let named = find(&format!("polder:simd+{hold}+cooling:20")).unwrap();
            assert_eq!(named.replacement(), ReplacementKind::Cooling { percent: 20 });
            assert_eq!(named.hold(), hold);
            assert_eq!(named.to_string(), format!("polder:simd+cooling:20+{hold}"));
        }
        for name in ["polder:array+group:4", "polder:simd+copy:1", "polder:vm+lru+group:512"] {
            assert_eq!(find(name).unwrap().to_string(), name);
        }
        let (four, all) = (find("polder:array+group:4"), find("polder:array+group"));
        assert!(!four.unwrap().is_same(&all.unwrap()));
        assert_eq!(find("device").unwrap().to_string(), "device");
    }

    #[test]
    fn options_hold_for_what_names_leave_open() {
        let (lru, group) = (Some(ReplacementKind::Lru), Some(Hold::Group));
        let named = |name: &str| find(name).unwrap().or(lru, group).unwrap().to_string();
        assert_eq!(named("polder:array"), "polder:array+lru+group");
        assert_eq!(named("polder:array+watt"), "polder:array+watt+group");
        assert_eq!(named("polder:array+shared"), "polder:array+lru+shared");
        assert!(find("polder:array").unwrap().is_same(&find("polder:array+clock").unwrap()));
        assert!(!find("polder:array").unwrap().is_same(&find("polder:array+lru").unwrap()));
        assert!(!find("polder:array").unwrap().is_same(&find("polder:hash").unwrap()));
    }

    #[test]
    fn what_cannot_be_is_refused_in_a_sentence() {
        let why = |name: &str| match find(name) {
            Err(BenchError::Options(why)) => why,
            other => panic!("{name}: {other:?}"),
        };
        let unknown = why("polder:array+arc");
        assert!(unknown.contains("hyperbolic") && unknown.contains("optimistic"), "{unknown}");
        assert!(why("polder:array+").contains("hyperbolic"));
        assert!(why("polder:array+cooling:95").contains("90"));
        assert_eq!(why("polder:array+lru+2q"), "polder:array+lru+2q: it cannot be both lru and 2q");
        assert!(why("polder:array+core+core").contains("both core and core"));
        assert!(why("device+lru").contains("device is not Polder"));
        assert!(why("device+shared").contains("device is not Polder"));
        assert!(why("polder:direct+clock").contains("never evicts"));
        assert!(why("polder:vm-huge+lru").contains("never evicts"));
        assert!(find("polder:direct+shared").is_ok());
        assert!(why("polder:predictive+group").contains("shared"));
        assert!(why("polder:predictive+group:4").contains("shared"));
        assert!(why("polder:vm+copy:4").contains("copy:4"));
        assert!(why("polder:array+group:0").contains("1 to 512"));
        assert!(matches!(find("nobody+lru"), Err(BenchError::NoSuchEngine { .. })));
    }
}
