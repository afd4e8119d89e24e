//! What a round of TPC-C says beside what every round does.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::TpccPlan;
use super::mix::Mix;
use super::tally::{KindTally, Tally};
use super::transactions::Transaction;
use crate::bars::bars_of;
use crate::interval::median;
use crate::latencies::Latencies;
use crate::size::{show_count, show_ns};
use crate::table::table;

/// Of one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TpccResult {
    pub(crate) warehouses: u16,
    pub(crate) affinity: bool,
    pub(crate) mix: Mix,
    /// New orders a minute that were committed.
    pub(crate) tpmc: f64,
    /// Tries, for each transaction that ended, that another one was faster than.
    pub(crate) conflicts_per_op: f64,
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
    pub(crate) committed: u64,
    /// New orders that asked for an item that there is not.
    pub(crate) rolled_back: u64,
    pub(crate) conflicts: u64,
    /// Latencies are those of whole transactions, with all their tries.
    #[serde(flatten)]
    pub(crate) latencies: Latencies<u64>,
}

impl KindResult {
    fn new(transaction: Transaction, tally: &KindTally) -> KindResult {
        let KindTally { committed, rolled_back, conflicts, ref latencies } = *tally;
        KindResult {
            name: transaction.to_string(),
            committed,
            rolled_back,
            conflicts,
            latencies: Latencies::of(latencies),
        }
    }
}

/// Of an engine's rounds in a comparison.
#[derive(Debug, Serialize)]
pub(crate) struct TpccSummary {
    pub(crate) warehouses: u16,
    pub(crate) affinity: bool,
    pub(crate) mix: Mix,
    /// This and the following: medians over the rounds.
    pub(crate) tpmc: f64,
    pub(crate) conflicts_per_op: f64,
}

impl TpccSummary {
    /// `None` where there are no rounds.
    pub(crate) fn new<'r>(rounds: impl Iterator<Item = &'r TpccResult>) -> Option<TpccSummary> {
        let rounds: Vec<_> = rounds.collect();
        let middle = |figure: fn(&TpccResult) -> f64| median(rounds.iter().map(|r| figure(r)));
        let any = rounds.first()?;
        Some(TpccSummary {
            warehouses: any.warehouses,
            affinity: any.affinity,
            mix: any.mix,
            tpmc: middle(|round| round.tpmc)?,
            conflicts_per_op: middle(|round| round.conflicts_per_op)?,
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
        let kinds = Transaction::VARIANTS.iter().copied().zip(&tally.kinds);
        let ended = |kind: &KindTally| kind.committed + kind.rolled_back;
        let all: u64 = tally.kinds.iter().map(ended).sum();
        let conflicts: u64 = tally.kinds.iter().map(|kind| kind.conflicts).sum();
        let new_orders = tally.kinds[Transaction::NewOrder as usize].committed;
        let interval_s = tally.interval.as_secs_f64();
        TpccResult {
            warehouses: plan.warehouses,
            affinity: plan.affinity,
            mix: plan.mix,
            tpmc: new_orders as f64 / took_s.max(1e-9) * 60.0,
            conflicts_per_op: conflicts as f64 / all.max(1) as f64,
            transactions: kinds
                .filter(|(_, tally)| ended(tally) > 0)
                .map(|(transaction, tally)| KindResult::new(transaction, tally))
                .collect(),
            interval_s,
            per_s: tally.over_time.iter().map(|count| *count as f64 / interval_s).collect(),
            check_s,
        }
    }

    /// What it is, for the first line of a table.
    pub(crate) fn what(&self) -> String {
        let affinity = if self.affinity { ", threads with warehouses of their own" } else { "" };
        format!("{} warehouse(s), mix {}{affinity}", self.warehouses, self.mix)
    }

    /// The lines of a table behind those of every round.
    pub(crate) fn table(&self) -> String {
        let check = self.check_s.map_or("not looked at".to_owned(), |s| format!("hold ({s:.2} s)"));
        let mut rows = vec![
            vec!["new orders".to_owned(), format!("{}/min", show_count(self.tpmc))],
            vec!["conflicts".to_owned(), format!("{:.4} a transaction", self.conflicts_per_op)],
            vec!["conditions 1 to 4".to_owned(), check],
        ];
        if let Some((low, high)) = self.extremes() {
            let range = format!("{}/s to {}/s", show_count(low), show_count(high));
            rows.push(vec!["over time".to_owned(), format!("{range}: {}", bars_of(&self.per_s))]);
        }
        let titles = [
            "transaction",
            "committed",
            "conflicts",
            "rollbacks",
            "p50",
            "p99",
            "p99.9",
            "longest",
        ];
        let kinds = self.transactions.iter().map(|kind| {
            let Latencies { p50_ns, p99_ns, p999_ns, max_ns } =
                kind.latencies.map(|ns| show_ns(ns as f64));
            let counts = [kind.committed, kind.conflicts, kind.rolled_back].map(|n| n.to_string());
            [&[kind.name.clone()][..], &counts, &[p50_ns, p99_ns, p999_ns, max_ns]].concat()
        });
        table(&[], rows) + &table(&titles, kinds)
    }

    /// Of the intervals, the slowest and the fastest.
    fn extremes(&self) -> Option<(f64, f64)> {
        let low = self.per_s.iter().copied().reduce(f64::min)?;
        Some((low, self.per_s.iter().copied().reduce(f64::max)?))
    }
}
