//! `polder vector stat`: what a collection is, and what it holds.

use serde_json::json;

use super::{Context, index, with_collection};
use crate::args::VectorArgs;
use crate::failure::Failure;
use crate::output::{self, Columns, Side};
use crate::units::{bytes, count};

pub fn run(context: &Context, args: &VectorArgs) -> Result<(), Failure> {
    let (options, vectors, size, is_linked) = with_collection(args, |collection| {
        let (vectors, size) = (collection.len(), collection.index_bytes()?);
        Ok((collection.options()?, vectors, size, collection.is_linked()?))
    })?;
    let shape = options.shape();
    let of_one = size.checked_div(vectors).unwrap_or(0);
    if context.json {
        let mut found = json!({
            "collection": args.collection,
            "element": shape.element.to_string(),
            "dimensions": shape.dimensions,
            "metric": shape.metric.to_string(),
            "vectors": vectors,
            "index_bytes": size,
            "index_bytes_per_vector": of_one,
            "linked": is_linked,
        });
        for (what, value) in index::fields(options) {
            found[what] = value;
        }
        return output::print_json(&found);
    }
    let mut columns = Columns::new(&[Side::Left, Side::Left]);
    let mut row = |name: &str, what: String| columns.row([name.to_owned(), what]);
    row("collection", args.collection.clone());
    row("vectors", format!("{} of {} {}", count(vectors), shape.dimensions, shape.element));
    row("compared by", shape.metric.to_string());
    for (what, value) in index::fields(options) {
        let what = match what {
            "insert_width" => "width of inserts",
            "code_bits" => "bits of a code",
            what => what,
        };
        row(what, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    row("size", format!("{}, {} a vector", bytes(size), count(of_one)));
    if !is_linked {
        row(
            "links",
            "a load was cut off: searches miss vectors until it is made again, or `repair`".into(),
        );
    }
    output::print(&columns.lines().join("\n"))
}
