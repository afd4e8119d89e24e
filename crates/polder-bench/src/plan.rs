//! What one engine is to do: the options of the command line, resolved. A plan travels to a worker as
//! JSON.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::conditions::{Conditions, data_bytes};
use crate::engine::Named;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::size::{parse_number, within};
use crate::team::Team;
use crate::tpcc::{Scale, TpccPlan};

/// How the data gets in before a workload that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LoadOrder {
    /// By inserts in random order.
    Random,
    /// By the engine's bulk load: the fastest.
    Sorted,
}

/// One engine's part of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(crate) struct Plan {
    #[arg(skip = Bench::Lookup)]
    pub(crate) bench: Bench,
    #[arg(skip)]
    pub(crate) engine: String,
    #[arg(skip)]
    pub(crate) seconds: f64,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    /// Seconds that the workload runs after loading before anything is measured; load and bulk have
    /// none.
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = within(parse_number, 0.0..=86_400.0))]
    pub(crate) warmup: f64,
    /// How the data gets in before a workload that reads.
    #[arg(long, value_enum, default_value = "sorted")]
    pub(crate) load: LoadOrder,
    /// Start of the random numbers that choose records and operations.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// Count instructions, cycles and misses (of caches, of the data TLB, of branches) per operation, in
    /// user mode, where the kernel permits it.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Of TPC-C alone.
    #[command(flatten)]
    pub(crate) tpcc: TpccPlan,
}

impl Plan {
    /// The threads of its phases, which know by themselves when to stop.
    pub(crate) fn team<'a>(&self, interrupt: &'a Interrupt) -> Team<'a> {
        let threads = self.conditions.threads;
        Team { threads, counts: self.counters, limit: None, interrupt }
    }

    /// The plan that these options are for a workload on an engine, in rounds of so many seconds. TPC-C,
    /// whose data grow, works for `all_seconds`.
    pub(crate) fn resolved(
        &self,
        bench: Bench,
        named: &Named,
        seconds: f64,
        all_seconds: f64,
    ) -> Result<Plan, BenchError> {
        let mut plan = Plan { bench, engine: named.to_string(), seconds, ..self.clone() };
        let conditions = &mut plan.conditions;
        named.kind.can_run(bench, conditions.durability).map_err(BenchError::Options)?;
        let is_for_many = match bench.mix() {
            Some(mix) => mix.read + mix.scan > 0 && conditions.rate_per_s.is_none(),
            None => matches!(bench, Bench::Load | Bench::Tpcc),
        };
        if named.many() > 1 && !is_for_many {
            let why = "many is for load, lookup, ycsb and tpcc, without --rate";
            return Err(BenchError::Options(format!("{named}: {why}")));
        }
        if named.tasks().is_some() && (bench != Bench::Tpcc || named.many() > 1) {
            let why = "tasks is for tpcc, and without many, whose calls wait";
            return Err(BenchError::Options(format!("{named}: {why}")));
        }
        conditions.dist = conditions.dist.or(bench.dist());
        let ample = if bench == Bench::Tpcc {
            let warehouses = plan.tpcc.warehouses;
            (conditions.records, conditions.value_size) = (Scale::FULL.rows(warehouses), 0);
            ample_tpcc_pool_bytes(warehouses, all_seconds + plan.warmup)
        } else {
            ample_pool_bytes(conditions.records, conditions.value_size)
        };
        if conditions.pool_bytes == 0 {
            conditions.pool_bytes = ample;
        }
        Ok(plan)
    }
}

#[cfg(test)]
impl Plan {
    /// What a command line without options says.
    pub(crate) fn usual() -> Plan {
        let command = Plan::augment_args(clap::Command::new(""));
        clap::FromArgMatches::from_arg_matches(&command.get_matches_from([""])).unwrap()
    }
}

/// A pool in which everything fits, also after inserts in random order, which leave pages
/// two thirds full.
fn ample_pool_bytes(records: u64, value_size: usize) -> u64 {
    const RECORD_OVERHEAD_BYTES: u64 = 24;
    const LEAST_BYTES: u64 = 64 << 20;
    let around = records.saturating_mul(RECORD_OVERHEAD_BYTES);
    let bytes = data_bytes(records, value_size).saturating_add(around);
    bytes.saturating_add(bytes / 4 * 3).saturating_add(LEAST_BYTES)
}

/// A pool in which TPC-C stays resident for so many seconds at any speed that is to be expected.
fn ample_tpcc_pool_bytes(warehouses: u16, seconds: f64) -> u64 {
    const WAREHOUSE_BYTES: u64 = 192 << 20;
    /// Orders, their lines and payments of some 50 thousand transactions.
    const BYTES_PER_S: f64 = (32 << 20) as f64;
    const LEAST_BYTES: u64 = 256 << 20;
    LEAST_BYTES + u64::from(warehouses) * WAREHOUSE_BYTES + (seconds * BYTES_PER_S) as u64
}
