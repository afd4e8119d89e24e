//! Builds an index of the vectors of a `.fvecs` file, and looks for those of another one: how long that
//! takes, and how many of the nearest are found. Without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example nearest [base.fvecs queries.fvecs [threads [links [width [searching]]]]]
//!
//! So many threads insert, and so many search, one unless it is said. With `turns` as the last argument it
//! searches whenever a line is read, and prints numbers alone: `scripts/vector-peers` has it take turns with
//! other indexes. With `batches` it does the same, and all queries are one call.

use std::error::Error;
use std::time::Instant;
use std::{env, io};

use polder_vector::{Search, VectorError, VectorRef, search_many};
use support::{in_parts, vectors};

mod support;

/// How many of the nearest are looked for.
const COUNT: usize = 10;
/// Of how many nodes that are kept in sight.
const WIDTHS: [usize; 8] = [10, 15, 20, 30, 40, 60, 80, 120];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, links, width) = (number(2, 1)?, number(3, 16)?, number(4, 128)?);
    let searching = number(5, 1)?;
    let [base, queries] = vectors(&arguments, [5000, 100])?;
    let begun = Instant::now();
    let (_folder, index) = support::build(&base, threads, links, width)?;
    let rate = base.len() as f64 / begun.elapsed().as_secs_f64();
    let bytes = index.space().pages_in_use()? * 8192 / base.len() as u64;
    let exact =
        queries.iter().map(|query| Ok(index.search_exact(query, &Search::new(COUNT, 0))?.found));
    let all = exact.collect::<Result<Vec<_>, VectorError>>()?;
    let last = arguments.last().map_or("", String::as_str);
    let is_batch = last == "batches";
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let search = |width| -> Result<(f64, f64), VectorError> {
        let (begun, search) = (Instant::now(), Search::new(COUNT, width));
        let answers = if is_batch {
            vec![search_many(&index, &queries, &search, searching)?]
        } else {
            in_parts(&queries, searching, |part| {
                part.iter().map(|query| index.search(*query, &search)).collect()
            })?
        };
        let seconds = begun.elapsed().as_secs_f64();
        let hits =
            answers.iter().flatten().zip(&all).map(|(answer, exact)| {
                answer.found.iter().filter(|one| exact.contains(one)).count()
            });
        Ok((hits.sum::<usize>() as f64 / (COUNT * all.len()) as f64, all.len() as f64 / seconds))
    };
    if is_batch || last == "turns" {
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
