//! Memory in tiers, as it stands behind the name of an engine: `polder:array+slow:1@300`.
//!
//! Sizes are in caches, so that one line compares them: `fast:2` is a first tier of twice the cache that
//! all sides are given, `slow:0.25` a second one of a quarter. Behind an `@` stands how many nanoseconds
//! longer a line of it takes, simulated; more `slow:` are more tiers. `dr:`, `dw:`, `rr:` and `rw:` are
//! the probabilities of migration; without any of them the store finds them out. With `mrc` it
//! finds out as well what more memory would give.

use std::fmt;
use std::time::Duration;

use polder::{Migration, Options, Tier};

/// Slower tiers at most.
const MOST_SLOW: usize = 3;

/// The words for the probabilities of migration.
const MIGRATION: [&str; 4] = ["dr", "dw", "rr", "rw"];

/// The word for miss ratios.
const MRC: &str = "mrc";

/// Tiers, what goes where, and whether it is watched.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// The first tier, in caches; none: one of them.
    fast: Option<f64>,
    slow: [Option<Slow>; MOST_SLOW],
    /// The probabilities of [`MIGRATION`].
    migration: [Option<f64>; MIGRATION.len()],
    /// Whether miss ratios are sampled.
    mrc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Slow {
    caches: f64,
    nanos: u32,
}

impl Memory {
    /// Takes a word that stands behind a name. False if it is not about memory.
    pub(crate) fn take(&mut self, word: &str) -> Result<bool, String> {
        if word == MRC {
            return twice(std::mem::replace(&mut self.mrc, true), word);
        }
        let Some((name, value)) = word.split_once(':') else { return Ok(false) };
        let caches = |text: &str| match text.parse() {
            Ok(caches) if (0.001..=1000.0).contains(&caches) => Ok(caches),
            _ => Err(format!("{word}: {text:?} is no number of caches from 0.001 to 1000")),
        };
        let place = match name {
            "fast" => return twice(self.fast.replace(caches(value)?).is_some(), name),
            "slow" => {
                let (size, nanos) = value.split_once('@').unwrap_or((value, "0"));
                let nanos = nanos
                    .parse()
                    .map_err(|_| format!("{word}: {nanos:?} is no whole number of nanoseconds"))?;
                let Some(free) = self.slow.iter_mut().find(|slow| slow.is_none()) else {
                    return Err(format!("{word}: there are {MOST_SLOW} slower tiers at most"));
                };
                *free = Some(Slow { caches: caches(size)?, nanos });
                return Ok(true);
            }
            _ => match MIGRATION.iter().position(|known| *known == name) {
                Some(at) => &mut self.migration[at],
                None => return Ok(false),
            },
        };
        match value.parse() {
            Ok(probability) if (0.0..=1.0).contains(&probability) => {
                twice(place.replace(probability).is_some(), name)
            }
            _ => Err(format!("{word}: {value:?} is no probability from 0 to 1")),
        }
    }

    /// Whether there are several tiers.
    pub(crate) fn has_tiers(&self) -> bool {
        self.slow[0].is_some()
    }

    /// The options with these tiers, where a cache has so many bytes.
    pub(crate) fn of(&self, options: Options, cache_bytes: u64) -> Options {
        let bytes = |caches: f64| (cache_bytes as f64 * caches) as u64;
        let fast = Tier::new(bytes(self.fast.unwrap_or(1.0)));
        let slow = self.slow.iter().flatten().map(|slow| {
            Tier::new(bytes(slow.caches)).simulated(Duration::from_nanos(slow.nanos.into()))
        });
        let options = options.tiers([fast].into_iter().chain(slow)).miss_ratios(self.mrc);
        match self.migration() {
            Some(migration) => options.migration(migration),
            None => options,
        }
    }

    /// What goes where, if one of the probabilities was said.
    fn migration(&self) -> Option<Migration> {
        let usual = Migration::default();
        let [dr, dw, rr, rw] = self.migration;
        let migration = Migration {
            read_promotes: dr.unwrap_or(usual.read_promotes),
            write_promotes: dw.unwrap_or(usual.write_promotes),
            loads_to_slower: rr.unwrap_or(usual.loads_to_slower),
            evicts_to_slower: rw.unwrap_or(usual.evicts_to_slower),
        };
        self.migration.iter().any(Option::is_some).then_some(migration)
    }
}

fn twice(is_twice: bool, name: &str) -> Result<bool, String> {
    if is_twice { Err(format!("{name} stands there twice")) } else { Ok(true) }
}

/// As it is read.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fast.iter().try_for_each(|caches| write!(f, "+fast:{caches}"))?;
        for Slow { caches, nanos } in self.slow.iter().flatten() {
            write!(f, "+slow:{caches}")?;
            if *nanos > 0 {
                write!(f, "@{nanos}")?;
            }
        }
        for (name, value) in MIGRATION.iter().zip(self.migration) {
            value.iter().try_for_each(|value| write!(f, "+{name}:{value}"))?;
        }
        if self.mrc {
            write!(f, "+{MRC}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_written_as_it_was_read() {
        for text in
            ["+fast:2", "+slow:1@300", "+fast:0.5+slow:1+slow:4@1000+dr:0.1+rw:1+mrc", "+mrc", ""]
        {
            let mut memory = Memory::default();
            text.split('+').skip(1).for_each(|word| assert_eq!(memory.take(word), Ok(true)));
            assert_eq!(memory.to_string(), text);
            assert_eq!(memory == Memory::default(), text.is_empty());
            assert_eq!(memory.has_tiers(), text.contains("slow"));
        }
        for other in ["many:64", "lru", "slow", "watt:3"] {
            assert_eq!(Memory::default().take(other), Ok(false));
        }
    }

    #[test]
    fn nonsense_is_refused_by_its_word() {
        for word in ["fast:0", "slow:x", "slow:1@-3", "dr:1.1", "rw:NaN", "fast:1e9", "rr:"] {
            let refused = Memory::default().take(word).unwrap_err();
            assert!(refused.starts_with(word), "{refused}");
        }
        let mut memory = Memory::default();
        (0..MOST_SLOW).for_each(|_| assert_eq!(memory.take("slow:1"), Ok(true)));
        assert!(memory.take("slow:1").is_err());
        assert!(memory.take("mrc").is_ok() && memory.take("mrc").is_err());
        assert_eq!(memory.take("dw:0"), Ok(true));
        assert!(memory.take("dw:1").unwrap_err().contains("twice"));
    }

    #[test]
    fn sizes_are_in_caches() {
        let mut memory = Memory::default();
        ["fast:0.5", "slow:2"].iter().for_each(|word| _ = memory.take(word).unwrap());
        let of = |cache| memory.of(Options::new("x"), cache);
        assert!(of(64 << 20).validate().is_ok());
        assert!(of(1 << 20).validate().is_err(), "the first tier is too small");
    }
}
