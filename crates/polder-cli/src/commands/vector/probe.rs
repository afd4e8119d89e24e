//! `polder vector probe`: how many of the nearest searches find, and how fast.

use polder::CollectionProbe;
use polder_vector::{Probed, VectorBuf, VectorRef};
use serde_json::{Value, json};

use super::{Context, queries, with_collection};
use crate::args::VectorProbeArgs;
use crate::bar::bar;
use crate::failure::Failure;
use crate::output::{Columns, Side};
use crate::progress::{Progress, Unit};
use crate::units::{count, per_second};

/// Characters of the longest bar.
const BAR: usize = 40;

pub fn run(context: &Context, args: &VectorProbeArgs) -> Result<(), Failure> {
    let is_part = |part: f64| (0.0..=1.0).contains(&part);
    if args.recall.is_some_and(|recall| !is_part(recall)) {
        return Err(Failure::Usage("--recall is a part of all, from 0 to 1, such as 0.95".into()));
    }
    let CollectionProbe { widths: probed, enough } = with_collection(&args.at, |collection| {
        let queries = queries(context, collection, &args.look)?;
        if queries.is_empty() {
            return Err(Failure::Usage("the file has no vector to look for".into()));
        }
        let vectors: Vec<VectorRef<'_>> = queries.iter().map(VectorBuf::view).collect();
        let all = Some(queries.len() as u64);
        let shown = Progress::new("comparing with all", Unit::Things("queries"), all);
        let progress = &mut |done| shown.goes_on(done as u64, &context.stop);
        let count = args.look.count;
        let probed = collection.probe(&vectors, count, &args.widths, args.recall, progress)?;
        context.stop.check()?;
        Ok(probed.unwrap_or_default())
    })?;
    let widths: Vec<Value> = probed.iter().map(value).collect();
    let value = json!({ "widths": widths, "enough": enough.as_ref().map(value) });
    context.print(&value, &page(args, &probed, enough.as_ref()))
}

fn value(probed: &Probed) -> Value {
    json!({
        "width": probed.width,
        "recall": probed.recall,
        "mean_us": probed.mean.as_secs_f64() * 1e6,
        "p99_us": probed.p99.as_secs_f64() * 1e6,
        "queries_per_second": per_second(1, probed.mean),
    })
}

/// A row for each width, with the queries of a second as a bar.
fn page(args: &VectorProbeArgs, probed: &[Probed], enough: Option<&Probed>) -> String {
    let sides = [Side::Right, Side::Right, Side::Right, Side::Right, Side::Right, Side::Left];
    let mut columns = Columns::new(&sides);
    columns.row(["width", "recall", "mean", "p99", "queries a second", ""].map(str::to_owned));
    let rate = |probed: &Probed| per_second(1, probed.mean);
    let most = probed.iter().chain(enough).map(rate).fold(0.0, f64::max);
    let us = |time: std::time::Duration| format!("{} us", count(time.as_micros() as u64));
    for one in probed {
        columns.row([
            count(one.width as u64),
            format!("{:.4}", one.recall),
            us(one.mean),
            us(one.p99),
            count(rate(one) as u64),
            bar(rate(one), most, BAR),
        ]);
    }
    let mut lines = columns.lines();
    lines.extend(args.recall.map(|recall| match enough {
        Some(enough) => {
            let (width, found) = (count(enough.width as u64), enough.recall);
            let rate = count(rate(enough) as u64);
            format!("a width of {width} finds {found:.4}, {rate} queries a second")
        }
        None => format!("no width finds {recall} of the nearest"),
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command, VectorCommand};

    #[test]
    fn each_width_has_a_row_and_a_bar() {
        let typed = ["polder", "vector", "probe", "s", "i", "f.npy", "--recall", "0.99"];
        let Command::Vector(VectorCommand::Probe(args)) = Cli::parse_from(typed).command else {
            panic!("another command");
        };
        let probed = |width, recall, us| {
            let mean = Duration::from_micros(us);
            Probed { width, recall, mean, p99: 2 * mean }
        };
        let two = [probed(10, 0.9, 100), probed(1000, 1.0, 400)];
        let page = |enough: Option<Probed>| page(&args, &two, enough.as_ref());
        let lines = page(Some(probed(200, 0.995, 250)));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<_> = lines.lines().map(words).collect();
        let full = "█".repeat(40);
        assert_eq!(rows[1], words(&format!("10 0.9000 100 us 200 us 10,000 {full}")));
        assert_eq!(rows[2], words(&format!("1,000 1.0000 400 us 800 us 2,500 {}", &full[..30])));
        assert!(lines.ends_with("a width of 200 finds 0.9950, 4,000 queries a second"));
        assert!(page(None).ends_with("no width finds 0.99 of the nearest"));
    }
}
