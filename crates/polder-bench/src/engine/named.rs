//! Engines as the command line names them: `device`, `polder:hash`, `polder:array+lru+group`.
//!
//! Behind the name of an engine of Polder may stand, each after a `+`, which pages go when room is
//! needed, how readers hold them, how many operations a client makes by one call (`many`, or
//! `many:64`), and tiers of memory (`memory.rs`). Behind one that lends values may stand `ref`: they
//! are read where they lie. What is not said is as a new store has it, operations are made one by
//! one, and values are copied. The whole name travels to workers and stands in results, so that it
//! always tells what was measured.

use std::fmt;

use polder::{ReadMode, ReplacementKind, UnknownReplacement};

use super::memory::Memory;
use super::{EngineKind, polder as on_polder};
use crate::error::BenchError;

/// An engine, and what was said of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) kind: EngineKind,
    replacement: Option<ReplacementKind>,
    hold: Option<ReadMode>,
    /// Operations of one kind that are made by one call.
    many: Option<usize>,
    /// Whether values are read where they lie.
    lends: bool,
    /// Tiers of memory.
    memory: Memory,
}

/// What has values read where they lie.
const LENDS: &str = "ref";

/// What `many` means.
const MANY: usize = 1024;
/// More than any caller would collect.
const MOST_MANY: usize = 1 << 20;

/// The number behind `many`; none if the word is another one.
fn many_of(word: &str) -> Option<Result<usize, String>> {
    let number = match word.strip_prefix("many")? {
        "" => return Some(Ok(MANY)),
        rest => rest.strip_prefix(':')?.parse().ok().filter(|n| (1..=MOST_MANY).contains(n)),
    };
    Some(number.ok_or_else(|| format!("{word}: a call has 1 to {MOST_MANY} operations")))
}

impl Named {
    /// The engine that `name` means.
    pub(crate) fn find(engines: &[EngineKind], name: &str) -> Result<Named, BenchError> {
        let (kind, words) = name.split_once('+').unwrap_or((name, ""));
        let found = engines.iter().find(|engine| engine.name == kind);
        let found = found.ok_or_else(|| {
            let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
            BenchError::NoSuchEngine { name: kind.to_owned(), known: names.join(", ") }
        })?;
        let mut named = Named {
            kind: *found,
            replacement: None,
            hold: None,
            many: None,
            lends: false,
            memory: Memory::default(),
        };
        for word in words.split('+').filter(|_| name != kind) {
            named.take(word).map_err(|why| BenchError::Options(format!("{name}: {why}")))?;
        }
        named.checked()
    }

    /// Takes what stands after a `+`.
    fn take(&mut self, word: &str) -> Result<(), String> {
        let said_before = if let Some(many) = many_of(word) {
            self.many.replace(many?).map(|old| format!("many:{old}"))
        } else if word == LENDS {
            std::mem::replace(&mut self.lends, true).then(|| LENDS.to_owned())
        } else if self.memory.take(word)? {
            None
        } else {
            match (word.parse(), word.parse()) {
                (Ok(replacement), _) => {
                    self.replacement.replace(replacement).map(|old| old.to_string())
                }
                (_, Ok(hold)) => self.hold.replace(hold).map(|old| old.to_string()),
                (Err(no_policy @ UnknownReplacement::Name(_)), Err(no_way)) => {
                    return Err(format!(
                        "{no_policy}; {no_way}; or many, many:KEYS, ref, mrc, fast:CACHES, slow:CACHES@NANOSECONDS"
                    ));
                }
                (Err(no_policy), _) => return Err(no_policy.to_string()),
            }
        };
        said_before.map_or(Ok(()), |old| Err(format!("it cannot be both {old} and {word}")))
    }

    /// The same, with these where its name does not say otherwise.
    pub(crate) fn or(
        self,
        replacement: Option<ReplacementKind>,
        hold: Option<ReadMode>,
    ) -> Result<Named, BenchError> {
        let replacement = self.replacement.or(replacement);
        Named { replacement, hold: self.hold.or(hold), ..self }.checked()
    }

    fn checked(self) -> Result<Named, BenchError> {
        let name = self.kind.name;
        on_polder::can_have(name, self.replacement, self.hold).map_err(BenchError::Options)?;
        let translation = on_polder::translation_of(name);
        let no_tiers = translation.and_then(|kind| kind.why_no_tiers());
        let why = if self.many.is_some() && translation.is_none() {
            "many is for Polder; others are asked key by key"
        } else if self.memory != Memory::default() && translation.is_none() {
            "not with this memory: sizes, tiers and mrc are for Polder"
        } else if let Some(why) = no_tiers.filter(|_| self.memory.has_tiers()) {
            &format!("not with this memory: {why}")
        } else if self.lends && !self.kind.lends {
            "it lends no values, but copies them"
        } else if self.lends && self.many.is_some() {
            "values are lent one by one: ref and many do not go together"
        } else {
            return Ok(self);
        };
        Err(BenchError::Options(format!("{name}: {why}")))
    }

    /// Which pages go when room is needed.
    pub(crate) fn replacement(&self) -> ReplacementKind {
        self.replacement.unwrap_or_default()
    }

    /// How readers hold pages.
    pub(crate) fn hold(&self) -> ReadMode {
        self.hold.unwrap_or_default()
    }

    /// Operations of one kind that are made by one call.
    pub(crate) fn many(&self) -> usize {
        self.many.unwrap_or(1)
    }

    /// Whether values are read where they lie.
    pub(crate) fn lends(&self) -> bool {
        self.lends
    }

    /// Tiers of memory.
    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// Whether both do the same in the same way, whatever their names.
    pub(crate) fn is_same(&self, other: &Named) -> bool {
        let all = |named: &Named| {
            let Named { kind, lends, memory, .. } = named;
            (kind.name, named.replacement(), named.hold(), named.many(), *lends, *memory)
        };
        all(self) == all(other)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        if let Some(replacement) = self.replacement {
            write!(f, "+{replacement}")?;
        }
        if let Some(hold) = self.hold {
            write!(f, "+{hold}")?;
        }
        if self.lends {
            write!(f, "+{LENDS}")?;
        }
        write!(f, "{}", self.memory)?;
        match self.many {
            Some(MANY) => f.write_str("+many"),
            Some(many) => write!(f, "+many:{many}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
