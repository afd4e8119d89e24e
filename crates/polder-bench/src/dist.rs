//! Which record is asked for next: uniform, zipfian or latest, as YCSB means them.
//!
//! * *uniform*: every record is equally likely.
//! * *zipfian*: the record of rank `k` is asked for in proportion to `1 / k^theta`; ranks are
//!   scattered over the records by a hash, as in YCSB's scrambled form, so that popular records
//!   are not neighbours. Two ranks may meet in one record, as they may there.
//! * *latest*: as zipfian, but the rank counts back from the record that was inserted last.
//!
//! Ranks are drawn by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to
//! generate variates from monotone discrete distributions", 1996). It is exact for every theta
//! above 0, also 1, and needs no sum over all records, so the number of records may grow.

use serde::{Deserialize, Serialize};

use crate::random::{Random, reduce};
use crate::records::scramble;

/// YCSB's exponent.
pub(crate) const YCSB_THETA: f64 = 0.99;

/// Which records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dist {
    /// Every record is equally likely.
    Uniform,
    /// Few records get most requests; they lie scattered.
    Zipfian,
    /// The records inserted last get most requests.
    Latest,
}

impl Dist {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dist::Uniform => "uniform",
            Dist::Zipfian => "zipfian",
            Dist::Latest => "latest",
        }
    }
}

/// Draws record numbers.
#[derive(Debug, Clone)]
pub struct Chooser {
    dist: Dist,
    zipf: Zipf,
}

impl Chooser {
    /// Draws from `records` records; `theta` matters to zipfian and latest alone.
    pub fn new(dist: Dist, theta: f64, records: u64) -> Chooser {
        Chooser { dist, zipf: Zipf::new(records, theta) }
    }

    /// Draws from `records` records by Zipf's law with this exponent, scattered; at 0 uniform.
    pub fn skewed(skew: f64, records: u64) -> Chooser {
        let dist = if skew > 0.0 { Dist::Zipfian } else { Dist::Uniform };
        Chooser::new(dist, skew, records)
    }

    /// A record below `records`, the number of records that there are by now.
    ///
    /// Zipfian stays with the records that there were at the beginning, so that its popular
    /// records remain the same ones; the others follow the growth.
    #[inline]
    pub fn record(&mut self, random: &mut Random, records: u64) -> u64 {
        match self.dist {
            Dist::Uniform => random.below(records),
            Dist::Zipfian => {
                let rank = self.zipf.rank(random);
                reduce(scramble(!rank), self.zipf.count)
            }
            Dist::Latest => {
                self.zipf.resize(records);
                records.saturating_sub(self.zipf.rank(random))
            }
        }
    }
}

/// Ranks from 1 to `count`, rank `k` in proportion to `1 / k^theta`.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: u64,
    theta: f64,
    /// Integral of the hat up to one and a half, less the first rank's own share.
    lowest: f64,
    /// Integral of the hat up to `count` and a half.
    highest: f64,
    /// Ranks that are closer to the drawn point than this are taken without a further test.
    close: f64,
}

impl Zipf {
    /// For `theta` above 0 and at least one rank.
    pub fn new(count: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { count: 0, theta, lowest: 0.0, highest: 0.0, close: 0.0 };
        zipf.lowest = zipf.integral(1.5) - 1.0;
        zipf.close = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf.resize(count);
        zipf
    }

    /// From now on draws from so many ranks.
    pub fn resize(&mut self, count: u64) {
        if count != self.count {
            self.count = count.max(1);
            self.highest = self.integral(self.count as f64 + 0.5);
        }
    }

    /// Draws a rank.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        // The hat lies close to the bars: few draws are rejected, whatever theta is.
        loop {
            let area = self.highest + random.unit() * (self.lowest - self.highest);
            let point = self.integral_inverse(area);
            let rank = (point.round() as u64).clamp(1, self.count);
            let nearest = rank as f64;
            if nearest - point <= self.close
                || area >= self.integral(nearest + 0.5) - self.hat(nearest)
            {
                return rank;
            }
        }
    }

    /// `1 / x^theta`.
    fn hat(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the hat from 1 to `x`; right also where theta is 1 or close to it.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_ratio((1.0 - self.theta) * log) * log
    }

    /// The inverse of [`Zipf::integral`].
    fn integral_inverse(&self, area: f64) -> f64 {
        // Rounding may carry the product a little below the least value that log1p knows.
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        (log1p_ratio(scaled) * area).exp()
    }
}

/// `(e^x - 1) / x`, and its limit at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, and its limit at 0.
fn log1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests;
