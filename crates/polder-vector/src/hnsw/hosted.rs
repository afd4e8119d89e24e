//! An index in a store.

use std::sync::Arc;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{KindOps, PoolError, Space, Translation};
use polder_structure::check::Walk;
use polder_structure::levels::root;
use polder_structure::page::ensure;
use polder_structure::{Report, Structure};

use super::meta;
use super::node::{NodePage, State};
use super::{HnswIndex, KINDS};
use crate::element::VectorBuf;
use crate::error::VectorError;
use crate::index::VectorIndex;
use crate::options::HnswOptions;

/// The structure that a store hosts: vectors, each with a label, and those nearest to any vector.
///
/// A salvage restores each vector with its label, into another node.
#[derive(Debug)]
pub enum HnswStructure {}

impl Structure for HnswStructure {
    const NAME: &'static str = "polder.hnsw";
    const KINDS: &'static [KindOps] = &KINDS;
    type Options = HnswOptions;
    type Handle = dyn VectorIndex;

    fn create<T: Translation>(space: &Space<T>, options: &HnswOptions) -> Result<(), PoolError> {
        Ok(HnswIndex::create(space.clone(), options).map(drop)?)
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn VectorIndex>, PoolError> {
        Ok(Arc::new(HnswIndex::open(space)?))
    }

    fn check<T: Translation>(
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        match HnswIndex::open(space.clone()) {
            Ok(index) => index.check(progress),
            Err(error) => check_without_first(space, error, progress),
        }
    }

    fn options(page: PageRef<'_>) -> Option<HnswOptions> {
        match PageKind(page.u8(header_at::KIND)) {
            PageKind::HNSW_META => meta::options(page).ok(),
            PageKind::HNSW_NODES => NodePage::new(page).options().ok(),
            _ => None,
        }
    }

    /// The key is the label, big-endian, which need not be the only one; the value is the bytes of the
    /// vector.
    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        if page.u8(header_at::KIND) != PageKind::HNSW_NODES.0 {
            return;
        }
        let nodes = NodePage::new(page);
        let Ok(layout) = nodes.own_layout() else { return };
        for node in (0..nodes.slots()).map(|slot| nodes.node(&layout, slot)) {
            if node.state() == State::Live {
                entry(&node.label().to_be_bytes(), &node.copy(&layout).to_bytes());
            }
        }
    }

    fn restore(index: &dyn VectorIndex, label: &[u8], vector: &[u8]) -> Result<(), PoolError> {
        let label = u64::from_be_bytes(label.try_into().map_err(PoolError::of_structure)?);
        let element = index.options().shape().element;
        let vector = VectorBuf::from_bytes(element, vector)
            .ok_or_else(|| PoolError::of_structure("the bytes are no vector of the index"))?;
        Ok(index.insert(label, vector.view()).map(drop)?)
    }
}

/// Looks at an index that is not opened because of its first page, whose fault is in the report; and at
/// each other page by itself.
///
/// # Errors
/// `error`, which opening it has met, if that is not the first page's fault; those of the allocation maps.
fn check_without_first<T: Translation>(
    space: &Space<T>,
    error: VectorError,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, PoolError> {
    let mut walk = Walk::new(space);
    if let Some(first) = walk.visit(root()) {
        let is_first = first.page().u8(header_at::KIND) == PageKind::HNSW_META.0;
        let seen = ensure(is_first, "the index has no first page");
        walk.note(root(), seen.and_then(|()| meta::options(first.page()).map(drop)));
    }
    if walk.report.faults.is_empty() {
        return Err(error.into());
    }
    for number in space.used_pages()?.into_iter().filter(|number| *number != root()) {
        if !progress(walk.report.pages) {
            walk.report.stopped = true;
            break;
        }
        if let Some(copy) = walk.visit(number) {
            let page = copy.page();
            let is_of_nodes = page.u8(header_at::KIND) == PageKind::HNSW_NODES.0;
            let seen = ensure(is_of_nodes, "this is no page of a vector index");
            walk.note(number, seen.and_then(|()| NodePage::new(page).verify_whole()));
        }
    }
    walk.finish()
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use polder_format::PageSize;
    use polder_pool::bytes::PageBuf;
    use polder_pool::{AccessHint, Array, FileState, Pool};
    use polder_structure::edit;
    use polder_structure::page::copy_of;
    use polder_testkit::pools;

    use super::super::node::NodePageMut;
    use super::*;
    use crate::element::ElementKind;
    use crate::metric::Metric;
    use crate::vectors::VectorShape;

    fn new_index(options: &HnswOptions) -> (Pool<Array>, HnswIndex<Array>) {
        let config = pools::config(4, PageSize::MIN, FileState::NEW);
        let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS).unwrap();
        let space = pool.create_space().unwrap();
        HnswStructure::create(&space, options).unwrap();
        (pool, HnswIndex::open(space).unwrap())
    }

    fn pages(index: &HnswIndex<Array>) -> Vec<PageBuf> {
        let copy = |number| {
            index.space.run(AccessHint::Normal, |attempt| {
                let page = index.space.page(attempt, number)?;
                let copy = copy_of(page.page());
                page.validate().map(|()| copy)
            })
        };
        index.space.used_pages().unwrap().into_iter().map(|number| copy(number).unwrap()).collect()
    }

    fn entries(index: &HnswIndex<Array>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        for page in pages(index) {
            HnswStructure::entries(page.page(), &mut |label, vector| {
                entries.push((label.to_vec(), vector.to_vec()));
            });
        }
        entries.sort();
        entries
    }

    /// The bytes of a vector of this kind of numbers, none of which is out of bounds.
    fn bytes(random: &mut fastrand::Rng, shape: VectorShape) -> Vec<u8> {
        let mut numbers = std::iter::repeat_with(|| random.i8(1..));
        let count = shape.element.bytes(shape.dimensions) / shape.element.bytes_of(1);
        let number = |number: i8| match shape.element {
            ElementKind::F32 => f32::from(number).to_le_bytes().to_vec(),
            ElementKind::F16 => f16::from(number).to_le_bytes().to_vec(),
            ElementKind::Bf16 => bf16::from(number).to_le_bytes().to_vec(),
            ElementKind::I8 | ElementKind::Bit => vec![number as u8],
        };
        numbers.by_ref().take(count).flat_map(number).collect()
    }

    /// An index that is made of what the pages of another one tell is what that was, whichever of them
    /// tells the options. Labels may be given twice.
    #[test]
    fn pages_tell_options_and_vectors() {
        let mut random = fastrand::Rng::with_seed(5);
        for element in ElementKind::ALL {
            for metric in Metric::ALL.into_iter().filter(|metric| metric.is_for(element)) {
                let shape = VectorShape { element, dimensions: 24, metric };
                let options = HnswOptions { shape, links: 5, insert_width: 77 };
                let (_pool, index) = new_index(&options);
                let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
                for label in 0..100_u64 {
                    let label = (label / 2).to_be_bytes();
                    let vector = bytes(&mut random, shape);
                    HnswStructure::restore(&index, &label, &vector).unwrap();
                    model.push((label.to_vec(), vector));
                }
                model.sort();
                assert_eq!(entries(&index), model);
                let pages = pages(&index);
                assert!(pages.len() > 3);
                let told = pages.iter().map(|page| HnswStructure::options(page.page()));
                told.for_each(|told| assert_eq!(told, Some(options)));
                let (_pool, again) = new_index(&options);
                for (label, vector) in &model {
                    HnswStructure::restore(&again, label, vector).unwrap();
                }
                assert_eq!(entries(&again), model);
                assert_eq!(again.check(&mut |_| true).unwrap().faults, []);
            }
        }
    }

    /// What was removed is not salvaged, also if its removal was cut off.
    #[test]
    fn a_node_that_is_leaving_is_no_entry() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        let (_pool, index) = new_index(&HnswOptions::new(shape));
        let nodes = [[1_i8, 2, 3], [4, 5, 6]].map(|vector| index.insert(7, &vector).unwrap());
        edit(&index.space, |edit| {
            let mut page = NodePageMut::new(edit.page_mut(nodes[0].page())?);
            page.set_state(&index.core.layout, nodes[0].slot(), State::Leaving);
            Ok(())
        })
        .unwrap();
        assert_eq!(entries(&index), [(7_u64.to_be_bytes().to_vec(), vec![4, 5, 6])]);
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let shape =
            VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::Cosine };
        let (_pool, index) = new_index(&HnswOptions::new(shape));
        let label = 7_u64.to_be_bytes();
        let ones = [1.0_f32; 3].map(f32::to_le_bytes).concat();
        for (label, vector) in [
            (&label[..7], &ones[..8]),
            (&label, &ones[..7]),
            (&label, &ones[..9]),
            (&label, &[0; 8]),
            (&label, &[0xff; 8]),
        ] {
            let refused = HnswStructure::restore(&index, label, vector).unwrap_err();
            assert!(matches!(refused, PoolError::Structure { .. }), "{refused}");
        }
        assert_eq!(entries(&index), []);
    }
}
