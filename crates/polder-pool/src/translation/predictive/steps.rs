//! The steps from the traditional pool to predictive translation, one by one and together
//! (predictive-2026, figure 9).
//!
//! | type | bucket latch | first entry | preferred frames |
//! |---|---|---|---|
//! | [`type@Hash`](super::super::Hash) | read-write spin latch | behind the bucket | no |
//! | [`HashOptimistic`] | version, 4.2 | behind the bucket | no |
//! | [`HashInlined`] | read-write spin latch | in the bucket, 4.1 | no |
//! | [`HashPreferred`] | read-write spin latch | behind the bucket | by hash, section 3 |
//! | [`HashOptimisticInlined`] | version | in the bucket | no |
//! | [`PredictiveHashed`] | version | in the bucket | by hash: all that is in the paper |
//! | [`Predictive`] | version | in the bucket | by remainder (`parts/preferred.rs`) |

use std::fmt::Debug;

use super::Predicting;
use crate::translation::parts::bucket_latch::{BucketLatch, SpinLatch, VersionLatch};
use crate::translation::parts::chain::{Apart, Entry, First};

/// Which frame a page prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefers {
    /// None.
    Nothing,
    /// One that follows from the hash of its id (predictive-2026, section 3).
    ByHash,
    /// One that follows from its number, so that neighbours lie beside each other.
    ByRemainder,
}

/// Which steps of predictive-2026 a table takes.
pub trait Steps: Debug + Send + Sync + 'static {
    /// What users call a pool with these steps.
    const NAME: &'static str;
    /// Which frames pages prefer.
    const PREFERS: Prefers;
    /// Whether they prefer any.
    const PREDICTS: bool = !matches!(Self::PREFERS, Prefers::Nothing);
    /// How a bucket is latched.
    type Latch: BucketLatch;
    /// Where the first entry of a chain is.
    type First: First;
}

macro_rules! steps {
    ($($(#[$about:meta])* $name:ident = $steps:ident, $called:literal, $prefers:ident, $latch:ty, $first:ty;)*) => {$(
        /// The steps of the type that is called so.
        #[derive(Debug)]
        pub struct $steps;

        impl Steps for $steps {
            const NAME: &'static str = $called;
            const PREFERS: Prefers = Prefers::$prefers;
            type Latch = $latch;
            type First = $first;
        }

        $(#[$about])*
        pub type $name = Predicting<$steps>;
    )*};
}

steps! {
    /// [`type@Hash`](super::super::Hash) with optimistic bucket latches.
    HashOptimistic = WithVersions, "hash+optimistic", Nothing, VersionLatch, Apart;
    /// [`type@Hash`](super::super::Hash) with the first entry in the bucket.
    HashInlined = WithFirst, "hash+inlined", Nothing, SpinLatch, Entry;
    /// [`type@Hash`](super::super::Hash) with preferred frames.
    HashPreferred = WithFrames, "hash+preferred", ByHash, SpinLatch, Apart;
    /// [`type@Hash`](super::super::Hash) with optimistic bucket latches and the first entry in the
    /// bucket.
    HashOptimisticInlined = WithTable, "hash+optimistic+inlined", Nothing, VersionLatch, Entry;
    /// Predictive translation as in the paper.
    PredictiveHashed = WithAll, "predictive-hashed", ByHash, VersionLatch, Entry;
    /// Predictive translation, with preferred frames by number.
    Predictive = WithNumbers, "predictive", ByRemainder, VersionLatch, Entry;
}
