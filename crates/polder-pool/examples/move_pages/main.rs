//! Ways to move pages from one node of memory to another and back: `mbind`, `move_pages`, the paper's
//! `move_pages2` (the patch in `kernel/`), and a copy in user space. For each, the pages that it moves in
//! a second, what two threads that read them meanwhile have of it, and what it does where some pages
//! cannot be moved. The paper is `vmcache-n-2026` 3, its figure 3.
//!
//! `cargo run --release -p polder-pool --example move_pages -- [--seconds S] [--rounds N] [--json]`
//!
//! Needs two nodes of memory: `scripts/move-pages2` gives it a guest that has them, and the call. Where
//! there are none it says so, and where the kernel has no `move_pages2` it compares the others. It fails
//! if `move_pages2` tells of a page what is not true.
#![allow(clippy::print_stdout)]

mod calls;
mod failures;
mod report;
mod speed;

use std::error::Error;
use std::time::Duration;

use calls::Mode;
use failures::Cause;
use report::{Report, Row};

struct Arguments {
    seconds: f64,
    rounds: usize,
    json: bool,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut told = Arguments { seconds: 0.5, rounds: 3, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--seconds" => told.seconds = value()?.parse()?,
            "--rounds" => told.rounds = value()?.parse::<usize>()?.max(1),
            "--json" => told.json = true,
            _ => return Err(format!("{argument}: not an argument of move_pages").into()),
        }
    }
    Ok(told)
}

/// All ways, in turn, in each round.
fn speeds(
    arguments: &Arguments,
    has_move_pages2: bool,
    nodes: [i32; 2],
    cores: &[usize],
) -> Result<Vec<Row>, Box<dyn Error>> {
    let ways = speed::ways(has_move_pages2);
    let lasting = Duration::from_secs_f64(arguments.seconds);
    let mut rows: Vec<Row> = ways.into_iter().map(Row::new).collect();
    for _ in 0..arguments.rounds {
        for row in &mut rows {
            row.turns.push(speed::turn(row.way, nodes, cores, lasting)?);
        }
    }
    Ok(rows)
}

/// What the call refuses, for no pages at all.
fn check_arguments() -> Result<(), Box<dyn Error>> {
    let of_batch = |most_batched| calls::refused(Mode::Sync as i32, most_batched);
    let refused =
        [calls::refused(3, 1), of_batch(0), of_batch(-1), of_batch(calls::MOST_BATCHED + 1)];
    let taken = [of_batch(1), of_batch(calls::MOST_BATCHED)];
    if refused.iter().all(|error| *error == Some(libc::EINVAL)) && taken == [None; 2] {
        return Ok(());
    }
    Err(format!("move_pages2 refused {refused:?} and {taken:?}").into())
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let &[first, second, ..] = calls::nodes().as_slice() else {
        println!("move_pages: left out, there is one node of memory");
        return Ok(());
    };
    let (nodes, cores) = ([first, second], calls::cores());
    let has_move_pages2 = calls::has_move_pages2();
    if has_move_pages2 {
        check_arguments()?;
    }
    let mut report = Report {
        seconds: arguments.seconds,
        rows: speeds(&arguments, has_move_pages2, nodes, &cores)?,
        failures: Vec::new(),
    };
    let with_modes = Mode::ALL.into_iter().filter(|_| has_move_pages2).map(Some);
    let calls: Vec<failures::Call> = [None].into_iter().chain(with_modes).collect();
    for cause in Cause::ALL {
        for call in &calls {
            let outcome = failures::outcome(cause, *call, nodes, &cores)?;
            report.failures.extend(outcome.map(|outcome| (cause, *call, outcome)));
        }
    }
    println!("{}", if arguments.json { report.json() } else { report.table(has_move_pages2) });
    let mut of_move_pages2 = report.failures.iter().filter(|(_, call, _)| call.is_some());
    if !of_move_pages2.all(|(_, _, outcome)| outcome.is_true_of_all()) {
        return Err("move_pages2 told of a page what is not true".into());
    }
    eprintln!("move_pages: done");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("move_pages: error: {error}");
        std::process::exit(1);
    }
}
