//! Builds an index of the vectors of a `.fvecs` file, and looks for those of another one: how long that
//! takes, and how many of the nearest are found. Without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example nearest [base.fvecs queries.fvecs [threads [links [width]]]]
//!
//! With `turns` as the last argument it searches whenever a line is read, and prints numbers alone:
//! `scripts/vector-peers` has it take turns with other indexes.

use std::error::Error;
use std::time::Instant;
use std::{env, io};

use polder_vector::{Search, VectorError};
use support::vectors;

mod support;

/// How many of the nearest are looked for.
const COUNT: usize = 10;
/// Of how many nodes that are kept in sight.
const WIDTHS: [usize; 8] = [10, 15, 20, 30, 40, 60, 80, 120];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, links, width) = (number(2, 1)?, number(3, 16)?, number(4, 128)?);
    let [base, queries] = vectors(&arguments, [5000, 100])?;
    let begun = Instant::now();
    let (_folder, index) = support::build(&base, threads, links, width)?;
    let rate = base.len() as f64 / begun.elapsed().as_secs_f64();
    let bytes = index.space().pages_in_use()? * 8192 / base.len() as u64;
    let exact = queries.iter().map(|query| index.search_exact(query, &Search::new(COUNT, 0)));
    let exact = exact.collect::<Result<Vec<_>, _>>()?;
    let search = |width| -> Result<(f64, f64), VectorError> {
        let (mut hits, begun) = (0, Instant::now());
        let found = queries.iter().map(|query| index.search(query, &Search::new(COUNT, width)));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let seconds = begun.elapsed().as_secs_f64();
        for (found, exact) in found.iter().zip(&exact) {
            hits += found.found.iter().filter(|one| exact.found.contains(one)).count();
        }
        Ok((hits as f64 / (COUNT * queries.len()) as f64, queries.len() as f64 / seconds))
    };
    if arguments.last().is_some_and(|last| last == "turns") {
        println!("build {rate} {bytes}");
        for line in io::stdin().lines() {
            line?;
            let results = WIDTHS.iter().map(|width| {
                search(*width).map(|(recall, rate)| format!("{width} {recall} {rate}"))
            });
            println!("{}", results.collect::<Result<Vec<_>, _>>()?.join(" "));
        }
        return Ok(());
    }
    println!("{} vectors, {rate:.0} a second, {bytes} bytes each", base.len());
    for width in WIDTHS {
        let (recall, rate) = search(width)?;
        println!("width {width}: recall {recall:.4}, {rate:.0} a second");
    }
    Ok(())
}
