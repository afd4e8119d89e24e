//! From arguments to the plan of one engine.

use std::path::Path;

use super::args::{CommonArgs, StoreArgs, TpccOptions};
use crate::bench::Bench;
use crate::dist::{Dist, YCSB_THETA};
use crate::engine::{Named, device};
use crate::error::BenchError;
use crate::plan::{self, Plan};
use crate::tpcc::{Mix, Scale, TpccPlan};

/// Seconds of a warm-up, where nothing else is said.
const DEFAULT_WARMUP_SECONDS: f64 = 1.0;
const DEFAULT_RECORDS: u64 = 1_000_000;
const DEFAULT_VALUE_BYTES: usize = 120;
const DEFAULT_WAREHOUSES: u16 = 10;

/// All options of one engine's part.
pub(super) fn resolve(
    bench: Bench,
    named: Named,
    seconds: f64,
    args: &CommonArgs,
    dir: &Path,
) -> Result<Plan, BenchError> {
    check_options(bench, &TpccOptions::default(), args)?;
    let dist = args.dist.or(bench.dist());
    if args.theta.is_some() && !matches!(dist, Some(Dist::Zipfian | Dist::Latest)) {
        let dist = dist.map_or("all records".to_owned(), |dist| dist.to_string());
        let why = format!("--theta is for zipfian and latest; {} asks for {dist}", bench.name());
        return Err(BenchError::Options(why));
    }
    named.kind.can_run(bench, args.store.durability).map_err(BenchError::Options)?;
    if named.many() > 1 {
        let is_for_it = bench.mix().is_some_and(|mix| mix.read + mix.scan > 0);
        if !(is_for_it || bench == Bench::Load) || args.rate.is_some() {
            let why = "many is for load, lookup, ycsb and tpcc, without --rate";
            return Err(BenchError::Options(format!("{named}: {why}")));
        }
    }
    let commit_bytes = (bench == Bench::Commit).then_some(device::COMMIT_BYTES);
    let records = args.records.unwrap_or(DEFAULT_RECORDS);
    let value_size = args.value_size.unwrap_or(DEFAULT_VALUE_BYTES);
    let ample = || plan::ample_pool_bytes(records, value_size);
    Ok(Plan {
        records,
        value_size,
        pool_bytes: args.store.pool.unwrap_or_else(ample),
        dist,
        theta: args.theta.unwrap_or(YCSB_THETA),
        load: args.load.unwrap_or(plan::LoadOrder::Sorted),
        device_bytes: args.device_size.or(commit_bytes),
        batch: args.batch.unwrap_or(1),
        rate: args.rate,
        ..of_store(bench, named, seconds, &args.store, dir)
    })
}

/// What each workload takes from the options of its store.
fn of_store(bench: Bench, named: Named, seconds: f64, args: &StoreArgs, dir: &Path) -> Plan {
    Plan {
        prefault: args.prefault,
        threads: args.threads,
        warmup_seconds: args.warmup.unwrap_or(DEFAULT_WARMUP_SECONDS),
        seed: args.seed,
        counters: args.counters,
        durability: args.durability,
        log_limit_bytes: args.log_limit,
        ..Plan::new(bench, named.to_string(), dir, seconds)
    }
}

/// The file of `device` has a size where that is one of the engines.
pub(super) fn check_device_size(args: &CommonArgs, all: &[Named]) -> Result<(), BenchError> {
    let has_device = all.iter().any(|named| named.kind.name == device::KIND.name);
    if args.device_size.is_some() && !has_device {
        let why = "--device-size is for the engine device, which is not asked for";
        return Err(BenchError::Options(why.to_owned()));
    }
    Ok(())
}

/// The same for TPC-C. `seconds` are those of a round; `all_seconds` those in which the data grows.
pub(super) fn resolve_tpcc(
    named: Named,
    (seconds, all_seconds): (f64, f64),
    options: &TpccOptions,
    args: &StoreArgs,
    dir: &Path,
) -> Result<Plan, BenchError> {
    named.kind.can_run(Bench::Tpcc, args.durability).map_err(BenchError::Options)?;
    let warehouses = options.warehouses.unwrap_or(DEFAULT_WAREHOUSES);
    let warmup_seconds = args.warmup.unwrap_or(DEFAULT_WARMUP_SECONDS);
    let ample = || plan::ample_tpcc_pool_bytes(warehouses, all_seconds + warmup_seconds);
    Ok(Plan {
        records: Scale::FULL.rows(warehouses),
        pool_bytes: args.pool.unwrap_or_else(ample),
        tpcc: Some(TpccPlan {
            warehouses,
            affinity: options.affinity,
            mix: options.mix.unwrap_or(Mix::Standard),
            check: !options.no_check,
        }),
        ..of_store(Bench::Tpcc, named, seconds, args, dir)
    })
}

/// Refuses what says nothing to this workload.
pub(super) fn check_options(
    bench: Bench,
    tpcc: &TpccOptions,
    args: &CommonArgs,
) -> Result<(), BenchError> {
    let (is_tpcc, begins_empty) = (bench == Bench::Tpcc, bench.fills());
    let said_and_meant = [
        ("--warehouses", tpcc.warehouses.is_some(), is_tpcc),
        ("--mix", tpcc.mix.is_some(), is_tpcc),
        ("--affinity", tpcc.affinity, is_tpcc),
        ("--no-check", tpcc.no_check, is_tpcc),
        ("--records", args.records.is_some(), !is_tpcc),
        ("--value-size", args.value_size.is_some(), !is_tpcc),
        ("--device-size", args.device_size.is_some(), !is_tpcc),
        // Where all records are touched none is chosen.
        ("--dist", args.dist.is_some(), bench.dist().is_some()),
        ("--theta", args.theta.is_some(), bench.dist().is_some()),
        ("--load", args.load.is_some(), !is_tpcc && !begins_empty),
        ("--warmup", args.store.warmup.is_some(), !begins_empty),
        ("--batch", args.batch.is_some(), bench == Bench::Commit),
        // What is no mix of operations goes as fast as it can.
        ("--rate", args.rate.is_some(), bench.mix().is_some()),
        // A bulk load is one thread's work in every engine.
        ("--threads", args.store.threads > 1, bench != Bench::Bulk),
    ];
    match said_and_meant.iter().find(|(_, is_said, means_something)| *is_said && !means_something) {
        Some((option, ..)) => Err(BenchError::Options(format!("{} has no {option}", bench.name()))),
        None => Ok(()),
    }
}
