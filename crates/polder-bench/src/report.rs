//! What is printed: one JSON line a result, or a table for people.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize, Serializer};

use crate::bench::Bench;
use crate::counters::{Counted, Event};
use crate::dist::Dist;
use crate::durability::Durability;
use crate::interval::{Median, median};
use crate::latencies::Latencies;
use crate::plan::{Plan, data_bytes};
use crate::size::{show_bytes, show_count, show_ns};
use crate::table::table;
use crate::team::Outcome;
use crate::tpcc::{Tally, TpccResult, TpccSummary};

/// What a round has used, beside time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Processor time of the whole process.
    pub(crate) cpu_s: f64,
    /// Requests to the device within the round.
    pub(crate) device_reads: u64,
    pub(crate) device_writes: u64,
    /// Bytes written towards the device from the begin of the round until the engine has settled
    /// behind it, where the kernel says so; see [`crate::usage`].
    pub(crate) written_bytes: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
}

/// What of its plan a figure depends on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Conditions {
    pub(crate) threads: usize,
    pub(crate) records: u64,
    pub(crate) value_size: usize,
    pub(crate) pool_bytes: u64,
    /// `None` where all records are touched in turn.
    pub(crate) dist: Option<Dist>,
    pub(crate) theta: f64,
    pub(crate) durability: Durability,
    pub(crate) log_limit_bytes: Option<u64>,
    /// Writes in a commit; 1 but for `commit`.
    pub(crate) batch: u64,
    /// Operations a second that should begin; `None` in a closed loop.
    pub(crate) rate_per_s: Option<u64>,
}

impl Conditions {
    fn of(plan: &Plan) -> Conditions {
        Conditions {
            // A bulk load is one thread's work in every engine.
            threads: if plan.bench == Bench::Bulk { 1 } else { plan.threads },
            records: plan.records,
            value_size: plan.value_size,
            pool_bytes: plan.pool_bytes,
            dist: plan.dist,
            theta: plan.theta,
            durability: plan.durability,
            log_limit_bytes: plan.log_limit_bytes,
            batch: plan.batch,
            rate_per_s: plan.rate,
        }
    }
}

/// The result of one round on one engine; the JSON line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) bench: Bench,
    pub(crate) engine: String,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    pub(crate) seconds: f64,
    /// Operations; for `scan`, entries; for `commit`, the writes of all batches.
    pub(crate) ops: u64,
    pub(crate) ops_per_s: f64,
    /// Of `commit` alone.
    pub(crate) commits_per_s: Option<f64>,
    /// Processor time of the whole process, its background threads too.
    pub(crate) cpu_s_per_op: f64,
    /// `None` where single operations are not timed; for `commit` those of whole batches. Those of
    /// an open loop count from when an operation should have begun.
    #[serde(flatten)]
    pub(crate) latencies: Latencies<Option<u64>>,
    pub(crate) device_reads_per_s: f64,
    pub(crate) device_writes_per_s: f64,
    /// Bytes of keys and values that were written.
    pub(crate) user_bytes_written: u64,
    /// See [`Cost::written_bytes`].
    pub(crate) device_bytes_written: Option<u64>,
    /// Device bytes by user bytes; `None` where either is not known or nothing was written. An
    /// upper bound for engines that write by way of the page cache: see [`crate::usage`].
    pub(crate) write_amplification: Option<f64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    #[serde(flatten)]
    pub(crate) counted: Counted,
    /// Of TPC-C alone, whose operations are transactions.
    pub(crate) tpcc: Option<TpccResult>,
}

impl RunResult {
    /// Puts together what was measured; `tally` is of TPC-C alone, and `check_s` how long the check
    /// behind a round of it took.
    pub(crate) fn new(
        plan: &Plan,
        outcome: &Outcome,
        tally: Option<&Tally>,
        cost: &Cost,
        check_s: Option<f64>,
    ) -> RunResult {
        // A round that was over at once still has a rate that JSON can express.
        let seconds = outcome.seconds.max(1e-9);
        let ops = outcome.ops.max(1) as f64;
        let ops_per_s = outcome.ops as f64 / seconds;
        let is_timed = !outcome.latencies.is_empty();
        let counts = |event| Some(outcome.counts?.of(event)? / ops);
        let tpcc = plan.tpcc.zip(tally);
        let user_bytes = match tpcc {
            Some((_, tally)) => tally.written_bytes,
            None => data_bytes(outcome.written, plan.value_size),
        };
        let amplified = cost.written_bytes.filter(|_| user_bytes > 0);
        RunResult {
            bench: plan.bench,
            engine: plan.engine.clone(),
            conditions: Conditions::of(plan),
            seconds: outcome.seconds,
            ops: outcome.ops,
            ops_per_s,
            commits_per_s: (plan.bench == Bench::Commit).then(|| ops_per_s / plan.batch as f64),
            cpu_s_per_op: cost.cpu_s / ops,
            latencies: Latencies::of(&outcome.latencies).map(|ns| is_timed.then_some(ns)),
            device_reads_per_s: cost.device_reads as f64 / seconds,
            device_writes_per_s: cost.device_writes as f64 / seconds,
            user_bytes_written: user_bytes,
            device_bytes_written: cost.written_bytes,
            write_amplification: amplified.map(|bytes| bytes as f64 / user_bytes as f64),
            peak_rss_bytes: cost.peak_rss_bytes,
            counted: Counted::each(counts),
            tpcc: tpcc.map(|(of, tally)| TpccResult::new(of, tally, outcome.seconds, check_s)),
        }
    }

    /// A table for people.
    pub(crate) fn table(&self) -> String {
        let conditions = &self.conditions;
        let dist = match conditions.dist {
            Some(Dist::Uniform) => ", uniform".to_owned(),
            Some(dist) => format!(", {dist} {}", conditions.theta),
            None => String::new(),
        };
        let ns = |ns: Option<u64>| ns.map_or("not timed".to_owned(), |ns| show_ns(ns as f64));
        let latencies = self.latencies.map(ns);
        let asked = |rate: u64| format!(", of {}/s asked for", show_count(rate as f64));
        let asked = conditions.rate_per_s.map_or(String::new(), asked);
        let mut rows = vec![
            ("throughput", format!("{}/s{asked}", show_count(self.ops_per_s))),
            ("operations", format!("{} in {:.2} s", self.ops, self.seconds)),
            ("processor time", format!("{} an operation", show_ns(self.cpu_s_per_op * 1e9))),
            ("latency p50", latencies.p50_ns),
            ("latency p99", latencies.p99_ns),
            ("latency p99.9", latencies.p999_ns),
            ("longest latency", latencies.max_ns),
            ("device reads", format!("{}/s", show_count(self.device_reads_per_s))),
            ("device writes", format!("{}/s", show_count(self.device_writes_per_s))),
            ("peak resident set", self.peak_rss_bytes.map_or("unknown".to_owned(), show_bytes)),
        ];
        for event in Event::ALL {
            let count = self.counted.of(event).map(|count| format!("{count:.2} an operation"));
            rows.extend(count.map(|count| (event.name(), count)));
        }
        if let Some(commits) = self.commits_per_s {
            let batch = conditions.batch;
            rows.insert(1, ("commits", format!("{}/s, each of {batch}", show_count(commits))));
        }
        if let Some(factor) = self.write_amplification {
            rows.push(("write amplification", format!("{factor:.2}")));
        }
        let data = match &self.tpcc {
            Some(tpcc) => tpcc.what(),
            None => format!("{} records of {} bytes", conditions.records, conditions.value_size),
        };
        let mut text = format!(
            "{} on {}: {data}, pool {}, {} thread(s){dist}, durability {}\n",
            self.bench.name(),
            self.engine,
            show_bytes(conditions.pool_bytes),
            conditions.threads,
            conditions.durability,
        );
        text += &table(&[], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
        text += &self.tpcc.as_ref().map(TpccResult::table).unwrap_or_default();
        text
    }
}

/// The result of a comparison; its JSON is the last line.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) bench: Bench,
    /// In the order in which they were named; an object with a key for each.
    #[serde(serialize_with = "as_object")]
    pub(crate) engines: Vec<(String, EngineSummary)>,
}

/// One engine in a comparison. Ratios are to the first engine named.
#[derive(Debug, Serialize)]
pub(crate) struct EngineSummary {
    pub(crate) median_ops_per_s: f64,
    /// The median of the ratios of each round.
    pub(crate) ratio: f64,
    pub(crate) ratio_low: f64,
    pub(crate) ratio_high: f64,
    /// With which probability the true ratio lies from `ratio_low` to `ratio_high`.
    pub(crate) confidence: f64,
    pub(crate) rounds: usize,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    /// This and the following: medians over the rounds.
    pub(crate) commits_per_s: Option<f64>,
    pub(crate) cpu_s_per_op: Option<f64>,
    #[serde(flatten)]
    pub(crate) latencies: Latencies<Option<f64>>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) device_reads_per_s: Option<f64>,
    pub(crate) device_writes_per_s: Option<f64>,
    /// As `ratio`, for device reads; `None` where the first engine read nothing in some round.
    pub(crate) device_ratio: Option<f64>,
    pub(crate) device_ratio_low: Option<f64>,
    pub(crate) device_ratio_high: Option<f64>,
    /// The largest of all rounds.
    pub(crate) peak_rss_bytes: Option<u64>,
    #[serde(flatten)]
    pub(crate) counted: Counted,
    /// Of TPC-C alone.
    pub(crate) tpcc: Option<TpccSummary>,
}

impl EngineSummary {
    /// From the rounds of an engine and, in the same order, those of the first engine; `None`
    /// where there are none.
    pub(crate) fn new(rounds: &[RunResult], first: &[RunResult]) -> Option<EngineSummary> {
        let any = rounds.first()?;
        let ratio = paired_ratio(rounds, first, |round| round.ops_per_s)?;
        let device = paired_ratio(rounds, first, |round| round.device_reads_per_s);
        let middle = |figure: fn(&RunResult) -> f64| median(rounds.iter().map(figure));
        let known =
            |figure: &dyn Fn(&RunResult) -> Option<f64>| median(rounds.iter().filter_map(figure));
        Some(EngineSummary {
            median_ops_per_s: middle(|round| round.ops_per_s)?,
            ratio: ratio.value,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            confidence: ratio.confidence,
            rounds: rounds.len(),
            conditions: any.conditions.clone(),
            commits_per_s: known(&|round| round.commits_per_s),
            cpu_s_per_op: middle(|round| round.cpu_s_per_op),
            latencies: Latencies::each(|of| {
                known(&|round| of(&round.latencies).map(|ns| ns as f64))
            }),
            write_amplification: known(&|round| round.write_amplification),
            device_reads_per_s: middle(|round| round.device_reads_per_s),
            device_writes_per_s: middle(|round| round.device_writes_per_s),
            device_ratio: device.map(|ratio| ratio.value),
            device_ratio_low: device.map(|ratio| ratio.low),
            device_ratio_high: device.map(|ratio| ratio.high),
            peak_rss_bytes: rounds.iter().filter_map(|round| round.peak_rss_bytes).max(),
            counted: Counted::each(|event| known(&|round| round.counted.of(event))),
            tpcc: TpccSummary::new(rounds.iter().filter_map(|round| round.tpcc.as_ref())),
        })
    }
}

/// The median of each round's ratio; `None` where the first engine's figure is zero in a round.
fn paired_ratio(
    rounds: &[RunResult],
    first: &[RunResult],
    figure: fn(&RunResult) -> f64,
) -> Option<Median> {
    let pairs = rounds.iter().zip(first);
    let ratios: Option<Vec<f64>> = pairs
        .map(|(round, first)| {
            let base = figure(first);
            (base > 0.0).then(|| figure(round) / base)
        })
        .collect();
    Median::of(&ratios?)
}

impl Comparison {
    /// A table for people.
    pub(crate) fn table(&self) -> String {
        let mut text = self.bench.name().to_owned();
        if let Some((_, any)) = self.engines.first() {
            if let Some(tpcc) = &any.tpcc {
                let _ = write!(text, ", {} warehouse(s), mix {}", tpcc.warehouses, tpcc.mix);
            }
            let Conditions { threads, durability, batch, rate_per_s, .. } = any.conditions;
            let _ = write!(text, ", {threads} thread(s), durability {durability}");
            if batch > 1 {
                let _ = write!(text, ", {batch} writes in a commit");
            }
            if let Some(rate) = rate_per_s {
                let _ = write!(text, ", {}/s asked for", show_count(rate as f64));
            }
        }
        text.push('\n');
        let titles = [
            "engine",
            "median",
            "ratio",
            "interval",
            "cpu/op",
            "peak RSS",
            "reads",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "write amp",
        ];
        let row = |(name, engine): &(String, EngineSummary)| {
            let ns = |figure: Option<f64>| figure.map_or("-".to_owned(), show_ns);
            let Latencies { p50_ns, p99_ns, p999_ns, max_ns } = engine.latencies.map(ns);
            vec![
                name.clone(),
                format!("{}/s", show_count(engine.median_ops_per_s)),
                format!("{:.3}", engine.ratio),
                format!("{:.3} to {:.3}", engine.ratio_low, engine.ratio_high),
                ns(engine.cpu_s_per_op.map(|s| s * 1e9)),
                engine.peak_rss_bytes.map_or("-".to_owned(), show_bytes),
                format!("{}/s", show_count(engine.device_reads_per_s.unwrap_or(0.0))),
                p50_ns,
                p99_ns,
                p999_ns,
                max_ns,
                engine.write_amplification.map_or("-".to_owned(), |factor| format!("{factor:.2}")),
            ]
        };
        text += &table(&titles, self.engines.iter().map(row));
        if let Some((first, summary)) = self.engines.first() {
            let _ = writeln!(
                text,
                "  Ratios are medians over {} rounds of each round's ratio to {first}; intervals \
                 hold with {:.1}%.",
                summary.rounds,
                summary.confidence * 100.0
            );
        }
        text
    }
}

fn as_object<S: Serializer>(
    engines: &[(String, EngineSummary)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(engines.iter().map(|(name, engine)| (name, engine)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn result(engine: &str, ops_per_s: f64, reads: f64) -> RunResult {
        RunResult {
            bench: Bench::Lookup,
            engine: engine.to_owned(),
            conditions: Conditions {
                threads: 1,
                records: 10,
                value_size: 120,
                pool_bytes: 1 << 20,
                dist: Some(Dist::Uniform),
                theta: 0.99,
                durability: Durability::Sync,
                log_limit_bytes: None,
                batch: 1,
                rate_per_s: None,
            },
            commits_per_s: None,
            seconds: 1.0,
            ops: ops_per_s as u64,
            ops_per_s,
            cpu_s_per_op: 1.0 / ops_per_s,
            latencies: Latencies {
                p50_ns: Some(500),
                p99_ns: Some(900),
                p999_ns: None,
                max_ns: Some(1000),
            },
            device_reads_per_s: reads,
            device_writes_per_s: 0.0,
            user_bytes_written: 100,
            device_bytes_written: Some(250),
            write_amplification: Some(2.5),
            peak_rss_bytes: Some(1000),
            counted: Counted::default(),
            tpcc: None,
        }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The machine is three times slower in the second round; the ratio is 2 in each.
        let first = [result("a", 300.0, 3.0), result("a", 100.0, 0.0), result("a", 200.0, 2.0)];
        let second = [result("b", 600.0, 3.0), result("b", 200.0, 1.0), result("b", 400.0, 2.0)];
        let summary = EngineSummary::new(&second, &first).unwrap();
        assert_eq!((summary.ratio_low, summary.ratio, summary.ratio_high), (2.0, 2.0, 2.0));
        assert_eq!(summary.median_ops_per_s, 400.0);
        assert_eq!(summary.device_ratio, None);
        let first = EngineSummary::new(&first, &first).unwrap();
        assert_eq!((first.ratio_low, first.ratio, first.ratio_high), (1.0, 1.0, 1.0));
    }

    #[test]
    fn the_json_has_bench_and_engines_in_their_order() {
        let rounds = [result("z", 100.0, 5.0)];
        let summary = || EngineSummary::new(&rounds, &rounds).unwrap();
        let comparison = Comparison {
            bench: Bench::Lookup,
            engines: vec![("z".to_owned(), summary()), ("a".to_owned(), summary())],
        };
        let json = serde_json::to_string(&comparison).unwrap();
        assert!(json.starts_with(r#"{"bench":"lookup","engines":{"z":{"median_ops_per_s":100.0,"#));
        assert!(json.contains(r#""a":{"#) && json.contains(r#""device_ratio":1.0"#));
        let table = comparison.table();
        assert!(table.contains("engine") && table.contains("durability sync"));
        assert!(table.contains("write amp") && table.contains("2.50"));
        assert!(rounds[0].table().contains("lookup on z"));
    }
}
