//! `polder vector create`: an empty collection.

use polder_vector::{HnswOptions, NewIndex, VamanaOptions, VectorBuf, VectorError, VectorShape};
use serde_json::json;

use super::{Context, elements, index};
use crate::args::{Index, VectorCreateArgs};
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;
use crate::vectors::Rows;

/// Vectors of a sample that are looked at.
const SAMPLE: usize = 1000;

pub fn run(context: &Context, args: &VectorCreateArgs) -> Result<(), Failure> {
    let new = new_index(args)?;
    let name = &args.at.collection;
    with_store_to_write(&args.at.store, polder::Durability::Sync, &args.write, |store| {
        Ok(store.create_collection(name, new.clone()).map(drop)?)
    })?;
    let VectorShape { element, dimensions, metric } = new.options().shape();
    if context.json {
        let mut made = json!({
            "created": name,
            "element": element.to_string(),
            "dimensions": dimensions,
            "metric": metric.to_string(),
        });
        for (what, value) in index::fields(new.options()) {
            made[what] = value;
        }
        return output::print_json(&made);
    }
    output::print(&format!(
        "created {name}: vectors of {dimensions} {element}, compared by {metric}"
    ))
}

fn new_index(args: &VectorCreateArgs) -> Result<NewIndex, Failure> {
    let (element, metric) = (args.element.into(), args.metric.into());
    let shape = VectorShape { element, dimensions: args.dimensions, metric };
    let insert_width = args.insert_width;
    if args.index == Index::Hnsw {
        if args.code_bits.is_some() || args.sample.is_some() {
            let what = "--code-bits and --sample are for --index vamana";
            return Err(Failure::Usage(what.into()));
        }
        let usual = HnswOptions::new(shape);
        let links = args.links.unwrap_or(usual.links);
        return Ok(HnswOptions { links, insert_width, ..usual }.into());
    }
    let usual = VamanaOptions::new(shape);
    let options = VamanaOptions {
        links: args.links.unwrap_or(usual.links),
        code_bits: args.code_bits.unwrap_or(usual.code_bits),
        insert_width,
        ..usual
    };
    let refused = |error: VectorError| Failure::Usage(error.to_string());
    let Some(file) = &args.sample else { return Ok(options.into()) };
    shape.validate().map_err(refused)?;
    let mut rows = Rows::open(file)?;
    let mut sample: Vec<VectorBuf> = Vec::new();
    while sample.len() < SAMPLE
        && let Some(row) = rows.next()?
    {
        let vector = elements(element, &rows, row.numbers)?;
        // By itself: of all of them it would not be known which one is wrong.
        NewIndex::around(options, [vector.view()]).map_err(|e| rows.failure(e.to_string()))?;
        sample.push(vector);
    }
    NewIndex::around(options, sample.iter().map(VectorBuf::view)).map_err(refused)
}
