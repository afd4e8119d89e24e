//! `polder vector search`: the nearest of each vector of a file.

use polder_vector::Answer;
use serde_json::json;

use super::{Context, queries, vectors, with_index};
use crate::args::VectorSearchArgs;
use crate::failure::Failure;
use crate::output::Output;

pub fn run(context: &Context, args: &VectorSearchArgs) -> Result<(), Failure> {
    with_index(&args.at, |_, index| {
        let queries = queries(context, index, &args.look)?;
        let filter = args.look.filter();
        let search = args.look.search(args.width, &filter);
        let mut out = Output::new();
        for (number, query) in vectors(&queries).into_iter().enumerate() {
            context.stop.check()?;
            let answer = index.read(|index| match args.exact {
                true => index.search_exact(query, &search),
                false => index.search(query, &search),
            })?;
            print(context, &mut out, number, &answer)?;
        }
        out.finish()
    })
}

/// A line for each vector that was found, or for a program one for each query.
fn print(
    context: &Context,
    out: &mut Output,
    query: usize,
    answer: &Answer,
) -> Result<(), Failure> {
    if context.json {
        let found = answer.found.iter();
        let found: Vec<_> =
            found.map(|one| json!({ "label": one.label, "distance": one.distance })).collect();
        let exhaustive = answer.is_exhaustive;
        return out.line(
            &json!({ "query": query, "found": found, "exhaustive": exhaustive }).to_string(),
        );
    }
    for one in &answer.found {
        out.line(&format!("{query}\t{}\t{}", one.label, one.distance))?;
    }
    Ok(())
}
