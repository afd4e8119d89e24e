//! Restart: how soon a store is at full speed after it was opened, cold, and with the list of the pages
//! that were in memory before (leanstore-2018 IV-I and VI, "ramp-up").
//!
//! A store that does not fit in memory is loaded, used until the pool holds what is hot, and closed.
//! Then it is opened again and again, in turn without the list and with it, each time with an empty
//! pool and no page of it in the kernel's cache (reads go past that), and used as before. Full speed is
//! the faster of what the two sides of a round settle at. Beside them stands what the device gives to
//! as many threads that read single pages.

use std::path::Path;
use std::time::{Duration, Instant};

use polder::{Durability, OpenMode, Options, Store, Table, TranslationKind};
use serde::Serialize;

use crate::bars::bars;
use crate::dist::{Chooser, Dist};
use crate::engine::Named;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::interval::median;
use crate::meter::Stop;
use crate::progress::Tell;
use crate::random::stream;
use crate::records;
use crate::size::{show_bytes, show_count};
use crate::sorted::SortedKeys;
use crate::table::table;
use crate::team::Team;

/// How long an interval of the throughput over time is.
const INTERVAL: Duration = Duration::from_millis(50);
/// Lookups between two looks at the clock.
const PER_LOOK: u64 = 16;

/// What is to be done.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RestartPlan {
    pub(crate) engine: String,
    pub(crate) records: u64,
    pub(crate) value_size: usize,
    pub(crate) pool_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) seconds: f64,
    /// Before the first time that it is closed.
    pub(crate) warmup_seconds: f64,
    pub(crate) rounds: u32,
    pub(crate) theta: f64,
    pub(crate) seed: u64,
}

/// One opening.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Restarted {
    /// Whether the list of resident pages was loaded.
    pub(crate) warm: bool,
    pub(crate) opening_s: f64,
    /// From the beginning of the opening until throughput was at nine tenths of full speed; `None` if
    /// it never was.
    pub(crate) to_nine_tenths_s: Option<f64>,
    /// Lookups a second at the end: the median over the last third.
    pub(crate) settled_per_s: f64,
    pub(crate) prewarmed_pages: u64,
    pub(crate) prewarm_ms: u64,
    /// Pages that lookups had to wait for.
    pub(crate) faults: u64,
    pub(crate) interval_s: f64,
    /// Lookups a second in each interval, from when the store was open.
    pub(crate) per_s: Vec<f64>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct RestartResult {
    pub(crate) bench: &'static str,
    #[serde(flatten)]
    pub(crate) plan: RestartPlan,
    /// Single pages a second that the device gives to as many threads.
    pub(crate) device_reads_per_s: f64,
    /// Medians over the rounds, in seconds; `None` if one of them never got there.
    pub(crate) cold_s: Option<f64>,
    pub(crate) warm_s: Option<f64>,
    pub(crate) runs: Vec<Restarted>,
}

/// Loads a store in this directory and restarts it.
pub(crate) fn run(
    plan: RestartPlan,
    (named, translation): (Named, TranslationKind),
    dir: &Path,
    device_reads_per_s: f64,
    interrupt: &Interrupt,
    tell: Tell<'_>,
) -> Result<RestartResult, BenchError> {
    let options = || {
        let options = Options::new(dir.join("store"));
        named
            .memory()
            .of(options, plan.pool_bytes)
            .translation(translation)
            .replacement(named.replacement())
            .read_mode(named.hold())
            .durability(Durability::None)
    };
    tell("loading");
    let keys = SortedKeys::prepare(&dir.join("sorted-keys"), plan.records, interrupt)?;
    let mut entries = keys.records(plan.value_size, interrupt)?;
    let store = Store::open(options().mode(OpenMode::Create))?;
    let loaded = store.create_table("records")?.bulk_load(&mut entries);
    interrupt.check()?;
    loaded?;
    entries.finish()?;
    tell("warming up");
    look_up(&plan, &store.table("records")?, 0, plan.warmup_seconds, interrupt)?;
    store.close()?;
    let mut runs = Vec::new();
    for round in 0..plan.rounds {
        // Each goes first as often as the other.
        let mut sides = [false, true];
        sides.rotate_left(round as usize % 2);
        let mut both = Vec::new();
        for warm in sides {
            tell(if warm { "restarting with the list" } else { "restarting cold" });
            let began = Instant::now();
            let store = Store::open(options().mode(OpenMode::Open).warm_restart(warm))?;
            let table = store.table("records")?;
            let opening_s = began.elapsed().as_secs_f64();
            let number = u64::from(round) + 1;
            let per_s = look_up(&plan, &table, number, plan.seconds, interrupt)?;
            let stats = store.stats();
            drop(table);
            store.close()?;
            both.push(Restarted {
                warm,
                opening_s,
                to_nine_tenths_s: None,
                settled_per_s: median(per_s.iter().copied().skip(per_s.len() * 2 / 3))
                    .unwrap_or(0.0),
                prewarmed_pages: stats.pool.prewarmed_pages,
                prewarm_ms: stats.prewarm_ms,
                faults: stats.pool.faults,
                interval_s: INTERVAL.as_secs_f64(),
                per_s,
            });
        }
        let full = both.iter().map(|run| run.settled_per_s).fold(0.0, f64::max);
        for mut run in both {
            run.to_nine_tenths_s = run.reaches(0.9 * full);
            runs.push(run);
        }
    }
    let median_of = |warm: bool| {
        let times = runs.iter().filter(|run| run.warm == warm).map(|run| run.to_nine_tenths_s);
        median(times.collect::<Option<Vec<_>>>()?)
    };
    let (cold_s, warm_s) = (median_of(false), median_of(true));
    Ok(RestartResult { bench: "restart", plan, device_reads_per_s, cold_s, warm_s, runs })
}

/// Has all threads look up records for so many seconds; gives how many a second in each interval.
fn look_up(
    plan: &RestartPlan,
    table: &Table,
    number: u64,
    seconds: f64,
    interrupt: &Interrupt,
) -> Result<Vec<f64>, BenchError> {
    let limit = Duration::from_secs_f64(seconds);
    let intervals = (seconds / INTERVAL.as_secs_f64() + 1e-6) as usize;
    let work = |thread: usize, table: Table, stop: &Stop<'_>| {
        let mut random = stream(plan.seed, (number << 16) | thread as u64);
        let mut chooser = Chooser::new(Dist::Zipfian, plan.theta, plan.records);
        let (mut counts, mut value) = (vec![0u64; intervals], Vec::new());
        let started = Instant::now();
        while !stop.is_set() {
            for _ in 0..PER_LOOK {
                let key = records::key(chooser.record(&mut random, plan.records));
                let copy = |found: &[u8]| {
                    value.clear();
                    value.extend_from_slice(found);
                };
                if table.get_with(key, copy)?.is_none() {
                    let (table, key) = (table.name().to_owned(), key.to_vec());
                    return Err(BenchError::NoRow { table, key });
                }
            }
            let since = started.elapsed();
            if since >= limit {
                break;
            }
            let interval = (since.as_nanos() / INTERVAL.as_nanos()) as usize;
            counts.get_mut(interval).into_iter().for_each(|count| *count += PER_LOOK);
        }
        Ok(counts)
    };
    let team = Team { threads: plan.threads, counters: false, limit: None, interrupt };
    let done = team.run(|_| Ok(table.clone()), work)?;
    let mut all = vec![0.0; intervals];
    for counts in &done.readings {
        for (sum, count) in all.iter_mut().zip(counts) {
            *sum += *count as f64 / INTERVAL.as_secs_f64();
        }
    }
    Ok(all)
}

impl Restarted {
    /// Seconds since the opening began until throughput was first at `per_s`.
    fn reaches(&self, per_s: f64) -> Option<f64> {
        let at = self.per_s.iter().position(|here| *here >= per_s)?;
        Some(self.opening_s + (at + 1) as f64 * self.interval_s)
    }
}

impl RestartResult {
    /// A table for people, and the curves, which have one scale.
    pub(crate) fn table(&self) -> String {
        let RestartPlan { engine, records, value_size, pool_bytes, threads, theta, .. } =
            &self.plan;
        let mut text = format!(
            "restart on {engine}: {records} records of {value_size} bytes, pool {}, {threads} \
             thread(s), zipfian {theta}; the device gives as many threads {} pages/s\n",
            show_bytes(*pool_bytes),
            show_count(self.device_reads_per_s),
        );
        let seconds = |s: Option<f64>| s.map_or("never".to_owned(), |s| format!("{s:.2} s"));
        let side = |run: &Restarted| if run.warm { "warm" } else { "cold" }.to_owned();
        let titles = ["", "open", "nine tenths", "lookups/s then", "prewarmed", "in", "faults"];
        text += &table(
            &titles,
            self.runs.iter().map(|run| {
                vec![
                    side(run),
                    format!("{:.3} s", run.opening_s),
                    seconds(run.to_nine_tenths_s),
                    show_count(run.settled_per_s),
                    run.prewarmed_pages.to_string(),
                    format!("{} ms", run.prewarm_ms),
                    run.faults.to_string(),
                ]
            }),
        );
        let most = self.runs.iter().flat_map(|run| &run.per_s).copied().fold(1e-9, f64::max);
        text += &format!("over time, up to {}/s:\n", show_count(most));
        text += &table(&[], self.runs.iter().map(|run| vec![side(run), bars(&run.per_s, most)]));
        let ratio = self.cold_s.zip(self.warm_s).map(|(cold, warm)| cold / warm.max(1e-9));
        let ratio = ratio.map_or(String::new(), |ratio| format!(": {ratio:.1} times as soon"));
        text += &format!(
            "nine tenths of full speed: cold {}, warm {}{ratio}\n",
            seconds(self.cold_s),
            seconds(self.warm_s)
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restarted(per_s: &[f64]) -> Restarted {
        Restarted {
            warm: true,
            opening_s: 0.5,
            to_nine_tenths_s: None,
            settled_per_s: 0.0,
            prewarmed_pages: 0,
            prewarm_ms: 0,
            faults: 0,
            interval_s: 0.05,
            per_s: per_s.to_vec(),
        }
    }

    #[test]
    fn the_opening_is_part_of_the_time() {
        let run = restarted(&[10.0, 50.0, 95.0, 80.0, 100.0]);
        assert_eq!(run.reaches(90.0).map(|s| (s * 1e3).round()), Some(650.0));
        assert_eq!(run.reaches(5.0).map(|s| (s * 1e3).round()), Some(550.0));
        assert_eq!(run.reaches(101.0), None);
    }
}
