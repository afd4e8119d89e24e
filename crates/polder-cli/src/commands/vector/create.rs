//! `polder vector create`: an empty collection.

use std::iter;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use polder_vector::{
    HnswOptions, IvfOptions, NewIndex, VamanaOptions, VectorBuf, VectorError, VectorShape,
};
use serde_json::json;

use super::{Context, elements, index};
use crate::args::{Index, VectorCreateArgs};
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::progress::{Progress, Unit};
use crate::vectors::Rows;

/// Vectors of a sample that are looked at to find a mean.
const SAMPLE: usize = 1000;

pub fn run(context: &Context, args: &VectorCreateArgs) -> Result<(), Failure> {
    let new = new_index(context, args)?;
    let name = &args.at.collection;
    with_store_to_write(&args.at.store, polder::Durability::Sync, &args.write, |store| {
        Ok(store.create_collection(name, new.clone()).map(drop)?)
    })?;
    let VectorShape { element, dimensions, metric } = new.options().shape();
    let mut made = json!({
        "created": name,
        "element": element.to_string(),
        "dimensions": dimensions,
        "metric": metric.to_string(),
    });
    for (what, value) in index::fields(new.options()) {
        made[what] = value;
    }
    let text = format!("created {name}: vectors of {dimensions} {element}, compared by {metric}");
    context.print(&made, &text)
}

fn new_index(context: &Context, args: &VectorCreateArgs) -> Result<NewIndex, Failure> {
    let VectorCreateArgs { links, code_bits, lists, insert_width, .. } = *args;
    let (element, metric) = (args.element.into(), args.metric.into());
    let shape = VectorShape { element, dimensions: args.dimensions, metric };
    for (option, is_given, of) in [
        ("--links", links.is_some(), &[Index::Hnsw, Index::Vamana][..]),
        ("--insert-width", insert_width.is_some(), &[Index::Hnsw, Index::Vamana]),
        ("--code-bits", code_bits.is_some(), &[Index::Vamana]),
        ("--lists", lists.is_some(), &[Index::Ivf]),
        ("--sample", args.sample.is_some(), &[Index::Vamana, Index::Ivf]),
        ("--vector", args.vectors.vector.is_some(), &[Index::Vamana, Index::Ivf]),
    ] {
        if is_given && !of.contains(&args.index) {
            let index = args.index.to_possible_value();
            let index = index.as_ref().map_or("", PossibleValue::get_name);
            return Err(Failure::Usage(format!("{option} is not for --index {index}")));
        }
    }
    let sample = args.sample.as_deref();
    let sample = sample.map(|file| Rows::open(file, &(&args.vectors).into()));
    match args.index {
        Index::Hnsw => {
            let usual = HnswOptions::new(shape);
            let links = links.unwrap_or(usual.links);
            let insert_width = insert_width.unwrap_or(usual.insert_width);
            Ok(HnswOptions { links, insert_width, ..usual }.into())
        }
        Index::Vamana => {
            let usual = VamanaOptions::new(shape);
            let options = VamanaOptions {
                links: links.unwrap_or(usual.links),
                code_bits: code_bits.unwrap_or(usual.code_bits),
                insert_width: insert_width.unwrap_or(usual.insert_width),
                ..usual
            };
            sample.map_or(Ok(options.into()), |rows| around(options, rows?))
        }
        Index::Ivf => match (lists, sample) {
            (Some(lists), Some(rows)) => trained(context, IvfOptions { shape, lists }, rows?),
            _ => {
                let what = "--index ivf needs --lists N, and --sample FILE to find them";
                Err(Failure::Usage(what.into()))
            }
        },
    }
}

fn refused(error: VectorError) -> Failure {
    Failure::Usage(error.to_string())
}

/// A graph whose codes are made from the mean of the first vectors of a file on.
fn around(options: VamanaOptions, mut rows: Rows) -> Result<NewIndex, Failure> {
    let shape = options.shape;
    shape.validate().map_err(refused)?;
    let mut sample: Vec<VectorBuf> = Vec::new();
    while sample.len() < SAMPLE
        && let Some(row) = rows.next()?
    {
        let vector = elements(shape.element, &rows, row.numbers)?;
        // By itself: of all of them it would not be known which one is wrong.
        NewIndex::around(options, [vector.view()]).map_err(|e| rows.failure(e.to_string()))?;
        sample.push(vector);
    }
    NewIndex::around(options, sample.iter().map(VectorBuf::view)).map_err(refused)
}

/// Lists that are found by looking at the vectors of a file.
fn trained(context: &Context, options: IvfOptions, mut rows: Rows) -> Result<NewIndex, Failure> {
    let mut failed = None;
    let element = options.shape.element;
    let mut next = || -> Result<Option<VectorBuf>, Failure> {
        context.stop.check()?;
        let Some(row) = rows.next()? else { return Ok(None) };
        elements(element, &rows, row.numbers).map(Some)
    };
    let sample = iter::from_fn(|| {
        next().unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    });
    let shown = Progress::new("training", Unit::Things("hundredths"), Some(100));
    let progress = &mut |done| shown.goes_on((100.0 * done) as u64, &context.stop);
    let trained = NewIndex::trained(options, sample, progress);
    if let Some(failed) = failed {
        return Err(failed);
    }
    context.stop.check()?;
    trained.map_err(|error| match error {
        VectorError::Option { .. } | VectorError::Metric { .. } => refused(error),
        VectorError::SampleTooSmall { .. } => refused(error),
        error => rows.failure(error.to_string()),
    })
}
