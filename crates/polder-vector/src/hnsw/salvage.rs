//! What a page tells by itself, of an index that may lack any other one.

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;

use super::meta;
use super::node::NodePage;
use crate::node_id::State;
use crate::options::HnswOptions;

/// The options of its index.
pub(crate) fn options_in(page: PageRef<'_>) -> Option<HnswOptions> {
    match PageKind(page.u8(header_at::KIND)) {
        PageKind::HNSW_META => meta::options(page).ok(),
        PageKind::HNSW_NODES => NodePage::new(page).options().ok(),
        _ => None,
    }
}

/// Shows label and bytes of each vector in it.
pub(crate) fn vectors_in(page: PageRef<'_>, show: &mut dyn FnMut(u64, &[u8])) {
    if page.u8(header_at::KIND) != PageKind::HNSW_NODES.0 {
        return;
    }
    let nodes = NodePage::new(page);
    let Ok(layout) = nodes.own_layout() else { return };
    for node in (0..nodes.slots()).map(|slot| nodes.node(&layout, slot)) {
        if node.state() == State::Live {
            show(node.label(), &node.copy(&layout).to_bytes());
        }
    }
}

/// Whether a page of nodes is what it must be, with what lies in the nodes.
pub(crate) fn verify_nodes(page: PageRef<'_>) -> Result<(), &'static str> {
    NodePage::new(page).verify_whole()
}
