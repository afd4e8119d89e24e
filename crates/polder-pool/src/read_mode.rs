//! How readers hold the pages of their way: what users choose from.

#![cfg(not(loom))]

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// How readers hold the pages on their way down.
///
/// A mode is read from its name, as users write it, and written as it is read:
///
/// ```
/// use polder_pool::{GroupSize, ReadMode};
///
/// let mode: ReadMode = "group:4".parse()?;
/// assert_eq!(mode, ReadMode::GroupOf(GroupSize::new(4).unwrap()));
/// assert_eq!(mode.to_string(), "group:4");
/// assert_eq!(mode.name(), "group");
/// assert!(mode.is_by_cores() && !mode.copies());
///
/// let error = "groups".parse::<ReadMode>().unwrap_err();
/// assert!(error.to_string().contains(&ReadMode::names()));
/// # Ok::<(), polder_pool::UnknownReadMode>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ReadMode {
    /// Readers hold nothing: they validate, and start over if something has changed. They store
    /// nothing to shared memory. The default.
    #[default]
    Optimistic,
    /// Readers hold a page by a count in its state word: one cache line that all readers of a page
    /// write to.
    Shared,
    /// Readers hold a page by a count for each group of cores that share their last cache
    /// (scalecache-2025 3.1). Each group costs two bytes for each frame, which the budget pays for.
    Group,
    /// The same with at most so many cores in a group, of those that share their last cache:
    /// `group:4` is what the paper measures.
    GroupOf(GroupSize),
    /// Readers hold a page by a count for each core, of two bytes for each frame; from 513 cores on
    /// neighbours share one.
    Core,
    /// Readers hold pages by a count for each group of cores as in [`ReadMode::Group`], one page
    /// at a time; inner nodes are changed in copies, so that a reader of one is never disturbed
    /// (scalecache-2025 3.2).
    Copy,
    /// The same by groups as in [`ReadMode::GroupOf`].
    CopyOf(GroupSize),
}

/// The most cores in a group: a whole number from 1 to [`GroupSize::MOST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupSize(NonZeroU16);

impl GroupSize {
    /// One core in each group: as many groups as a machine can have.
    pub const ONE: GroupSize = GroupSize(NonZeroU16::MIN);
    /// The greatest size in cores. More cores share no cache.
    pub const MOST: u16 = 512;

    /// A size of so many cores; `None` if `cores` is 0 or more than [`GroupSize::MOST`].
    pub const fn new(cores: u16) -> Option<GroupSize> {
        match NonZeroU16::new(cores) {
            Some(cores) if cores.get() <= Self::MOST => Some(GroupSize(cores)),
            _ => None,
        }
    }

    /// The size in cores, from 1 to [`GroupSize::MOST`].
    pub const fn cores(self) -> u16 {
        self.0.get()
    }
}

impl ReadMode {
    /// All modes, one for each name. Where there are groups they are those of all cores that share
    /// a cache.
    pub const ALL: &[ReadMode] =
        &[ReadMode::Optimistic, ReadMode::Shared, ReadMode::Group, ReadMode::Core, ReadMode::Copy];

    /// The names of all modes, with commas between them, for help texts and messages. Where a size
    /// can stand behind a name there is a second one that ends in `:CORES`.
    pub fn names() -> String {
        let name = |hold: &ReadMode| match hold {
            ReadMode::Group | ReadMode::Copy => format!("{hold}, {hold}:CORES"),
            other => other.to_string(),
        };
        ReadMode::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Whether readers hold each page of their way as they come to it.
    pub(crate) fn holds_all(self) -> bool {
        matches!(self, ReadMode::Shared | ReadMode::Group | ReadMode::GroupOf(_) | ReadMode::Core)
    }

    /// Whether readers hold one page at a time, and inner nodes are changed in copies.
    pub fn copies(self) -> bool {
        matches!(self, ReadMode::Copy | ReadMode::CopyOf(_))
    }

    /// Whether readers count themselves by cores, and not in the page's word.
    pub fn is_by_cores(self) -> bool {
        !matches!(self, ReadMode::Optimistic | ReadMode::Shared)
    }

    /// What users call the mode, without the size of its groups. `Display` gives the size, too.
    pub fn name(self) -> &'static str {
        match self {
            ReadMode::Optimistic => "optimistic",
            ReadMode::Shared => "shared",
            ReadMode::Group | ReadMode::GroupOf(_) => "group",
            ReadMode::Core => "core",
            ReadMode::Copy | ReadMode::CopyOf(_) => "copy",
        }
    }
}

impl fmt::Display for ReadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            ReadMode::GroupOf(size) | ReadMode::CopyOf(size) => write!(f, ":{}", size.cores()),
            _ => Ok(()),
        }
    }
}

/// Why a text is no name of a read mode. The message says what can stand there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownReadMode {
    /// No read mode has this name.
    #[error("there is no read mode {name:?}; there are: {}", ReadMode::names())]
    Name {
        /// The text as it was given.
        name: String,
    },
    /// What stands behind `group:` or `copy:` is no size of a group.
    #[error(
        "{cores:?} is no size of a group: a whole number of cores from 1 to {}",
        GroupSize::MOST
    )]
    Cores {
        /// What was given as the size.
        cores: String,
    },
}

impl FromStr for ReadMode {
    type Err = UnknownReadMode;

    fn from_str(name: &str) -> Result<ReadMode, UnknownReadMode> {
        let sized = |prefix, of: fn(GroupSize) -> ReadMode| {
            let cores: &str = name.strip_prefix(prefix)?;
            let size = cores.parse().ok().and_then(GroupSize::new).map(of);
            Some(size.ok_or_else(|| UnknownReadMode::Cores { cores: cores.to_owned() }))
        };
        let sized = sized("group:", ReadMode::GroupOf).or_else(|| sized("copy:", ReadMode::CopyOf));
        sized.unwrap_or_else(|| {
            let found = ReadMode::ALL.iter().copied().find(|hold| hold.name() == name);
            found.ok_or_else(|| UnknownReadMode::Name { name: name.to_owned() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for hold in ReadMode::ALL.iter().copied() {
            assert_eq!(hold.to_string().parse(), Ok(hold));
        }
        for (name, cores) in [("group:1", 1), ("group:4", 4), ("group:512", 512)] {
            let size = GroupSize::new(cores).unwrap();
            assert_eq!(name.parse(), Ok(ReadMode::GroupOf(size)));
            assert_eq!(ReadMode::GroupOf(size).to_string(), name);
        }
        assert_eq!("copy:2".parse(), Ok(ReadMode::CopyOf(GroupSize::new(2).unwrap())));
    }

    #[test]
    fn sizes_that_no_group_has_are_told_what_there_is() {
        for cores in ["0", "513", "-1", "", "four", "65536"] {
            let why = format!("group:{cores}").parse::<ReadMode>().unwrap_err().to_string();
            assert!(why.contains(&format!("{cores:?}")) && why.contains("1 to 512"), "{why}");
        }
        let why = "groups".parse::<ReadMode>().unwrap_err().to_string();
        assert!(ReadMode::ALL.iter().all(|hold| why.contains(hold.name())), "{why}");
        assert!("core:2".parse::<ReadMode>().is_err());
    }
}
