//! `polder vector create`: an empty collection.

use polder_vector::{HnswOptions, VectorShape};
use serde_json::json;

use super::Context;
use crate::args::VectorCreateArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;

pub fn run(context: &Context, args: &VectorCreateArgs) -> Result<(), Failure> {
    let (element, metric) = (args.element.into(), args.metric.into());
    let shape = VectorShape { element, dimensions: args.dimensions, metric };
    let options = HnswOptions { shape, links: args.links, insert_width: args.insert_width };
    let name = &args.at.collection;
    with_store_to_write(&args.at.store, polder::Durability::Sync, &args.write, |store| {
        Ok(store.create_collection(name, &options).map(drop)?)
    })?;
    if context.json {
        return output::print_json(&json!({
            "created": name,
            "element": element.to_string(),
            "dimensions": args.dimensions,
            "metric": metric.to_string(),
            "links": args.links,
            "insert_width": args.insert_width,
        }));
    }
    let dimensions = args.dimensions;
    output::print(&format!(
        "created {name}: vectors of {dimensions} {element}, compared by {metric}"
    ))
}
