//! The policies by their names.

use std::fmt;
use std::str::FromStr;

use super::Replacement;
use super::clock::Clock;
use super::cooling::Cooling;
use super::hyperbolic::Hyperbolic;
use super::lru::Lru;
use super::s3_fifo::S3Fifo;
use super::two_queues::TwoQueues;
use super::watt::{ReadsOnly, Watt};

/// The share that cools where none is said: what leanstore-2018, VI-B recommends.
const DEFAULT_PERCENT: u8 = 10;
/// More than this is not a share any more: hardly a page would be hot.
const MOST_PERCENT: u8 = 90;
/// What a write counts against a read where nothing is said: more of it misses more than it spares
/// (`docs/replacement.md`, "What goes to the device").
const DEFAULT_WRITE_WEIGHT: u8 = 1;

/// A replacement policy, chosen by its name.
///
/// ```
/// # use polder_pool::replacement::{ReplacementKind, UnknownReplacement};
/// let kind: ReplacementKind = "cooling:20".parse()?;
/// assert_eq!(kind, ReplacementKind::Cooling { percent: 20 });
/// assert!(kind.bytes_per_frame() < 100);
/// # Ok::<(), UnknownReplacement>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ReplacementKind {
    /// S3-FIFO: a small queue for what comes once, a main queue, and ghosts, by which the small one
    /// adapts.
    #[default]
    S3Fifo,
    /// Second chance: the hand marks a page, and takes it if the mark is still there.
    Clock,
    /// Random choice with a share of pages that cool, in percent of the frames (0 to 90).
    Cooling {
        /// The share; 0 is random replacement. Above 90 it counts as 90.
        percent: u8,
    },
    /// Exact LRU, which hears of every access.
    Lru,
    /// 2Q: first uses and repeated uses in queues of their own.
    TwoQueues,
    /// WATT: times of the last accesses and of the last writes, and samples.
    Watt {
        /// How many times as much a frequency of writes counts as the same one of accesses. 0:
        /// writes count nothing, and are not recorded.
        write_weight: u8,
    },
    /// Hyperbolic caching: accesses by time in the pool, and samples.
    Hyperbolic,
}

impl ReplacementKind {
    /// All of them, with the default share and weight.
    pub const ALL: &[ReplacementKind] = &[
        ReplacementKind::S3Fifo,
        ReplacementKind::Clock,
        ReplacementKind::Cooling { percent: DEFAULT_PERCENT },
        ReplacementKind::Lru,
        ReplacementKind::TwoQueues,
        ReplacementKind::Watt { write_weight: DEFAULT_WRITE_WEIGHT },
        ReplacementKind::Hyperbolic,
    ];

    /// The names of all, for help texts and messages.
    pub fn names() -> String {
        let name = |kind: &ReplacementKind| match kind {
            ReplacementKind::Cooling { .. } => "cooling, cooling:PERCENT".to_owned(),
            ReplacementKind::Watt { .. } => "watt, watt:WEIGHT".to_owned(),
            other => other.to_string(),
        };
        ReplacementKind::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// A policy for the frames 1 to `frames`; at least one, at most [`FrameId::MAX`].
    ///
    /// [`FrameId::MAX`]: crate::FrameId::MAX
    #[doc(hidden)] // For the pool and for tools that replay a trace: users of a store choose a kind.
    pub fn build(self, frames: u32) -> Box<dyn Replacement> {
        let frames = frames.max(1);
        match self {
            ReplacementKind::Clock => Box::new(Clock::new(frames)),
            ReplacementKind::S3Fifo => Box::new(S3Fifo::new(frames)),
            ReplacementKind::Cooling { percent } => {
                Box::new(Cooling::new(frames, percent.min(MOST_PERCENT)))
            }
            ReplacementKind::Lru => Box::new(Lru::new(frames)),
            ReplacementKind::TwoQueues => Box::new(TwoQueues::new(frames)),
            ReplacementKind::Watt { write_weight: 0 } => Box::new(ReadsOnly::new(frames, ())),
            ReplacementKind::Watt { write_weight } => {
                Box::new(Watt::new(frames, write_weight.into()))
            }
            ReplacementKind::Hyperbolic => Box::new(Hyperbolic::new(frames, ())),
        }
    }

    /// Memory of the policy in bytes for each frame of the pool.
    pub fn bytes_per_frame(self) -> u64 {
        match self {
            ReplacementKind::Clock => Clock::BYTES_PER_FRAME,
            ReplacementKind::S3Fifo => S3Fifo::BYTES_PER_FRAME,
            ReplacementKind::Cooling { .. } => Cooling::BYTES_PER_FRAME,
            ReplacementKind::Lru => Lru::BYTES_PER_FRAME,
            ReplacementKind::TwoQueues => TwoQueues::BYTES_PER_FRAME,
            ReplacementKind::Watt { write_weight: 0 } => ReadsOnly::BYTES_PER_FRAME,
            ReplacementKind::Watt { .. } => Watt::BYTES_PER_FRAME,
            ReplacementKind::Hyperbolic => Hyperbolic::BYTES_PER_FRAME,
        }
    }
}

impl fmt::Display for ReplacementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplacementKind::Clock => f.write_str("clock"),
            ReplacementKind::S3Fifo => f.write_str("s3-fifo"),
            ReplacementKind::Cooling { percent } => write!(f, "cooling:{percent}"),
            ReplacementKind::Lru => f.write_str("lru"),
            ReplacementKind::TwoQueues => f.write_str("2q"),
            ReplacementKind::Watt { write_weight: DEFAULT_WRITE_WEIGHT } => f.write_str("watt"),
            ReplacementKind::Watt { write_weight } => write!(f, "watt:{write_weight}"),
            ReplacementKind::Hyperbolic => f.write_str("hyperbolic"),
        }
    }
}

impl FromStr for ReplacementKind {
    type Err = UnknownReplacement;

    fn from_str(text: &str) -> Result<ReplacementKind, UnknownReplacement> {
        Ok(match text {
            "clock" => ReplacementKind::Clock,
            "s3-fifo" => ReplacementKind::S3Fifo,
            "cooling" => ReplacementKind::Cooling { percent: DEFAULT_PERCENT },
            "lru" => ReplacementKind::Lru,
            "2q" => ReplacementKind::TwoQueues,
            "watt" => ReplacementKind::Watt { write_weight: DEFAULT_WRITE_WEIGHT },
            "hyperbolic" => ReplacementKind::Hyperbolic,
            _ => match text.split_once(':') {
                Some(("cooling", percent)) => match percent.parse() {
                    Ok(percent @ 0..=MOST_PERCENT) => ReplacementKind::Cooling { percent },
                    _ => return Err(UnknownReplacement::Percent(percent.to_owned())),
                },
                Some(("watt", weight)) => match weight.parse() {
                    Ok(write_weight) => ReplacementKind::Watt { write_weight },
                    Err(_) => return Err(UnknownReplacement::WriteWeight(weight.to_owned())),
                },
                _ => return Err(UnknownReplacement::Name(text.to_owned())),
            },
        })
    }
}

/// A name that no replacement policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownReplacement {
    /// The name itself.
    #[error("there is no replacement policy {0:?}; there are: {known}", known = ReplacementKind::names())]
    Name(String),
    /// What stands behind `cooling:`.
    #[error(
        "{0:?} is no share of cooling pages: a whole number of percent from 0 to {MOST_PERCENT}"
    )]
    Percent(String),
    /// What stands behind `watt:`.
    #[error("{0:?} is no weight of writes: a whole number from 0 to {most}", most = u8::MAX)]
    WriteWeight(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::testing::{TestFrames, page};

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in ReplacementKind::ALL.iter().copied() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let cooling = |percent| Ok(ReplacementKind::Cooling { percent });
        assert_eq!("cooling".parse(), cooling(10));
        assert_eq!("cooling:0".parse(), cooling(0));
        assert_eq!("cooling:90".parse(), cooling(90));
        let watt = |write_weight| Ok(ReplacementKind::Watt { write_weight });
        assert_eq!("watt".parse(), watt(DEFAULT_WRITE_WEIGHT));
        for weight in [0, DEFAULT_WRITE_WEIGHT, 4, 255] {
            assert_eq!(format!("watt:{weight}").parse(), watt(weight));
            let kind = ReplacementKind::Watt { write_weight: weight };
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(ReplacementKind::default(), ReplacementKind::S3Fifo);
    }

    #[test]
    fn a_share_is_never_everything() {
        let policy = ReplacementKind::Cooling { percent: 255 }.build(100);
        let frames = TestFrames::new(100);
        for frame in 1..=100 {
            frames.admit(&*policy, frame, page(u64::from(frame)), false);
        }
        for _ in 0..7 {
            let mut victims = Vec::new();
            policy.propose(&frames, 1, false, &mut victims);
            frames.leave(&*policy, victims[0].get());
        }
        assert_eq!((frames.resident().len(), frames.marked().len()), (93, 89));
    }

    #[test]
    fn wrong_names_are_told_what_there_is() {
        let message = |text: &str| text.parse::<ReplacementKind>().unwrap_err().to_string();
        for name in ["LRU", "", "clock:3", "cooling5"] {
            let message = message(name);
            assert!(message.contains(&format!("{name:?}")), "{message}");
            for kind in ReplacementKind::ALL {
                let known = kind.to_string();
                let known = known.split(':').next().unwrap();
                assert!(message.contains(known), "{message} does not list {known}");
            }
        }
        for percent in ["91", "-1", "ten", "", "1000"] {
            let message = message(&format!("cooling:{percent}"));
            assert!(message.contains(&format!("{percent:?}")) && message.contains("90"));
        }
        for weight in ["256", "-1", "0.5", "four", ""] {
            let message = message(&format!("watt:{weight}"));
            assert!(message.contains(&format!("{weight:?}")) && message.contains("255"));
        }
    }
}
