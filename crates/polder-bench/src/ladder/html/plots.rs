//! The list of plots: what each shows, what the papers say there, and where we part from them.

use super::super::results::Results;
use super::super::side::{
    ARRAY_ALONE, CHAINED, COOLED, COPYING, DESIGNS, DESIGNS_AND_SWAP, EVICTING, FEATURES,
    GROUPS_AND_CORES, HASH_ALONE, HOLDS, HOLDS_LARGER, MAPPED, PAGE_SIZES, PEERS, PREFERRING,
    PROMOTING, RESIDENT_TPCC, SCANNED, SIMD_ALONE, STEPS, SWIZZLE_ALONE, Side, TO_PREDICTIVE,
    TPCC_GROUPS_AND_CORES, TPCC_HOLDS, TPCC_HOLDS_LARGER,
};
use super::svg::Scale;
use crate::size::show_count;

/// What the values are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// So many of these.
    Count(&'static str),
    /// Seconds, shown as microseconds.
    Seconds(&'static str),
    /// A part of one, shown in percent.
    Share(&'static str),
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Count(name) | Unit::Seconds(name) | Unit::Share(name) => name,
        }
    }

    pub(super) fn show(self, value: f64) -> String {
        match self {
            Unit::Count(_) if value >= 1e9 => format!("{:.2} G", value / 1e9),
            Unit::Count(_) if value.abs() < 10.0 => short(value),
            Unit::Count(_) => show_count(value),
            Unit::Seconds(_) => short(value * 1e6),
            Unit::Share(_) => format!("{}%", short(value * 100.0)),
        }
    }

    /// A round value, beside an axis where there is little room: without zeros at the end.
    pub(super) fn tick(self, value: f64) -> String {
        let shown = self.show(value);
        let end = shown.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(shown.len());
        let (number, rest) = shown.split_at(end);
        let number = match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => number,
        };
        format!("{number}{rest}")
    }
}

/// Three digits that mean something.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        v if v >= 0.0001 => format!("{value:.4}"),
        _ => format!("{value:.0e}"),
    }
}

/// What stands along the bottom.
#[derive(Debug, Clone, Copy)]
pub(super) enum Axis {
    /// Nothing: bars.
    None,
    /// Bars of the figures at this place.
    At(f64),
    /// Lines over this.
    Named(&'static str),
    /// Lines of many points over this, a number.
    Many(&'static str),
    /// The same over seconds, of the first round alone: medians of rounds would not show what
    /// happens in each of them at another time.
    Seconds,
}

/// One in the list.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) section: &'static str,
    part: &'static str,
    /// The first is shown of each side; others, which do not depend on it, of the first that has
    /// them. One that ends with `*` stands for a plot of each metric that begins so.
    metrics: &'static [&'static str],
    title: &'static str,
    unit: Unit,
    axis: Axis,
    scale: Scale,
    sides: &'static [Side],
    paper: &'static str,
    ours: &'static str,
}

/// One to draw.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) part: &'static str,
    pub(super) metrics: Vec<String>,
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) axis: Axis,
    pub(super) scale: Scale,
    pub(super) sides: &'static [Side],
    pub(super) paper: &'static str,
    pub(super) ours: &'static str,
}

impl Plot {
    /// Whether it shows several metrics of one side.
    pub(super) fn compares_metrics(&self) -> bool {
        self.sides.len() == 1 && self.metrics.len() > 1
    }
}

impl Listed {
    /// The plots that it stands for; none if its part was not run.
    pub(super) fn for_each_metric(&self, results: &Results) -> Vec<Plot> {
        let measured = results.metrics(self.part);
        if measured.is_empty() {
            return Vec::new();
        }
        let plot = |metrics: Vec<String>, title: String| Plot {
            part: self.part,
            metrics,
            title,
            unit: self.unit,
            axis: self.axis,
            scale: self.scale,
            sides: self.sides,
            paper: self.paper,
            ours: self.ours,
        };
        match self.metrics.first().and_then(|first| first.strip_suffix('*')) {
            Some(begin) => measured
                .into_iter()
                .filter(|metric| !metric.contains(": "))
                .filter_map(|metric| Some((metric, metric.strip_prefix(begin)?)))
                .map(|(metric, rest)| {
                    plot(vec![metric.to_owned()], format!("{}{rest}", self.title))
                })
                .collect(),
            None => {
                let metrics = self.metrics.iter().map(|metric| (*metric).to_owned()).collect();
                vec![plot(metrics, self.title.to_owned())]
            }
        }
    }
}

const SCANS: &str = "Scans";
const GRAPHS: &str = "Graphs";
const LOOKUPS: &str = "Point lookups, resident";
const MEMORY_BOUND: &str = "From memory to the device";
const PLACES: &str = "Preferred frames";
const MEMORY: &str = "Memory of translation and metadata";
const TPCC: &str = "TPC-C";

/// The headings, in order.
pub(super) fn sections() -> [&'static str; 7] {
    [SCANS, GRAPHS, LOOKUPS, MEMORY_BOUND, PLACES, MEMORY, TPCC]
}

const SYSTEM_WIDE: &str = "Those of the whole system: the kernel does not say for whom.";

const MICROARCHITECTURE: &str = "predictive-translation.txt 6.5, uniform lookups by one thread: PrediCache, vmcache and the traditional pool take 3510, 3939, 5090 cycles, 1915, 1315, 1574 instructions (0.55, 0.33, 0.31 a cycle), 11 mispredicted branches each, and miss the data TLB 3.5, 5.1, 3.7 times.";
const COUNTED_BY_PROCESSOR: &str = "Where the kernel and the machine count for us, which many virtual machines do not; in user mode alone.";
const SCALING: &str = "leanstore.txt V-D, table I, 60 cores on four nodes: 45 K a second by one thread, 33.3 times that by 60, 50.4 with warehouses of their own, 52.7 with memory faulted in, 56.9 with memory by node.";
const SCALING_HERE: &str = "By the most threads that the ladder was given. All rows are read before, so that pre-faulting spares the frames of new rows alone. Memory is always by node where there are several.";
const TAKEN_APART: &str = "Differences between whole runs: rest by direct, where no table is asked and readers hold nothing; translation what the table adds; pin what it adds that readers count themselves at each page, in slices of groups of cores; latch what it adds that they count in the page's state word instead, a pin and a shared latch in one. What saves time is below zero.";
const MIXED: &str = "Mixes are of new-order and stock-level. Steps are as in queries of ten keys; simd has preferred frames here. The paper's pool waits for its log, and here nothing waits for it.";
const SCANNING: &str = "Trees of 10 and 0.7 parts, a thread for each, at least one whole scan of the large one; cursors as for any table, whose pages go first when room is needed and which read ahead.";

macro_rules! plots {
    ($($section:ident $part:literal [$($metric:literal),*] $title:literal, $unit:expr, $axis:expr,
       $scale:ident, $sides:ident: $paper:expr; $ours:expr;)*) => {
        /// All plots.
        pub(super) const PLOTS: &[Listed] = &[$(Listed {
            section: $section,
            part: $part,
            metrics: &[$($metric),*],
            title: $title,
            unit: $unit,
            axis: $axis,
            scale: Scale::$scale,
            sides: $sides,
            paper: $paper,
            ours: $ours,
        }),*];
    };
}

plots! {
    SCANS "scan" ["sequential"] "Sequential scan", Unit::Count("pages a second"), Axis::None,
        Linear, PEERS:
        "calico.txt 3.1, table 2: array 30.3, hash (absl) 5.67, predictive 4.67, vm 26.4, vm with huge pages 30.8 scans of 5 GB a second; one a second is 0.66 M pages.";
        "7 rows in a page instead of 8, for our header; each page is validated. direct shows what reading the rows costs with hardly any translation, and so how great a ratio can be.";
    SCANS "scan" ["random"] "Random scan", Unit::Count("pages a second"), Axis::None,
        Linear, PEERS:
        "calico.txt 3.1, table 2: array 9.78, hash (absl) 4.95, predictive 3.78, vm 9.52, vm with huge pages 13.9 scans a second.";
        "The same pages in a random order that is made beforehand.";
    SCANS "heap" ["rows"] "Heap scan", Unit::Count("bytes of rows a second"), Axis::Named("bytes of a row"),
        Linear, PEERS:
        "calico.txt 6.4, figure 9a, in PostgreSQL: array by hash 1.17 at rows of 128 bytes to 2.99 at 6144.";
        "Our scan copies each page before it shows rows, so less of the time is translation; there is no query above it.";
    GRAPHS "graph" ["nodes"] "Breadth-first search, 44 neighbours", Unit::Count("nodes a second"), Axis::None,
        Linear, PEERS:
        "calico.txt 3.3, table 4: 5 M nodes in 15.5 s by array (0.32 M a second), 42.0 by hash (absl), 28.5 by predictive, 17.4 by vm, 10.3 with huge pages.";
        "At most 2 M nodes; whether a node was seen is known only from its page.";
    GRAPHS "graph" ["nodes, group prefetch"] "The same with group prefetch", Unit::Count("nodes a second"), Axis::None,
        Linear, PEERS:
        "calico.txt 6.6, table 6: array 1.20 times as fast by it, hash 1.01, predictive 0.95.";
        "Asked for is the one line that a probe reads.";
    GRAPHS "files" ["nodes of *"] "Breadth-first search, ", Unit::Count("nodes a second"), Axis::None,
        Linear, PEERS:
        "none: real graphs, in which nodes have few neighbours or thousands.";
        "A node has further pages where its neighbours do not fit in one.";
    LOOKUPS "lookup" ["uniform"] "Uniform lookups", Unit::Count("lookups a second"), Axis::Named("threads"),
        Linear, PEERS:
        "calico.txt 3.2, table 3, one thread, YCSB-C without saying how keys are distributed: array 0.93, predictive 0.93, hash (absl) 0.67, vm 0.85, vm with huge pages 1.03 M a second.";
        "At most 50 M records; keys are spread evenly, each at a random place in its share.";
    LOOKUPS "lookup" ["zipfian"] "YCSB-C (zipfian lookups)", Unit::Count("lookups a second"), Axis::Named("threads"),
        Linear, PEERS:
        "predictive-translation.txt 6.1, figure 5: vmcache and PrediCache alike, above pointer swizzling and the traditional pool.";
        "Theta 0.99 instead of 0.9.";
    LOOKUPS "lookup" ["zipfian: cpu"] "YCSB-C: processor time", Unit::Seconds("microseconds an operation"), Axis::Named("threads"),
        Linear, PEERS:
        "none."; "Of the whole process, its background threads too.";
    LOOKUPS "lookup" ["uniform"] "From traditional to predictive, step by step", Unit::Count("lookups a second"), Axis::At(1.0),
        Linear, TO_PREDICTIVE:
        "predictive-translation.txt 6.4, figure 9, one thread: optimistic latches slightly less, inlining +24.8%, prediction +20.6%.";
        "The pool is half full instead of a tenth.";
    LOOKUPS "lookup" ["uniform"] "With preferred frames and without", Unit::Count("lookups a second"), Axis::At(1.0),
        Linear, PREFERRING:
        "none: array-plain is calico.txt's array and simd-plain the table of scalecache.txt; predictive-translation.txt 6.4 has +20.6% by prediction, on a chained table.";
        "A frame that was guessed is read beside the array's word, or beside its own tag instead of the table.";
    LOOKUPS "lookup" ["uniform"] "With huge pages and without", Unit::Count("lookups a second"), Axis::At(1.0),
        Linear, PAGE_SIZES:
        "calico.txt 6.6: huge pages for frames 1.35 times in vector search; predictive-translation.txt 6.1: 7% in TPC-C.";
        "Without them the whole process has none: frames and tables.";
    LOOKUPS "lookup" ["uniform: cycles"] "Uniform lookups: cycles", Unit::Count("cycles a lookup"), Axis::None,
        Linear, STEPS:
        MICROARCHITECTURE;
        COUNTED_BY_PROCESSOR;
    LOOKUPS "lookup" ["uniform: instructions a cycle"] "Uniform lookups: instructions a cycle", Unit::Count("instructions a cycle"), Axis::None,
        Linear, STEPS:
        MICROARCHITECTURE;
        COUNTED_BY_PROCESSOR;
    LOOKUPS "lookup" ["uniform: branch misses"] "Uniform lookups: branches", Unit::Count("mispredicted branches a lookup"), Axis::None,
        Linear, STEPS:
        MICROARCHITECTURE;
        COUNTED_BY_PROCESSOR;
    LOOKUPS "lookup" ["uniform: dTLB misses"] "Uniform lookups: addresses", Unit::Count("misses of the data TLB a lookup"), Axis::None,
        Linear, STEPS:
        MICROARCHITECTURE;
        COUNTED_BY_PROCESSOR;
    LOOKUPS "lookup" ["chains"] "Lengths of chains, pool half full", Unit::Share("of the chains that are not empty"), Axis::Named("length (4: and more)"),
        Linear, CHAINED:
        "predictive-translation.txt 6.6, figure 10: 77% have one entry at half fill.";
        "Twice as many buckets as frames and a half-full pool: a quarter of an entry for each bucket.";
    LOOKUPS "growing" ["chains"] "Lengths of chains, pool full", Unit::Share("of the chains that are not empty"), Axis::Named("length (4: and more)"),
        Linear, CHAINED:
        "predictive-translation.txt 6.6, figure 10: 77% have one entry at half fill.";
        "Counted at the end of the runs out of memory, with half an entry for each bucket.";
    LOOKUPS "lookup" ["chains at fill 0.25", "chains at fill 0.5", "chains at fill 0.75", "chains at fill 1"] "Lengths of chains by fill", Unit::Share("of the chains that are not empty"), Axis::Named("length (4: and more)"),
        Linear, HASH_ALONE:
        "predictive-translation.txt 6.6, figure 10: 77% have one entry at fill 0.5; at fill 1 97% have at most three.";
        "Pages of a tree, put by the table's own hash into as few buckets as make so many entries for each.";
    LOOKUPS "multi" ["queries"] "Queries of ten keys", Unit::Count("queries a second"), Axis::Named("threads"),
        Linear, HOLDS:
        "scalecache.txt 4.2, figure 7: latches by groups +60%, SIMD hashing +15% more, all 2.6 times, on 128 cores.";
        "On few cores there is little to win by holding pages apart; not holding them is a step that the paper leaves out. Groups are of all cores that share a cache, group:1 is of one core each. A hold is a pin and a shared latch in one, so the paper's first step and its last are one step here: from shared to group, or to copy, which changes inner nodes in copies as the paper does.";
    LOOKUPS "multi" ["queries"] "The same: counts for four cores and for one", Unit::Count("queries a second"), Axis::Named("threads"),
        Linear, GROUPS_AND_CORES:
        "scalecache.txt 4.6, figure 13a, 128 cores: by groups of four 96% to 100% of what it is by cores.";
        "A group has at most four cores, of those that share a cache.";
    LOOKUPS "splits" ["descents"] "Eight threads descend while one splits", Unit::Count("descents a second"), Axis::None,
        Linear, COPYING:
        "scalecache.txt 3.2: no figure of its own; latches by groups with copies are one of three steps there.";
        "An inner node has about seven children, so that nodes split all the time; threads outnumber the cores.";
    LOOKUPS "splits" ["restarts"] "The same: restarts of those who descend", Unit::Count("restarts in a million descents"), Axis::None,
        Linear, COPYING:
        "scalecache.txt 3.2: readers go on in the old copy.";
        "None, where nodes are changed in copies.";
    LOOKUPS "breakdown" ["rest", "translation", "pin", "latch"] "What a lookup spends its time on, by hash", Unit::Seconds("microseconds of processor time a lookup"), Axis::Named("threads"),
        Linear, HASH_ALONE:
        "scalecache.txt 2.1, figure 1, 128 cores, a chained table with locks: the search itself is less than 40% of a lookup, and pinning, the table and latching together more than 60%.";
        TAKEN_APART;
    LOOKUPS "breakdown" ["rest", "translation", "pin", "latch"] "The same by simd", Unit::Seconds("microseconds of processor time a lookup"), Axis::Named("threads"),
        Linear, SIMD_ALONE:
        "none: what the table of scalecache.txt 3.3 leaves of it.";
        TAKEN_APART;
    LOOKUPS "breakdown" ["rest", "translation", "pin", "latch"] "The same by array", Unit::Seconds("microseconds of processor time a lookup"), Axis::Named("threads"),
        Linear, ARRAY_ALONE:
        "none.";
        TAKEN_APART;
    MEMORY_BOUND "growing" ["growing"] "YCSB-C, growing beyond the budget", Unit::Count("lookups a second"), Axis::Named("data asked for, in memory budgets"),
        Log, EVICTING:
        "predictive-translation.txt 6.3, figure 8, with TPC-C: no cliff, and at the end 19.7% above vmcache.";
        "Reads only, by the most threads: more and more of one tree is asked for. The budget pays for translation and metadata too, so at 1 the data are somewhat more than the frames.";
    MEMORY_BOUND "growing" ["growing: cpu"] "The same: processor time", Unit::Seconds("microseconds an operation"), Axis::Named("data asked for, in memory budgets"),
        Log, EVICTING:
        "none."; "Of the whole process, its background writer too.";
    MEMORY_BOUND "growing" ["growing: shootdowns"] "The same: TLB shootdowns", Unit::Count("interrupts an operation"), Axis::Named("data asked for, in memory budgets"),
        Linear, EVICTING:
        "vmcache-n-tier.txt counts up to 512 in a round of moves; tables need none.";
        SYSTEM_WIDE;
    MEMORY_BOUND "growing" ["out of memory"] "YCSB-C, data four times the budget", Unit::Count("lookups a second"), Axis::Named("threads"),
        Linear, EVICTING:
        "predictive-translation.txt 6.2, figure 6: the device decides, all tables are alike.";
        "Four times instead of eight, one read at a time in each thread.";
    MEMORY_BOUND "growing" ["out of memory: give-backs"] "The same: calls that give memory back", Unit::Count("calls an operation"), Axis::Named("threads"),
        Linear, EVICTING:
        "none."; "Each makes the processors on which we run forget addresses; only vm needs them.";
    MEMORY_BOUND "multi-larger" ["queries"] "Queries of ten keys, data 35 times the budget", Unit::Count("queries a second"), Axis::Named("threads"),
        Linear, HOLDS_LARGER:
        "scalecache.txt 4.7, figure 11, 128 cores, 280 GB with a pool of 8 GB: 74% above the traditional pool; nearly 30% of the cycles wait for the device.";
        "One read at a time in each thread: on few cores the device decides.";
    MEMORY_BOUND "multi-larger" ["queries: pages read"] "The same: pages read", Unit::Count("pages a query"), Axis::Named("threads"),
        Linear, HOLDS_LARGER:
        "none."; "Of ten leaves; inner nodes stay.";
    MEMORY_BOUND "skew" ["lookups"] "Lookups by skew, data five times the budget", Unit::Count("lookups a second"), Axis::Named("exponent of Zipf's law (0: uniform)"),
        Log, EVICTING:
        "leanstore.txt VI-B, figure 10: 5 GB with a pool of 1 GB and 20 threads; at low skew about as many lookups as reads of the device, and far more as skew grows.";
        "By the most threads. Popular keys are scattered over the leaves; the paper does not say how its keys lie.";
    MEMORY_BOUND "skew" ["lookups: pages read"] "The same: pages read", Unit::Count("pages a lookup"), Axis::Named("exponent of Zipf's law (0: uniform)"),
        Linear, EVICTING:
        "leanstore.txt VI-B, figure 10, shows reads a second: most lookups read a page at low skew.";
        "Pages that lookups had to wait for.";
    MEMORY_BOUND "cooling" ["cooling:1", "cooling:2", "cooling:5", "cooling:10", "cooling:20", "cooling:50", "clock"] "The share of cooling pages, by swizzle", Unit::Share("of the lookups a second with 10%"), Axis::Named("exponent of Zipf's law (0: uniform)"),
        Linear, COOLED:
        "leanstore.txt VI-B, figure 11: nearly the same from 5% to 20% at each skew; more than 10% off the best at about 1.6 alone.";
        "As lookups by skew. clock is our default. All shares have their turn in one process, each in a pool of its own.";
    MEMORY_BOUND "cooling" ["cooling:1: pages read", "cooling:2: pages read", "cooling:5: pages read", "cooling:10: pages read", "cooling:20: pages read", "cooling:50: pages read", "clock: pages read"] "The same: pages read", Unit::Count("pages a lookup"), Axis::Named("exponent of Zipf's law (0: uniform)"),
        Linear, COOLED:
        "leanstore.txt VI-B, at exponent 1.0: from 92.7% hits with 5% to 93.0% with 50%, by a trace.";
        "Pages that lookups had to wait for.";
    MEMORY_BOUND "scans" ["large table"] "Two scans at once: the large table", Unit::Count("bytes of records a second"), Axis::Named("memory budget, in parts; the table has 10"),
        Linear, SCANNED:
        "leanstore.txt VI-C, figure 12, 10 GB: the more fits the faster; at a budget of 12 GB nothing is read any more.";
        SCANNING;
    MEMORY_BOUND "scans" ["small table"] "Two scans at once: the small table", Unit::Count("bytes of records a second"), Axis::Named("memory budget, in parts; the table has 0.7"),
        Linear, SCANNED:
        "leanstore.txt VI-C, figure 12, 0.7 GB: as fast at any budget, since its pages always stay.";
        SCANNING;
    MEMORY_BOUND "scans" ["pages read"] "Two scans at once: the device", Unit::Count("pages read a second"), Axis::Named("memory budget, in parts"),
        Linear, SCANNED:
        "leanstore.txt VI-C, figure 12: less with each step, and nothing at 12 GB.";
        SCANNING;
    PLACES "placement" ["pages", "allowed"] "Pages in preferred frames", Unit::Share("of resident pages"), Axis::Named("data, in pools"),
        Linear, PROMOTING:
        "predictive-translation.txt 6.8: 75% of pages at half the pool, 3% at three times.";
        "Allowed is what hashing allows: (1 - e^-x) / x of the pool's load x. array and predictive choose by the page's number, which allows more while neighbours are resident.";
    PLACES "placement" ["accesses"] "Accesses that find pages there", Unit::Share("of accesses without a fault"), Axis::Named("data, in pools"),
        Linear, PROMOTING:
        "predictive-translation.txt 6.8: 96% of accesses at half the pool, 91% at three times.";
        "Uniform lookups; inner nodes are most of the accesses.";
    PLACES "placement" ["moved bytes"] "Bytes copied by promotion", Unit::Count("bytes an access"), Axis::Named("data, in pools"),
        Linear, PROMOTING:
        "predictive-translation.txt 6.7, figure 11: below 1 byte in memory, somewhat more at first out of memory.";
        "After at most ten measurements' time, or when fewer than one access in 10000 moves a page.";
    PLACES "placement" ["moved bytes over time, 0.5"] "Bytes copied over time, data of half the pool", Unit::Count("bytes an access"), Axis::Seconds,
        Linear, PROMOTING:
        "predictive-translation.txt 6.7, figure 11, left: low from the beginning, and constant.";
        "From the first lookup behind the load on.";
    PLACES "placement" ["moved bytes over time, 3"] "Bytes copied over time, data of three times the pool", Unit::Count("bytes an access"), Axis::Seconds,
        Linear, PROMOTING:
        "predictive-translation.txt 6.7, figure 11, right: more at first, as hot pages move to their frames, and then low.";
        "From an empty pool on: until it is full, pages get their frames as they are read.";
    PLACES "lookup" ["uniform: in place"] "Pages in place for uniform lookups", Unit::Share("of resident pages"), Axis::None,
        Linear, STEPS:
        "none."; "Before the first measurement, after at most ten measurements' time.";
    PLACES "lookup" ["zipfian: in place"] "Pages in place for YCSB-C", Unit::Share("of resident pages"), Axis::None,
        Linear, STEPS:
        "none."; "As before; cold pages are asked for too seldom to move.";
    PLACES "scan" ["sequential: in place"] "Pages in place for sequential scans", Unit::Share("of resident pages"), Axis::None,
        Linear, PEERS:
        "none."; "After whole scans, at most ten.";
    PLACES "scan" ["random: in place"] "Pages in place for random scans", Unit::Share("of resident pages"), Axis::None,
        Linear, PEERS:
        "none."; "After whole scans, at most ten.";
    MEMORY "memory" ["YCSB-C: all"] "YCSB-C: all beside the frames", Unit::Share("of the frames' bytes"), Axis::Named("data, in memory budgets"),
        Log, EVICTING:
        "predictive-translation.txt 6.9, figure 12, estimated: vmcache 39% at 100 times, tables constant.";
        "Metadata of frames, map, and page tables of both, as the pool counts them.";
    MEMORY "memory" ["YCSB-C: translation"] "YCSB-C: translation alone", Unit::Share("of the frames' bytes"), Axis::Named("data, in memory budgets"),
        Log, EVICTING:
        "calico.txt 6.5, figure 10, data 38 times the pool: array half of vmcache, its hot keys spread over all groups.";
        "The map with its page tables, without metadata and page tables of frames.";
    MEMORY "memory" ["YCSB-D: translation"] "YCSB-D: translation alone", Unit::Share("of the frames' bytes"), Axis::Named("data, in memory budgets"),
        Log, EVICTING:
        "calico.txt 6.5, figure 10, data 50 times the pool: array 0.50 of a hash table, 95.7% punched out.";
        "New records go behind the last key, as in the paper's read-latest load.";
    MEMORY "memory-growing" ["translation"] "Growing data, the latest asked for: translation", Unit::Share("of the frames' bytes"), Axis::Named("data, in memory budgets"),
        Log, EVICTING:
        "calico.txt 6.5, figure 10, YCSB-D from the first record to 50 times the pool: tables constant, vmcache with the data, array half of a table in the end.";
        "Half of the operations insert, behind the last key; the others ask for the latest records.";
    MEMORY "memory-growing" ["reclaimed"] "The same: what was given back", Unit::Share("of a word for each page of the data"), Axis::Named("data, in memory budgets"),
        Linear, MAPPED:
        "calico.txt 6.5: 95.7% of 1,600 MB in YCSB-D, 86.2% in TPC-C by a pool of 16 GB.";
        "What the map takes beside its words counts against it.";
    MEMORY "memory" ["scattered hot keys: translation"] "Scattered hot keys: translation alone", Unit::Share("of the frames' bytes"), Axis::Named("data, in memory budgets"),
        Log, EVICTING:
        "calico.txt 6.5 leaves it open: one hot page keeps a group of 512 entries.";
        "Hot keys as far apart as can be (at 1 time the budget some share a leaf); sparse groups move to a table. What the criterion compares.";
    MEMORY "multi" ["metadata"] "Metadata by ways of holding pages", Unit::Count("bytes a frame"), Axis::None,
        Linear, HOLDS:
        "scalecache.txt 3.1 and 4.6, 128 cores: counts take 64 bytes a page by groups of four, as one padded counter does, and four times as much by cores, 3% of the pool.";
        "All that the pool keeps for a frame beside page and translation. Two bytes of it are one group's count: what is more than by optimistic. Counting in the page's word takes nothing.";
    TPCC "tpcc" ["transactions"] "TPC-C, resident", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, RESIDENT_TPCC:
        "leanstore.txt V-B: LeanStore 67 K a second by one thread, 0.97 of the in-memory tree. predictive-translation.txt 6.1, figure 5: PrediCache 19% above LeanStore and 34% above vmcache at 192 threads.";
        "The papers have no log; here each transaction is a batch in the log, and nothing waits for that. Pages of 4 KiB instead of LeanStore's 16; at most 10 warehouses.";
    TPCC "tpcc" ["conflicts"] "The same: conflicts", Unit::Count("lost tries a transaction"), Axis::Named("threads"),
        Linear, RESIDENT_TPCC:
        "none: the papers' transactions are not isolated.";
        "A try is lost if another transaction changed a row between the read and the batch.";
    TPCC "features" ["transactions"] "LeanStore's features, one by one", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, FEATURES:
        "leanstore.txt V-B, figure 7: by one thread swizzling and replacement make it twice as fast, optimistic latches hardly faster; by ten each of the three is needed.";
        "LRU is as in the paper: it hears of each access to a page and takes a lock for it, also where nothing is evicted. Cooling pays nothing while there is room, as in the paper. The hash table has a latch a bucket, not one for all.";
    TPCC "features" ["conflicts"] "The same: conflicts", Unit::Count("lost tries a transaction"), Axis::Named("threads"),
        Linear, FEATURES:
        "none."; "As above.";
    TPCC "scaling" ["one thread", "all threads", "warehouse affinity", "pre-faulted memory"] "LeanStore's table I, by swizzle", Unit::Count("transactions a second"), Axis::None,
        Linear, SWIZZLE_ALONE:
        SCALING;
        SCALING_HERE;
    TPCC "tpcc-larger" ["transactions"] "TPC-C, data four times the budget", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, EVICTING:
        "predictive-translation.txt 6.2, figure 6, data eight times the pool: the traditional pool is as good as the others, LeanStore ahead for 50 s.";
        "With a log of 256 MiB, and checkpoints as it fills. One read at a time in each thread.";
    TPCC "tpcc-larger" ["transactions over time"] "The same over time, 8 threads", Unit::Count("transactions a second"), Axis::Seconds,
        Linear, EVICTING:
        "predictive-translation.txt 6.2, figure 6, over 100 s and more: without standstills.";
        "The first round, in intervals of half a second. A checkpoint begins when half of the log is full.";
    TPCC "tpcc-larger" ["bytes read over time"] "The same: reads of the device", Unit::Count("bytes a second"), Axis::Seconds,
        Linear, EVICTING:
        "predictive-translation.txt 6.2, figure 7: LeanStore has the highest rate of operations, and is behind all the same, which is laid to the layout of its tree.";
        "Of the data file, the first round. A tree is the same under each translation here.";
    TPCC "tpcc-larger" ["bytes written over time"] "The same: writes to the device", Unit::Count("bytes a second"), Axis::Seconds,
        Linear, EVICTING:
        "As above.";
        "Of the data file, without the log.";
    TPCC "tpcc-mixes" ["transactions, 0:100"] "Stock-level alone (0:100), resident", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_HOLDS:
        "scalecache.txt 4.3, figure 8, 128 cores, 580 clients: all steps together 333% above the traditional pool.";
        MIXED;
    TPCC "tpcc-mixes" ["transactions, 20:80"] "New-order to stock-level 20:80, resident", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_HOLDS:
        "scalecache.txt 4.3, figure 8: 136% above the traditional pool.";
        MIXED;
    TPCC "tpcc-mixes" ["transactions, 50:50"] "New-order to stock-level 50:50, resident", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_HOLDS:
        "scalecache.txt 4.3, figure 8: 18% above the traditional pool.";
        MIXED;
    TPCC "tpcc-mixes" ["transactions, standard"] "The standard mix by ways of holding, resident", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_HOLDS:
        "scalecache.txt 4.3, figure 8: some 3% above the traditional pool, since the log decides.";
        MIXED;
    TPCC "tpcc-mixes" ["transactions, *"] "Counts for four cores and for one: ", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_GROUPS_AND_CORES:
        "scalecache.txt 4.6, figure 13b, 128 cores: less than 3% apart by each mix.";
        "A group has at most four cores, of those that share a cache.";
    TPCC "tpcc-mixes-larger" ["transactions, *"] "Data 29 times the budget: ", Unit::Count("transactions a second"), Axis::Named("threads"),
        Linear, TPCC_HOLDS_LARGER:
        "scalecache.txt 4.7, figure 12, 128 cores, 232 GB with a pool of 8 GB: above the traditional pool by each mix, 3.9 times with 0:100.";
        "With a log of 256 MiB, and checkpoints as it fills. One read at a time in each thread.";
    TPCC "tpcc-mixes-larger" ["pages read, *"] "Data 29 times the budget, pages read: ", Unit::Count("pages a transaction"), Axis::Named("threads"),
        Linear, TPCC_HOLDS_LARGER:
        "none."; "Pages that transactions had to wait for.";
    TPCC "tpcc-growing" ["transactions over time"] "TPC-C, growing beyond the budget", Unit::Count("transactions a second"), Axis::Seconds,
        Linear, DESIGNS_AND_SWAP:
        "leanstore.txt VI-A, figure 9: LeanStore stays close to its in-memory speed; the in-memory tree on swap drops severely and is unstable.";
        "The first round, in intervals of a quarter of a second, until the data are 1.5 times the budget. The tree on swap is direct in a control group whose limit is the budget.";
    TPCC "tpcc-growing" ["transactions"] "The same by data", Unit::Count("transactions a second"), Axis::Many("data, in memory budgets"),
        Linear, DESIGNS_AND_SWAP:
        "predictive-translation.txt 6.3, figure 8: no cliff, and at the end 19.7% above vmcache and 24.6% above LeanStore.";
        "Medians over rounds, in steps of a twentieth of the budget. Data are the length of the data file.";
    TPCC "tpcc-growing" ["data over time"] "The same: data over time", Unit::Count("memory budgets"), Axis::Seconds,
        Linear, DESIGNS_AND_SWAP:
        "leanstore.txt VI-A, figure 9: from 10 to 50 GB, by a pool of 20 GB.";
        "The file grows by extents, a sixteenth of a table at most.";
    TPCC "tpcc-growing" ["translation and page tables"] "The same: translation and page tables", Unit::Share("of the memory budget"), Axis::Many("data, in memory budgets"),
        Linear, DESIGNS_AND_SWAP:
        "calico.txt 6.5, figure 10, 18 to 800 GB by a pool of 16 GB: tables constant, vmcache with the data; array 1.89 times a table at the end, 86.2% given back.";
        "The kernel's page tables of the frames are in it. Data grow threefold instead of 44 times.";
    TPCC "ramp-up" ["transactions over time"] "TPC-C from cold caches", Unit::Count("transactions a second"), Axis::Seconds,
        Linear, DESIGNS:
        "leanstore.txt VI-A: the peak is reached after 8 s on a PCIe SSD and 35 s on a SATA SSD, with 10 GB.";
        "The first round, in intervals of a tenth of a second from the first transaction on. Pages are read past the system's cache; a virtual machine's host may have them in its own.";
    TPCC "ramp-up" ["ramp-up"] "The same: time until nine tenths of the speed", Unit::Count("seconds"), Axis::None,
        Linear, DESIGNS:
        "As above, until the peak.";
        "Of the median over the last third of the run; with the time that opening takes.";
}

#[cfg(test)]
mod tests {
    use super::super::super::results::testing::empty;
    use super::*;
    use crate::ladder::parts::Part;

    #[test]
    fn plots_are_of_parts_and_sides_that_there_are() {
        for plot in PLOTS {
            let part = Part::find(plot.part).unwrap();
            assert!(
                plot.sides.iter().all(|side| part.side(side.name) == Some(*side)),
                "{}",
                plot.title
            );
            assert!(sections().contains(&plot.section));
        }
    }

    #[test]
    fn a_star_stands_for_each_metric() {
        let results = empty()
            .with(("files", "nodes of one", "array"), 0.0, &[1.0])
            .with(("files", "nodes of one: cpu", "array"), 0.0, &[1.0])
            .with(("files", "nodes of two", "array"), 0.0, &[1.0]);
        let listed = PLOTS.iter().find(|plot| plot.part == "files").unwrap();
        let titles: Vec<String> =
            listed.for_each_metric(&results).into_iter().map(|plot| plot.title).collect();
        assert_eq!(titles, ["Breadth-first search, one", "Breadth-first search, two"]);
        assert!(listed.for_each_metric(&empty()).is_empty());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(Unit::Share("").show(0.03472), "3.47%");
        assert_eq!(Unit::Seconds("").show(1.234e-5), "12.3");
        assert_eq!(Unit::Count("").show(0.0), "0");
        assert_eq!(Unit::Count("").show(2.5e10), "25.00 G");
        assert_eq!(Unit::Count("").show(1_500_000.0), "1.500 M");
        let ticks = [1e7, 15e9, 1500.0, 200.0, 0.0].map(|value| Unit::Count("").tick(value));
        assert_eq!(ticks, ["10 M", "15 G", "1.5 k", "200", "0"]);
        assert_eq!([0.25, 1.0].map(|value| Unit::Share("").tick(value)), ["25%", "100%"]);
    }
}
