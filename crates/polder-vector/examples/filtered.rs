//! Looks for the nearest of those vectors that match a filter: how many of them are found, and how long that
//! takes beside comparing with all that match. Of the vectors of a `.fvecs` file, for those of another one;
//! without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example filtered [base.fvecs queries.fvecs [threads]]
//!
//! Filters let through a part at random, or those that are nearest to one vector, or farthest from it: of
//! such a filter what is near to a query matches nearly always, or never. Of some it is known where the
//! vectors lie that match.

use std::env;
use std::error::Error;
use std::time::Instant;

use polder_vector::{Answer, Filter, Places, Search, VectorError};
use support::vectors;

mod support;

/// How many of the nearest are looked for.
const COUNT: usize = 10;
const WIDTHS: [usize; 5] = [10, 20, 30, 40, 80];
/// Of so many turns the median is told.
const TURNS: usize = 3;

/// Numbers without a pattern.
fn hash(label: u64) -> u64 {
    label.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// For each vector its place in the order of how far they are from the first.
fn ranks(base: &[Vec<f32>]) -> Vec<usize> {
    let distance = |vector: &[f32]| -> f32 {
        vector.iter().zip(&base[0]).map(|(a, b)| (a - b) * (a - b)).sum()
    };
    let mut order: Vec<(f32, usize)> =
        base.iter().enumerate().map(|(label, vector)| (distance(vector), label)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0; base.len()];
    order.iter().enumerate().for_each(|(rank, (_, label))| ranks[*label] = rank);
    ranks
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [3000, 30])?;
    let threads = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let (_folder, index) = support::build(&base, threads, 16, 128)?;
    let (ranks, count) = (ranks(&base), base.len());

    let part = |of: u64| move |label: u64| hash(label).is_multiple_of(of);
    let (tenth, hundredth) = (part(10), part(100));
    let places = |matches: &dyn Fn(u64) -> bool| {
        let mut places = Vec::new();
        index.for_each(|label, node| {
            places.extend(matches(label).then_some((label, node)));
            true
        })?;
        Ok::<_, VectorError>(Places::from_iter(places))
    };
    let known = [places(&tenth)?, places(&hundredth)?];
    let filters: [(&str, &dyn Filter); 9] = [
        ("all", &|_: u64| true),
        ("50%", &|label: u64| hash(label).is_multiple_of(2)),
        ("10%", &tenth),
        ("10%, known", &known[0]),
        ("1%", &hundredth),
        ("1%, known", &known[1]),
        ("nearest 10%", &|label: u64| ranks[label as usize] < count / 10),
        ("farthest 10%", &|label: u64| ranks[label as usize] >= count - count / 10),
        ("nearest 1%", &|label: u64| ranks[label as usize] < count / 100),
    ];
    println!(
        "Recall, and how many times as fast as comparing with all that match; * where that is done."
    );
    for (name, filter) in filters {
        let search = |width: usize| Search::new(COUNT, width).filter(filter);
        let timed = |answer: &dyn Fn(&Vec<f32>) -> Result<Answer, VectorError>| {
            let begun = Instant::now();
            let answers: Result<Vec<_>, _> = queries.iter().map(answer).collect();
            Ok::<_, VectorError>((answers?, begun.elapsed().as_secs_f64()))
        };
        let mut times = [(); WIDTHS.len()].map(|()| Vec::new());
        let mut results = [(0.0, false); WIDTHS.len()];
        for _ in 0..TURNS {
            // Without knowing where they lie.
            let matches = |label| filter.matches(label);
            let all = Search::new(COUNT, 0).filter(&matches);
            let (exact, alone) = timed(&|query| index.search_exact(query, &all))?;
            for (at, width) in WIDTHS.into_iter().enumerate() {
                // Those that are timed begin with what is in the processor's cache after others of their kind.
                timed(&|query| index.search(query, &search(width)))?;
                let (answers, seconds) = timed(&|query| index.search(query, &search(width)))?;
                times[at].push(alone / seconds);
                let (mut hits, mut wanted, mut exhaustive) = (0, 0, 0);
                for (answer, exact) in answers.iter().zip(&exact) {
                    if answer.found.len() != exact.found.len() {
                        return Err("fewer were found than match".into());
                    }
                    hits += answer.found.iter().filter(|one| exact.found.contains(one)).count();
                    wanted += exact.found.len();
                    exhaustive += usize::from(answer.is_exhaustive);
                }
                results[at] = (hits as f64 / wanted as f64, 2 * exhaustive > queries.len());
            }
        }
        print!("{name:12}");
        for ((width, times), (recall, is_exact)) in WIDTHS.iter().zip(&mut times).zip(results) {
            times.sort_by(f64::total_cmp);
            let mark = if is_exact { "*" } else { " " };
            print!("  {width:3}: {recall:.3} {:6.1}{mark}", times[TURNS / 2]);
        }
        println!();
    }
    Ok(())
}
