//! What a page tells by itself, of an index that may lack any other one.

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;

use super::layout::Kind;
use super::slots::SlotPage;
use super::{mean, meta};
use crate::node_id::State;
use crate::options::VamanaOptions;
use crate::vectors::Vector;

/// The options of its index, and a centre from which on vectors may be coded: that of the index, or the mean
/// of the vectors in the page.
pub(crate) fn options_in(page: PageRef<'_>) -> Option<(VamanaOptions, Vec<f32>)> {
    match PageKind(page.u8(header_at::KIND)) {
        PageKind::VAMANA_META => {
            let options = meta::options(page).ok()?;
            Some((options, meta::centre(page, options.shape.dimensions).values()))
        }
        PageKind::VAMANA_NODES => {
            let options = SlotPage::new(page).options().ok()?;
            let kind = options.shape.element;
            let vectors = live_in(page)?.into_iter().map(|(_, vector)| vector.to_buf(kind));
            let vectors: Vec<_> = vectors.collect();
            // With a damaged one among them any centre is as good.
            let centre = mean(&options, vectors.iter().map(|vector| vector.view()));
            Some((options, centre.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Shows label and bytes of each vector in it.
pub(crate) fn vectors_in(page: PageRef<'_>, show: &mut dyn FnMut(u64, &[u8])) {
    if page.u8(header_at::KIND) == PageKind::VAMANA_NODES.0 {
        for (label, vector) in live_in(page).into_iter().flatten() {
            show(label, &vector.to_bytes());
        }
    }
}

/// The vectors of a page of nodes, if it is what it must be.
fn live_in(page: PageRef<'_>) -> Option<Vec<(u64, Vector)>> {
    let nodes = SlotPage::new(page);
    let layout = nodes.verify(Kind::Nodes).ok()?;
    let taken = nodes.taken(&layout, Kind::Nodes).map(|(_, node)| node);
    let live = taken.filter(|node| node.state() == State::Live);
    Some(live.map(|node| (node.label(), node.copy(&layout))).collect())
}
