//! How a reader holds the pages of its way.
//!
//! By default it does not: it reads, and validates afterwards. The other ways are those of systems
//! that pin (scalecache.txt 3.1): a reader counts itself at each page that it comes to, and lets go
//! of the one before last, so that nobody changes or evicts what it reads. It still validates: that
//! fails where a word moves to another place (`translation/array/sparse.rs`). Readers cannot keep a
//! writer waiting: a writer announces itself in the word, and from then on nobody begins to hold the
//! page (`docs/protocols.md`, "A writer that waits").
//!
//! * `WAY-1` A reader holds at most [`HELD_AT_ONCE`] pages, and waits for none while it holds one.
//! * `WAY-2` What is held is let go when the attempt ends or begins again.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::core::Core;
use crate::cpu::Grouping;
use crate::pins::Held;
use crate::state::{StateCell, StateWord};
use crate::translation::Resolved;

/// A page and the one that led to it.
const HELD_AT_ONCE: usize = 2;

/// How readers hold the pages of their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Hold {
    /// Not at all: they validate, and start over if something has changed. No store to shared
    /// memory; the default.
    #[default]
    Optimistic,
    /// By a count in the page's state word: one cache line that all readers of a page write to.
    Shared,
    /// By a count for each group of cores that share their last cache (scalecache.txt 3.1).
    Group,
    /// The same with at most so many cores in a group, of those that share their last cache: `group:4`
    /// is what the paper measures. Each group costs two bytes for each frame.
    GroupOf(GroupSize),
    /// By a count for each core; from 513 cores on neighbours share one.
    Core,
    /// By a count for each group of cores as in [`Hold::Group`], one page at a time; inner nodes are
    /// changed in copies, so that who reads one is never disturbed (scalecache.txt 3.2).
    Copy,
    /// The same by groups as in [`Hold::GroupOf`].
    CopyOf(GroupSize),
}

/// The most cores in a group, from 1 to [`GroupSize::MOST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupSize(NonZeroU16);

impl GroupSize {
    /// One core in each group: as many groups as a machine can have.
    pub const ONE: GroupSize = GroupSize(NonZeroU16::MIN);
    /// More cores share no cache.
    pub const MOST: u16 = 512;

    /// So many cores; none if that is 0 or more than [`GroupSize::MOST`].
    pub const fn new(cores: u16) -> Option<GroupSize> {
        match NonZeroU16::new(cores) {
            Some(cores) if cores.get() <= Self::MOST => Some(GroupSize(cores)),
            _ => None,
        }
    }

    /// How many.
    pub const fn cores(self) -> u16 {
        self.0.get()
    }
}

impl Hold {
    /// All of them, where there are groups those of all cores that share a cache.
    pub const ALL: [Hold; 5] =
        [Hold::Optimistic, Hold::Shared, Hold::Group, Hold::Core, Hold::Copy];

    /// The names of all, for help texts and messages.
    pub fn names() -> String {
        let name = |hold: Hold| match hold {
            Hold::Group | Hold::Copy => format!("{hold}, {hold}:CORES"),
            other => other.to_string(),
        };
        Hold::ALL.map(name).join(", ")
    }

    /// Whether readers hold each page of their way as they come to it.
    pub(crate) fn holds_all(self) -> bool {
        matches!(self, Hold::Shared | Hold::Group | Hold::GroupOf(_) | Hold::Core)
    }

    /// Whether readers hold one page at a time, and inner nodes are changed in copies.
    pub fn copies(self) -> bool {
        matches!(self, Hold::Copy | Hold::CopyOf(_))
    }

    /// Whether readers count themselves by cores, and not in the page's word.
    pub fn is_by_cores(self) -> bool {
        self.grouping().is_some()
    }

    /// By which cores, if it is by cores.
    pub(crate) fn grouping(self) -> Option<Grouping> {
        match self {
            Hold::Optimistic | Hold::Shared => None,
            Hold::Group | Hold::Copy => Some(Grouping::ByCache),
            Hold::GroupOf(size) | Hold::CopyOf(size) => Some(Grouping::AtMost(size.cores().into())),
            Hold::Core => Some(Grouping::AtMost(1)),
        }
    }

    /// What users call it, without the size of its groups.
    pub fn name(self) -> &'static str {
        match self {
            Hold::Optimistic => "optimistic",
            Hold::Shared => "shared",
            Hold::Group | Hold::GroupOf(_) => "group",
            Hold::Core => "core",
            Hold::Copy | Hold::CopyOf(_) => "copy",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Hold::GroupOf(size) | Hold::CopyOf(size) => write!(f, ":{}", size.cores()),
            _ => Ok(()),
        }
    }
}

/// A name that no way of holding has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownHold {
    /// The name itself.
    #[error("there is no way of holding a page {name:?}; there are: {}", Hold::names())]
    Name {
        /// As it was given.
        name: String,
    },
    /// What stands behind `group:` or `copy:`.
    #[error(
        "{cores:?} is no size of a group: a whole number of cores from 1 to {}",
        GroupSize::MOST
    )]
    Cores {
        /// As it was given.
        cores: String,
    },
}

impl FromStr for Hold {
    type Err = UnknownHold;

    fn from_str(name: &str) -> Result<Hold, UnknownHold> {
        let sized = |prefix, of: fn(GroupSize) -> Hold| {
            let cores: &str = name.strip_prefix(prefix)?;
            let size = cores.parse().ok().and_then(GroupSize::new).map(of);
            Some(size.ok_or_else(|| UnknownHold::Cores { cores: cores.to_owned() }))
        };
        let sized = sized("group:", Hold::GroupOf).or_else(|| sized("copy:", Hold::CopyOf));
        sized.unwrap_or_else(|| {
            let found = Hold::ALL.into_iter().find(|hold| hold.name() == name);
            found.ok_or_else(|| UnknownHold::Name { name: name.to_owned() })
        })
    }
}

/// A page that is held.
#[derive(Debug)]
struct HeldPage<'p> {
    cell: &'p StateCell,
    /// By slices; else by the word.
    slice: Option<Held>,
}

/// What an attempt holds.
#[derive(Debug, Default)]
pub(crate) struct Holds<'p>([Option<HeldPage<'p>>; HELD_AT_ONCE]);

impl<'p> Holds<'p> {
    /// Lets go of all but `parent`, and holds the page that was found if it is still as it was then;
    /// if not, it does not wait (`WAY-1`).
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        core: &Core,
        found: &Resolved<'p>,
        parent: Option<&'p StateCell>,
    ) -> bool {
        for slot in &mut self.0 {
            let is_parent =
                |held: &HeldPage<'_>| parent.is_some_and(|parent| std::ptr::eq(held.cell, parent));
            if !slot.as_ref().is_some_and(is_parent) {
                let_go(core, slot);
            }
        }
        if self.0.iter().all(Option::is_some) {
            // The parent in both: it was come by twice.
            let_go(core, &mut self.0[0]);
        }
        let slot = self.0.iter_mut().find(|slot| slot.is_none());
        slot.is_some_and(|slot| {
            *slot = hold(core, found);
            slot.is_some()
        })
    }

    /// Holds the page that was found, if it is still as it was then.
    pub(crate) fn hold_this(&mut self, core: &Core, found: &Resolved<'p>) -> bool {
        self.0[0] = hold(core, found);
        self.0[0].is_some()
    }

    /// Lets go of a page, of which its holder wants more than to read.
    pub(crate) fn let_go_of(&mut self, core: &Core, cell: &StateCell) {
        for slot in &mut self.0 {
            if slot.as_ref().is_some_and(|held| std::ptr::eq(held.cell, cell)) {
                let_go(core, slot);
            }
        }
    }

    /// Lets go of all.
    #[inline(always)]
    pub(crate) fn clear(&mut self, core: &Core) {
        self.0.iter_mut().for_each(|slot| let_go(core, slot));
    }
}

#[inline(always)]
fn hold<'p>(core: &Core, found: &Resolved<'p>) -> Option<HeldPage<'p>> {
    let cell = found.cell;
    if let Some(pins) = &core.pins {
        let slice = pins.hold(found.frame, cell, found.word)?;
        return Some(HeldPage { cell, slice: Some(slice) });
    }
    let shared: StateWord = cell.try_share()?;
    if !found.word.still_stands(shared) {
        cell.unshare();
        return None;
    }
    Some(HeldPage { cell, slice: None })
}

#[inline(always)]
fn let_go(core: &Core, slot: &mut Option<HeldPage<'_>>) {
    match slot.take() {
        Some(HeldPage { slice: Some(slice), .. }) => {
            if let Some(pins) = &core.pins {
                pins.release(slice);
            }
        }
        Some(HeldPage { cell, slice: None }) => cell.unshare(),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for hold in Hold::ALL {
            assert_eq!(hold.to_string().parse(), Ok(hold));
        }
        for (name, cores) in [("group:1", 1), ("group:4", 4), ("group:512", 512)] {
            let size = GroupSize::new(cores).unwrap();
            assert_eq!(name.parse(), Ok(Hold::GroupOf(size)));
            assert_eq!(Hold::GroupOf(size).to_string(), name);
        }
        assert_eq!("copy:2".parse(), Ok(Hold::CopyOf(GroupSize::new(2).unwrap())));
    }

    #[test]
    fn sizes_that_no_group_has_are_told_what_there_is() {
        for cores in ["0", "513", "-1", "", "four", "65536"] {
            let why = format!("group:{cores}").parse::<Hold>().unwrap_err().to_string();
            assert!(why.contains(&format!("{cores:?}")) && why.contains("1 to 512"), "{why}");
        }
        let why = "groups".parse::<Hold>().unwrap_err().to_string();
        assert!(Hold::ALL.iter().all(|hold| why.contains(hold.name())), "{why}");
        assert!("core:2".parse::<Hold>().is_err());
    }
}
