//! Engines as the command line names them: `device`, `polder:hash`, `polder:array+lru+group`.
//!
//! Behind the name of an engine of Polder may stand, each after a `+`, which pages go when room is
//! needed, how readers hold them, how many operations a client makes by one call (`many`, or
//! `many:64`), how many terminals of TPC-C a thread serves at once (`tasks:8`), and tiers of memory.
//! Behind one that lends values may stand `ref`: they are read where they lie. What is not said is as
//! a new store has it, operations are made one by one, and values are copied. The whole name travels to
//! workers and stands in results, so that it always tells what was measured.
//!
//! Sizes of tiers are in caches, so that one line compares them: `fast:2` is a first tier of twice the
//! cache that all sides are given, `slow:0.25` a second one of a quarter. Behind an `@` stands how many
//! nanoseconds longer a line of it takes, simulated; more `slow:` are more tiers. `dr:`, `dw:`, `rr:` and
//! `rw:` are the probabilities of migration; without any of them the store finds them out. With `mrc`
//! it finds out as well what more memory would give.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use polder::{
    Migration, Options, ReadMode, ReplacementKind, Tier, TranslationKind, UnknownReplacement,
};

use super::EngineKind;
use crate::error::BenchError;
use crate::size::{parse_number, within};

/// What the names of all engines of Polder begin with.
pub(super) const POLDER: &str = "polder:";
/// What `many` means.
const MANY: usize = 1024;
/// More than any caller would collect.
const MOST_MANY: usize = 1 << 20;
/// More than any thread would serve.
const MOST_TASKS: usize = 1024;
/// Slower tiers at most.
const MOST_SLOW: usize = 3;
/// The words for the probabilities of migration.
const MIGRATION: [&str; 4] = ["dr", "dw", "rr", "rw"];

/// What may stand behind the name of an engine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    Replacement(ReplacementKind),
    Hold(ReadMode),
    /// Values are read where they lie.
    Ref,
    /// The first tier, in caches.
    Fast(f64),
    /// A slower tier, in caches, and the nanoseconds that a line of it takes longer.
    Slow(f64, u32),
    /// One of the probabilities of [`MIGRATION`].
    Migrate(usize, f64),
    /// Miss ratios are sampled.
    Mrc,
    /// Lookups that are made by one call.
    Many(usize),
    /// Terminals that a thread serves at once, by futures.
    Tasks(usize),
}

impl Word {
    /// The place among others in a name; also tells what is the same, and can be said once.
    fn rank(&self) -> usize {
        match self {
            Word::Replacement(_) => 0,
            Word::Hold(_) => 1,
            Word::Ref => 2,
            Word::Fast(_) => 3,
            Word::Slow(..) => 4,
            Word::Migrate(at, _) => 5 + at,
            Word::Mrc => 5 + MIGRATION.len(),
            Word::Many(_) => 6 + MIGRATION.len(),
            Word::Tasks(_) => 7 + MIGRATION.len(),
        }
    }
}

impl FromStr for Word {
    type Err = String;

    fn from_str(word: &str) -> Result<Word, String> {
        let about = |why: String| format!("{word}: {why}");
        let caches = |text: &str| within(parse_number, 0.001..=1000.0)(text).map_err(about);
        let (name, value) = word.split_once(':').unzip();
        let of_migration = MIGRATION.iter().position(|known| Some(*known) == name);
        Ok(match (name.unwrap_or(word), value, of_migration) {
            ("ref", None, _) => Word::Ref,
            ("mrc", None, _) => Word::Mrc,
            ("many", None, _) => Word::Many(MANY),
            ("many", Some(number), _) => {
                let many = within(parse_number, 1..=MOST_MANY)(number);
                Word::Many(many.map_err(|_| about(format!("a call has 1 to {MOST_MANY} lookups")))?)
            }
            ("tasks", Some(number), _) => {
                Word::Tasks(within(parse_number, 1..=MOST_TASKS)(number).map_err(about)?)
            }
            ("fast", Some(size), _) => Word::Fast(caches(size)?),
            ("slow", Some(value), _) => {
                let (size, nanos) = value.split_once('@').unwrap_or((value, "0"));
                Word::Slow(caches(size)?, parse_number(nanos).map_err(about)?)
            }
            (_, Some(probability), Some(at)) => {
                Word::Migrate(at, within(parse_number, 0.0..=1.0)(probability).map_err(about)?)
            }
            _ => match (word.parse(), word.parse()) {
                (Ok(replacement), _) => Word::Replacement(replacement),
                (_, Ok(hold)) => Word::Hold(hold),
                (Err(no_policy @ UnknownReplacement::Name(_)), Err(no_way)) => {
                    return Err(format!(
                        "{no_policy}; {no_way}; or many, many:KEYS, tasks:TERMINALS, ref, mrc, fast:CACHES, slow:CACHES@NANOSECONDS"
                    ));
                }
                (Err(no_policy), _) => return Err(no_policy.to_string()),
            },
        })
    }
}

/// As it is read.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Word::Replacement(replacement) => write!(f, "{replacement}"),
            Word::Hold(hold) => write!(f, "{hold}"),
            Word::Ref => f.write_str("ref"),
            Word::Fast(caches) => write!(f, "fast:{caches}"),
            Word::Slow(caches, 0) => write!(f, "slow:{caches}"),
            Word::Slow(caches, nanos) => write!(f, "slow:{caches}@{nanos}"),
            Word::Migrate(at, probability) => write!(f, "{}:{probability}", MIGRATION[at]),
            Word::Mrc => f.write_str("mrc"),
            Word::Many(MANY) => f.write_str("many"),
            Word::Many(many) => write!(f, "many:{many}"),
            Word::Tasks(tasks) => write!(f, "tasks:{tasks}"),
        }
    }
}

/// An engine, and what was said of it.
#[derive(Debug, Clone)]
pub struct Named {
    pub(crate) kind: EngineKind,
    /// By their rank.
    words: Vec<Word>,
}

impl Named {
    /// The engine that `name` means.
    pub(crate) fn find(engines: &[EngineKind], name: &str) -> Result<Named, BenchError> {
        let mut words = name.split('+');
        let kind = words.next().unwrap_or_default();
        let Some(found) = engines.iter().find(|engine| engine.name == kind) else {
            let known: Vec<_> = engines.iter().map(|engine| engine.name).collect();
            let why = format!("there is no engine {kind:?}; there are: {}", known.join(", "));
            return Err(BenchError::Options(why));
        };
        let mut named = Named { kind: *found, words: Vec::new() };
        let taken = words.try_for_each(|word| named.take(word.parse()?));
        taken.map_err(|why| BenchError::Options(format!("{name}: {why}")))?;
        match named.why_not() {
            Some(why) => Err(BenchError::Options(format!("{kind} {why}"))),
            None => Ok(named),
        }
    }

    /// Takes what stands after a `+`.
    fn take(&mut self, word: Word) -> Result<(), String> {
        let most = if matches!(word, Word::Slow(..)) { MOST_SLOW } else { 1 };
        let mut same = self.words.iter().filter(|other| other.rank() == word.rank());
        if let Some(other) = same.nth(most - 1) {
            return Err(format!("it cannot be both {other} and {word}"));
        }
        self.words.push(word);
        self.words.sort_by_key(Word::rank);
        Ok(())
    }

    /// Why the engine cannot be what was said of it, if that is so: what follows its name in a sentence.
    fn why_not(&self) -> Option<String> {
        let Some(kind) = self.translation() else {
            if self.words.iter().any(|word| *word != Word::Ref) {
                let why = "is not Polder: it has no policy, read mode or tiers of memory to choose, \
                           and many and tasks are for Polder, as in polder:array+lru+many";
                return Some(why.to_owned());
            }
            let copies = self.lends() && !self.kind.lends;
            return copies.then(|| "lends no values, but copies them".to_owned());
        };
        let said = |wanted: fn(&Word) -> bool| self.words.iter().any(wanted);
        if self.lends() && said(|word| matches!(word, Word::Many(_))) {
            return Some("lends values one by one: ref and many do not go together".to_owned());
        }
        if !kind.evicts() && said(|word| matches!(word, Word::Replacement(_))) {
            let policy = self.replacement();
            return Some(format!("never evicts: the replacement policy {policy} is not for it"));
        }
        let has_tiers = said(|word| matches!(word, Word::Slow(..)));
        if let Some(why) = kind.why_no_tiers().filter(|_| has_tiers) {
            return Some(format!("has no tiers of memory: {why}"));
        }
        let hold = self.hold();
        let why = kind.why_not(hold)?;
        let modes = ReadMode::ALL.iter().filter(|mode| kind.why_not(**mode).is_none());
        let modes: Vec<String> = modes.map(ReadMode::to_string).collect();
        Some(format!("has the read modes {} alone, and not {hold}: {why}", modes.join(" and ")))
    }

    /// What the first word of some kind says.
    fn said<T>(&self, of: impl Fn(&Word) -> Option<T>) -> Option<T> {
        self.words.iter().find_map(of)
    }

    /// The translation, if the engine is Polder.
    pub(crate) fn translation(&self) -> Option<TranslationKind> {
        self.kind.translation()
    }

    /// Which pages go when room is needed.
    pub(crate) fn replacement(&self) -> ReplacementKind {
        let of = |word: &Word| if let Word::Replacement(of) = word { Some(*of) } else { None };
        self.said(of).unwrap_or_default()
    }

    /// How readers hold pages.
    pub(crate) fn hold(&self) -> ReadMode {
        let of = |word: &Word| if let Word::Hold(of) = word { Some(*of) } else { None };
        self.said(of).unwrap_or_default()
    }

    /// Operations of one kind that are made by one call.
    pub(crate) fn many(&self) -> usize {
        let of = |word: &Word| if let Word::Many(of) = word { Some(*of) } else { None };
        self.said(of).unwrap_or(1)
    }

    /// Terminals that a thread serves at once, if that is said.
    pub(crate) fn tasks(&self) -> Option<usize> {
        self.said(|word: &Word| if let Word::Tasks(of) = word { Some(*of) } else { None })
    }

    /// Whether values are read where they lie.
    pub(crate) fn lends(&self) -> bool {
        self.words.contains(&Word::Ref)
    }

    /// The options of a store with all that was said, where a cache has so many bytes.
    pub(crate) fn of(&self, options: Options, cache_bytes: u64) -> Options {
        let tier = |caches: f64| Tier::new((cache_bytes as f64 * caches) as u64);
        let (mut tiers, mut migration) = (vec![tier(1.0)], None);
        for word in &self.words {
            match *word {
                Word::Fast(caches) => tiers[0] = tier(caches),
                Word::Slow(caches, nanos) => {
                    tiers.push(tier(caches).simulated(Duration::from_nanos(nanos.into())));
                }
                Word::Migrate(at, probability) => {
                    let of: &mut Migration = migration.get_or_insert_default();
                    *[
                        &mut of.read_promotes,
                        &mut of.write_promotes,
                        &mut of.loads_to_slower,
                        &mut of.evicts_to_slower,
                    ][at] = probability;
                }
                _ => {}
            }
        }
        let mut options = options
            .replacement(self.replacement())
            .read_mode(self.hold())
            .tiers(tiers)
            .miss_ratios(self.words.contains(&Word::Mrc));
        if let Some(translation) = self.translation() {
            options = options.translation(translation);
        }
        if let Some(migration) = migration { options.migration(migration) } else { options }
    }

    /// Whether both do the same in the same way, whatever their names.
    pub(crate) fn is_same(&self, other: &Named) -> bool {
        let all = |named: &Named| {
            let in_full = |word: &&Word| word.rank() > 1 && !matches!(word, Word::Many(_));
            let others: Vec<Word> = named.words.iter().filter(in_full).copied().collect();
            (named.kind.name, named.replacement(), named.hold(), named.many(), others)
        };
        all(self) == all(other)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        self.words.iter().try_for_each(|word| write!(f, "+{word}"))
    }
}

#[cfg(test)]
mod tests;
