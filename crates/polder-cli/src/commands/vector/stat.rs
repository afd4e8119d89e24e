//! `polder vector stat`: what a collection is, and what it holds.

use polder_vector::IndexOptions;
use serde_json::json;

use super::{Context, with_collection};
use crate::args::VectorArgs;
use crate::failure::Failure;
use crate::output::{self, Columns, Side};
use crate::units::{bytes, count};

pub fn run(context: &Context, args: &VectorArgs) -> Result<(), Failure> {
    let (options, vectors, size) = with_collection(args, |collection| {
        Ok((collection.options()?, collection.len(), collection.index_bytes()?))
    })?;
    let IndexOptions::Hnsw(options) = options else {
        return Err(Failure::Usage("this program knows no such index".into()));
    };
    let shape = options.shape;
    let of_one = size.checked_div(vectors).unwrap_or(0);
    if context.json {
        return output::print_json(&json!({
            "collection": args.collection,
            "element": shape.element.to_string(),
            "dimensions": shape.dimensions,
            "metric": shape.metric.to_string(),
            "links": options.links,
            "insert_width": options.insert_width,
            "vectors": vectors,
            "index_bytes": size,
            "index_bytes_per_vector": of_one,
        }));
    }
    let mut columns = Columns::new(&[Side::Left, Side::Left]);
    let mut row = |name: &str, what: String| columns.row([name.to_owned(), what]);
    row("collection", args.collection.clone());
    row("vectors", format!("{} of {} {}", count(vectors), shape.dimensions, shape.element));
    row("compared by", shape.metric.to_string());
    row("links", options.links.to_string());
    row("width of inserts", count(options.insert_width as u64));
    row("index", format!("{}, {} a vector", bytes(size), count(of_one)));
    output::print(&columns.lines().join("\n"))
}
