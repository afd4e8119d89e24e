//! Which record is asked for next: uniform, zipfian or latest, as YCSB means them.
//!
//! * *uniform*: every record is equally likely.
//! * *zipfian*: the record of rank `k` is asked for in proportion to `1 / k^theta`; ranks are
//!   scattered over the records by a hash, as in YCSB's scrambled form, so that popular records
//!   are not neighbours. Two ranks may meet in one record, as they may there.
//! * *latest*: as zipfian, but the rank counts back from the record that was inserted last.
//!
//! Ranks are drawn by rejection, exact for every theta, also 1, and without a sum over all records,
//! so the number of records may grow.

use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

use crate::random::{Random, RngExt};
use crate::records::{reduce, scramble};

/// YCSB's exponent.
pub(crate) const YCSB_THETA: f64 = 0.99;

/// Which records are asked for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::Display, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Dist {
    /// Every record is equally likely.
    Uniform,
    /// Few records get most requests; they lie scattered.
    Zipfian,
    /// The records inserted last get most requests.
    Latest,
}

/// Draws record numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    dist: Dist,
    theta: f64,
    /// Of ranks from 1 to `count`.
    zipf: Zipf<f64>,
    count: u64,
}

impl Chooser {
    /// Draws from `records` records; `theta` matters to zipfian and latest alone.
    pub(crate) fn new(dist: Dist, theta: f64, records: u64) -> Chooser {
        Chooser { dist, theta, zipf: zipf(records, theta), count: records }
    }

    /// A record below `records`, the number of records that there are by now.
    ///
    /// Zipfian stays with the records that there were at the beginning, so that its popular
    /// records remain the same ones; the others follow the growth.
    #[inline]
    pub(crate) fn record(&mut self, random: &mut Random, records: u64) -> u64 {
        match self.dist {
            Dist::Uniform => random.random_range(..records),
            Dist::Zipfian => reduce(scramble(!self.rank(random)), self.count),
            Dist::Latest => {
                if records != self.count {
                    *self = Chooser::new(self.dist, self.theta, records);
                }
                records.saturating_sub(self.rank(random))
            }
        }
    }

    #[inline]
    fn rank(&self, random: &mut Random) -> u64 {
        self.zipf.sample(random) as u64
    }
}

/// Draws ranks from 1 to `count`, rank `k` in proportion to `1 / k^theta`.
pub(crate) fn zipf(count: u64, theta: f64) -> Zipf<f64> {
    Zipf::new(count.max(1) as f64, theta).expect("there is a rank, and the exponent is not below 0")
}

#[cfg(test)]
mod tests;
