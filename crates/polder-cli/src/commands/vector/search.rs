//! `polder vector search`: the nearest of each vector of a file.

use polder::{Hits, Prefix, Query};
use polder_vector::VectorBuf;
use serde_json::json;

use super::{Context, cores, queries, with_collection};
use crate::args::VectorSearchArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::text;

/// Queries between which it can be stopped.
const AT_ONCE: usize = 256;

pub fn run(context: &Context, args: &VectorSearchArgs) -> Result<(), Failure> {
    with_collection(&args.at, |collection| {
        let queries = queries(context, collection, &args.look)?;
        let keys = match args.prefix.is_empty() {
            true => None,
            false => Some(collection.key_set(Prefix::new(&args.prefix))?),
        };
        let mut wanted = Query::new(args.look.count).width(args.width);
        if let Some(within) = args.within {
            wanted = wanted.within(within);
        }
        if let Some(keys) = &keys {
            wanted = wanted.among(keys);
        }
        if args.exact {
            wanted = wanted.exact();
        }
        let mut out = Output::new();
        let queries: Vec<_> = queries.iter().map(VectorBuf::view).collect();
        for (part, queries) in queries.chunks(AT_ONCE).enumerate() {
            context.stop.check()?;
            let found = collection.search_many(queries, &wanted, cores())?;
            for (number, found) in (part * AT_ONCE..).zip(&found) {
                print(context, args, &mut out, number, found)?;
            }
        }
        out.finish()
    })
}

/// A line for each vector that was found, or for a program one for each query.
fn print(
    context: &Context,
    args: &VectorSearchArgs,
    out: &mut Output,
    query: usize,
    found: &Hits,
) -> Result<(), Failure> {
    if context.json {
        let hits = found.hits.iter().map(|hit| {
            let (key, payload) = (text::json(&hit.key), text::json(&hit.payload));
            json!({ "key": key, "distance": hit.distance, "payload": payload })
        });
        let (hits, exhaustive) = (hits.collect::<Vec<_>>(), found.is_exhaustive);
        return out
            .line(&json!({ "query": query, "hits": hits, "exhaustive": exhaustive }).to_string());
    }
    for hit in &found.hits {
        let mut line = format!("{query}\t{}\t{}", text::key(&hit.key), hit.distance);
        if args.payloads {
            line = format!("{line}\t{}", text::value(&hit.payload));
        }
        out.line(&line)?;
    }
    Ok(())
}
