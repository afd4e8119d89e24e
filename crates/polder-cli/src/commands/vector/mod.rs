//! `polder vector`: vector indexes.

use polder::{Hosted, Store};
use polder_vector::{ElementKind, Filter, HnswStructure, Search, VectorError, VectorRef};

use super::Context;
use crate::args::{LookArgs, VectorArgs, VectorCommand};
use crate::failure::Failure;
use crate::opening::with_store_to_read;
use crate::vectors::{Elements, Row, Rows, elements_of};

mod create;
mod load;
mod probe;
mod search;
mod stat;

type Index = Hosted<HnswStructure>;

pub fn run(context: &Context, command: &VectorCommand) -> Result<(), Failure> {
    match command {
        VectorCommand::Create(args) => create::run(context, args),
        VectorCommand::Load(args) => load::run(context, args),
        VectorCommand::Search(args) => search::run(context, args),
        VectorCommand::Probe(args) => probe::run(context, args),
        VectorCommand::Stat(args) => stat::run(context, args),
    }
}

/// To read an index that must be there.
fn with_index<T>(
    args: &VectorArgs,
    work: impl FnOnce(&Store, &Index) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_store_to_read(&args.store, |store| work(store, &store.structure(&args.index)?))
}

/// What the numbers of its vectors are.
fn element(index: &Index) -> Result<ElementKind, Failure> {
    Ok(index.read(|index| Ok::<_, VectorError>(index.options().shape().element))?)
}

/// A row as a vector of an index with such elements.
fn elements(element: ElementKind, rows: &Rows, row: Row) -> Result<Elements, Failure> {
    elements_of(element, row.numbers).map_err(|why| rows.failure(why))
}

/// All vectors that others are to be near to.
fn queries(context: &Context, index: &Index, look: &LookArgs) -> Result<Vec<Elements>, Failure> {
    let (mut rows, element) = (Rows::open(&look.file)?, element(index)?);
    let mut queries = Vec::new();
    while let Some(row) = rows.next()? {
        context.stop.check()?;
        queries.push(elements(element, &rows, row)?);
    }
    Ok(queries)
}

impl LookArgs {
    /// Which labels may be found.
    fn filter(&self) -> impl Filter + use<> {
        let (from, to) = (self.from, self.to);
        move |label: u64| label >= from && to.is_none_or(|to| label < to)
    }

    /// The search, with a filter where not all labels may be found.
    fn search<'f>(&self, width: usize, filter: &'f dyn Filter) -> Search<'f> {
        let search = Search::new(self.count, width).within(self.within.unwrap_or(f32::INFINITY));
        match self.from > 0 || self.to.is_some() {
            true => search.filter(filter),
            false => search,
        }
    }
}

/// As [`Elements::vector`], of all of them.
fn vectors(queries: &[Elements]) -> Vec<VectorRef<'_>> {
    queries.iter().map(Elements::vector).collect()
}
