//! What a round of TPC-C says beside what every round does.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::TpccPlan;
use super::tally::Tally;
use super::transactions::Transaction;
use crate::bars::bars;
use crate::interval::median;
use crate::latencies::Latencies;
use crate::size::{show_count, show_ns};
use crate::table::table;

/// What a comparison says of an engine, in medians over the rounds; and each round of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TpccSummary {
    pub(crate) warehouses: u16,
    pub(crate) affinity: bool,
    pub(crate) mix: String,
    /// New orders a minute that were committed.
    pub(crate) tpmc: f64,
    /// Tries, for each transaction that ended, that another one was faster than.
    pub(crate) conflicts_per_op: f64,
}

/// Of one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TpccResult {
    #[serde(flatten)]
    pub(crate) summary: TpccSummary,
    /// New orders that asked for an item that there is not.
    pub(crate) rolled_back: u64,
    pub(crate) transactions: Vec<KindResult>,
    /// Length of an interval of `per_s`.
    pub(crate) interval_s: f64,
    /// Transactions a second that ended in each interval of the round.
    pub(crate) per_s: Vec<f64>,
    /// How long it took to look at the consistency conditions, which held; behind the round, and in
    /// none of its figures. `None` if that was not wanted.
    pub(crate) check_s: Option<f64>,
}

/// Of one kind of transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KindResult {
    pub(crate) name: String,
    /// How many have ended.
    pub(crate) count: u64,
    /// Latencies are those of whole transactions, with all their tries.
    #[serde(flatten)]
    pub(crate) latencies: Latencies<u64>,
}

impl TpccSummary {
    /// `None` where there are no rounds.
    pub(crate) fn new<'r>(rounds: impl Iterator<Item = &'r TpccResult>) -> Option<TpccSummary> {
        let rounds: Vec<_> = rounds.map(|round| &round.summary).collect();
        Some(TpccSummary {
            tpmc: median(rounds.iter().map(|round| round.tpmc))?,
            conflicts_per_op: median(rounds.iter().map(|round| round.conflicts_per_op))?,
            ..TpccSummary::clone(rounds.first()?)
        })
    }
}

impl TpccResult {
    /// Puts together what was counted in a phase that took so many seconds.
    pub(crate) fn new(
        plan: TpccPlan,
        tally: &Tally,
        took_s: f64,
        check_s: Option<f64>,
    ) -> TpccResult {
        let ended: u64 = tally.latencies.iter().map(Histogram::len).sum();
        let new_orders = tally.latencies[Transaction::NewOrder as usize].len() - tally.rolled_back;
        let kinds = Transaction::VARIANTS.iter().zip(&tally.latencies);
        let interval_s = tally.interval.as_secs_f64();
        TpccResult {
            summary: TpccSummary {
                warehouses: plan.warehouses,
                affinity: plan.affinity,
                mix: plan.mix.to_string(),
                tpmc: new_orders as f64 / took_s.max(1e-9) * 60.0,
                conflicts_per_op: tally.conflicts as f64 / ended.max(1) as f64,
            },
            rolled_back: tally.rolled_back,
            transactions: kinds
                .filter(|(_, latencies)| !latencies.is_empty())
                .map(|(transaction, latencies)| KindResult {
                    name: transaction.to_string(),
                    count: latencies.len(),
                    latencies: Latencies::of(latencies),
                })
                .collect(),
            interval_s,
            per_s: tally.over_time.iter().map(|count| *count as f64 / interval_s).collect(),
            check_s,
        }
    }

    /// What it is, for the first line of a table.
    pub(crate) fn what(&self) -> String {
        let TpccSummary { warehouses, affinity, mix, .. } = &self.summary;
        let affinity = if *affinity { ", threads with warehouses of their own" } else { "" };
        format!("{warehouses} warehouse(s), mix {mix}{affinity}")
    }

    /// The lines of a table behind those of every round.
    pub(crate) fn table(&self) -> String {
        let TpccSummary { tpmc, conflicts_per_op, .. } = self.summary;
        let check = self.check_s.map_or("not looked at".to_owned(), |s| format!("hold ({s:.2} s)"));
        let mut rows = vec![
            vec!["new orders".to_owned(), format!("{}/min", show_count(tpmc))],
            vec!["conflicts".to_owned(), format!("{conflicts_per_op:.4} a transaction")],
            vec!["rollbacks".to_owned(), self.rolled_back.to_string()],
            vec!["conditions 1 to 4".to_owned(), check],
        ];
        let per_s = || self.per_s.iter().copied();
        if let Some((low, high)) = per_s().reduce(f64::min).zip(per_s().reduce(f64::max)) {
            let range = format!("{}/s to {}/s", show_count(low), show_count(high));
            rows.push(vec!["over time".to_owned(), format!("{range}: {}", bars(&self.per_s))]);
        }
        let titles = ["transaction", "ended", "p50", "p99", "p99.9", "longest"];
        let kinds = self.transactions.iter().map(|kind| {
            let Latencies { p50_ns, p99_ns, p999_ns, max_ns } =
                kind.latencies.map(|ns| show_ns(ns as f64));
            vec![kind.name.clone(), kind.count.to_string(), p50_ns, p99_ns, p999_ns, max_ns]
        });
        table(&[], rows) + &table(&titles, kinds)
    }
}
