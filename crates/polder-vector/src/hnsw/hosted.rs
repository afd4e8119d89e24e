//! An index in a store.

use std::sync::Arc;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{KindOps, PoolError, Space, Translation};
use polder_structure::{Report, Structure};

use super::meta;
use super::node::{NodePage, State};
use super::{HnswIndex, HnswOptions, KINDS};
use crate::element::{Bits, Element, ElementKind};
use crate::error::VectorError;
use crate::index::VectorIndex;
use crate::node_id::NodeId;

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
        HnswIndex::open(space.clone())?.check(progress)
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
        let inserted = match index.shape().element {
            ElementKind::F32 => insert::<f32>(index, label, vector),
            ElementKind::F16 => insert::<half::f16>(index, label, vector),
            ElementKind::Bf16 => insert::<half::bf16>(index, label, vector),
            ElementKind::I8 => insert::<i8>(index, label, vector),
            ElementKind::Bit => insert::<Bits>(index, label, vector),
        };
        Ok(inserted.map(drop)?)
    }
}

/// Inserts the vector of these bytes.
fn insert<E: Element>(
    index: &dyn VectorIndex,
    label: u64,
    bytes: &[u8],
) -> Result<NodeId, VectorError> {
    let element = |bytes: &[u8]| {
        let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        E::from_low_bits(bits)
    };
    let elements: Vec<E> = bytes.chunks(E::KIND.bytes_of(1)).map(element).collect();
    index.insert(label, (&elements).into())
}
