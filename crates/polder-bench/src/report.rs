//! What is printed: one JSON line a result, or a table for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::bench::Bench;
use crate::conditions::{Conditions, data_bytes};
use crate::counters;
use crate::dist::Dist;
use crate::interval::{Median, median};
use crate::latencies::Latencies;
use crate::plan::Plan;
use crate::size::{show_bytes, show_count, show_ns};
use crate::table::table;
use crate::team::Outcome;
use crate::tpcc::{Tally, TpccResult, TpccSummary};
use crate::usage::{Usage, peak_rss_bytes};

/// Figures by their names in JSON. What was not measured is not there:
///
/// * `commits_per_s` is of `commit` alone, whose operations are the writes of all batches.
/// * `cpu_s_per_op` has the processor time of the whole process, its background threads too.
/// * Latencies are not there where single operations are not timed; for `commit` they are those of
///   whole batches. Those of an open loop count from when an operation should have begun.
/// * `device_bytes_written` counts from the begin of the round until the engine has settled behind it,
///   where the kernel says so; `write_amplification` is that by what was asked of it, an upper bound
///   for engines that write by way of the page cache. See [`crate::usage`].
/// * What the processor counted, an operation, is there with `--counters`, where the kernel permits.
pub(crate) type Figures = BTreeMap<String, f64>;

/// How people see a figure: by which name in a round, in which column of a comparison (in none without a
/// title), and how it is written.
type Shown = (&'static str, &'static str, &'static str, fn(f64) -> String);

/// Figures as people see them, by their names in JSON.
const SHOWN: [Shown; 12] = [
    ("ops_per_s", "throughput", "median", show_rate),
    ("commits_per_s", "commits", "", show_rate),
    ("cpu_s_per_op", "processor time an operation", "cpu/op", |seconds| show_ns(seconds * 1e9)),
    ("peak_rss_bytes", "peak resident set", "peak RSS", |bytes| show_bytes(bytes as u64)),
    ("device_reads_per_s", "device reads", "reads", show_rate),
    ("device_writes_per_s", "device writes", "", show_rate),
    ("p50_ns", "latency p50", "p50", show_ns),
    ("p99_ns", "latency p99", "p99", show_ns),
    ("p999_ns", "latency p99.9", "p99.9", show_ns),
    ("max_ns", "longest latency", "longest", show_ns),
    ("device_bytes_written", "device bytes written", "", |bytes| show_bytes(bytes as u64)),
    ("write_amplification", "write amplification", "write amp", |factor| format!("{factor:.2}")),
];

fn show_rate(per_s: f64) -> String {
    format!("{}/s", show_count(per_s))
}

/// What the figure of something that the processor counted is called, an operation.
fn counted(name: &str) -> String {
    name.to_lowercase().replace(' ', "_") + "_per_op"
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
    /// Bytes of keys and values that were written.
    pub(crate) user_bytes_written: u64,
    /// Of TPC-C alone, whose operations are transactions.
    pub(crate) tpcc: Option<TpccResult>,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

impl RunResult {
    /// Puts together what was measured and used; `tally` is of TPC-C alone, and `check_s` how long the
    /// check behind a round of it took.
    pub(crate) fn new(
        plan: &Plan,
        outcome: &Outcome,
        tally: Option<&Tally>,
        used: Usage,
        check_s: Option<f64>,
    ) -> RunResult {
        let Outcome { seconds, ops, .. } = *outcome;
        // A round that was over at once still has rates that JSON can express.
        let per_s = |count: u64| count as f64 / seconds.max(1e-9);
        let per_op = |amount: f64| amount / ops.max(1) as f64;
        let user_bytes_written = match tally {
            Some(tally) => tally.written_bytes,
            None => data_bytes(outcome.written, plan.conditions.value_size),
        };
        let (batch, is_commit) = (plan.conditions.batch, plan.bench == Bench::Commit);
        let latencies = Latencies::of(&outcome.latencies).map(|ns| ns as f64);
        let timed = |ns: f64| (!outcome.latencies.is_empty()).then_some(ns);
        let written = used.written_bytes.map(|bytes| bytes as f64);
        let amplified = written.filter(|_| user_bytes_written > 0);
        let figures = [
            ("ops_per_s", Some(per_s(ops))),
            ("commits_per_s", is_commit.then(|| per_s(ops) / batch as f64)),
            ("cpu_s_per_op", Some(per_op(used.cpu_s))),
            ("p50_ns", timed(latencies.p50_ns)),
            ("p99_ns", timed(latencies.p99_ns)),
            ("p999_ns", timed(latencies.p999_ns)),
            ("max_ns", timed(latencies.max_ns)),
            ("device_reads_per_s", Some(per_s(used.device.reads))),
            ("device_writes_per_s", Some(per_s(used.device.writes))),
            ("device_bytes_written", written),
            ("write_amplification", amplified.map(|bytes| bytes / user_bytes_written as f64)),
            ("peak_rss_bytes", peak_rss_bytes().map(|bytes| bytes as f64)),
        ]
        .into_iter()
        .filter_map(|(name, figure)| Some((name.to_owned(), figure?)));
        let counts = outcome.counts.iter().map(|(name, count)| (counted(name), per_op(*count)));
        RunResult {
            bench: plan.bench,
            engine: plan.engine.clone(),
            conditions: plan.conditions.clone(),
            seconds,
            ops,
            user_bytes_written,
            tpcc: tally.map(|tally| TpccResult::new(plan.tpcc, tally, seconds, check_s)),
            figures: figures.chain(counts).collect(),
        }
    }

    /// A table for people.
    pub(crate) fn table(&self) -> String {
        let Conditions { records, value_size, pool_bytes, dist, theta, .. } = self.conditions;
        let dist = match dist {
            Some(Dist::Uniform) => ", uniform".to_owned(),
            Some(dist) => format!(", {dist} {theta}"),
            None => String::new(),
        };
        let data = match &self.tpcc {
            Some(tpcc) => tpcc.what(),
            None => format!("{records} records of {value_size} bytes"),
        };
        let (bench, pool) = (self.bench.name(), show_bytes(pool_bytes));
        let title =
            format!("{bench} on {}: {data}, pool {pool}{dist}, {}\n", self.engine, self.conditions);
        let mut rows =
            vec![("operations".to_owned(), format!("{} in {:.2} s", self.ops, self.seconds))];
        for (figure, name, _, show) in SHOWN {
            rows.extend(self.figures.get(figure).map(|value| (name.to_owned(), show(*value))));
        }
        for name in counters::NAMES {
            let count = self.figures.get(&counted(name));
            rows.extend(count.map(|count| (format!("{name} an operation"), format!("{count:.2}"))));
        }
        let of_tpcc = self.tpcc.as_ref().map(TpccResult::table).unwrap_or_default();
        title + &table(&[], rows.into_iter().map(|(name, value)| vec![name, value])) + &of_tpcc
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

fn as_object<S: Serializer>(
    engines: &[(String, EngineSummary)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(engines.iter().map(|(name, engine)| (name, engine)))
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
    /// Of TPC-C alone.
    pub(crate) tpcc: Option<TpccSummary>,
    /// Medians over the rounds, and the largest resident set of all of them.
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

impl EngineSummary {
    /// From the rounds of an engine and, in the same order, those of the first engine; `None`
    /// where there are none.
    pub(crate) fn new(rounds: &[RunResult], first: &[RunResult]) -> Option<EngineSummary> {
        let ops_per_s = |round: &RunResult| round.figures.get("ops_per_s").copied();
        let pairs = rounds.iter().zip(first);
        let ratios = pairs.map(|(round, first)| Some(ops_per_s(round)? / ops_per_s(first)?));
        let ratio = Median::of(&ratios.collect::<Option<Vec<_>>>()?)?;
        let names = rounds.iter().flat_map(|round| round.figures.keys());
        let figures = names.filter_map(|name| {
            let of_rounds = rounds.iter().filter_map(|round| round.figures.get(name).copied());
            let of_all = match name.as_str() {
                "peak_rss_bytes" => of_rounds.reduce(f64::max),
                _ => median(of_rounds),
            };
            Some((name.clone(), of_all?))
        });
        Some(EngineSummary {
            median_ops_per_s: median(rounds.iter().filter_map(ops_per_s))?,
            ratio: ratio.value,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            confidence: ratio.confidence,
            rounds: rounds.len(),
            conditions: rounds.first()?.conditions.clone(),
            tpcc: TpccSummary::new(rounds.iter().filter_map(|round| round.tpcc.as_ref())),
            figures: figures.collect(),
        })
    }
}

impl Comparison {
    /// A table for people.
    pub(crate) fn table(&self) -> String {
        let bench = self.bench.name();
        let Some((first, any)) = self.engines.first() else { return format!("{bench}\n") };
        let tpcc = any.tpcc.as_ref().map_or(String::new(), |tpcc| {
            format!(", {} warehouse(s), mix {}", tpcc.warehouses, tpcc.mix)
        });
        let [throughput, others @ ..] = &SHOWN;
        let columns = others.iter().filter(|(_, _, title, _)| !title.is_empty());
        let titles = ["engine", throughput.2, "ratio", "interval"].into_iter();
        let titles: Vec<&str> = titles.chain(columns.clone().map(|column| column.2)).collect();
        let row = |(name, engine): &(String, EngineSummary)| {
            let shown = |(figure, _, _, show): &Shown| {
                engine.figures.get(*figure).map_or("-".to_owned(), |value| show(*value))
            };
            let ratio = format!("{:.3}", engine.ratio);
            let interval = format!("{:.3} to {:.3}", engine.ratio_low, engine.ratio_high);
            let first = [name.clone(), shown(throughput), ratio, interval].into_iter();
            first.chain(columns.clone().map(shown)).collect()
        };
        format!(
            "{bench}{tpcc}, {}\n{}  Ratios are medians over {} rounds of each round's ratio to \
             {first}; intervals hold with {:.1}%.\n",
            any.conditions,
            table(&titles, self.engines.iter().map(row)),
            any.rounds,
            any.confidence * 100.0
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn result(engine: &str, ops_per_s: f64, reads: f64) -> RunResult {
        let mut plan = Plan { engine: engine.to_owned(), ..Plan::usual() };
        plan.conditions.durability = polder::Durability::Sync;
        let figures = [
            ("ops_per_s", ops_per_s),
            ("p50_ns", 500.0),
            ("device_reads_per_s", reads),
            ("write_amplification", 2.5),
        ];
        RunResult {
            bench: Bench::Lookup,
            engine: plan.engine,
            conditions: plan.conditions,
            seconds: 1.0,
            ops: ops_per_s as u64,
            user_bytes_written: 100,
            tpcc: None,
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
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
        assert_eq!(summary.figures["device_reads_per_s"], 2.0);
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
        assert!(json.contains(r#""a":{"#) && json.contains(r#""device_reads_per_s":5.0"#));
        let table = comparison.table();
        assert!(table.contains("engine") && table.contains("durability sync"));
        assert!(table.contains("write amp") && table.contains("2.50"));
        assert!(rounds[0].table().contains("lookup on z"));
    }

    #[test]
    fn a_result_travels_as_it_is() {
        let json = serde_json::to_string(&result("z", 100.0, 5.0)).unwrap();
        let back: RunResult = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), json);
        assert_eq!(back.figures.len(), 4);
    }
}
