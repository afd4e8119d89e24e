//! Which of many nodes to link with: robust pruning (algorithm 2 of the paper). A node is left out if it
//! is nearer by a factor to another one that was chosen than to the one that gets the links.

use polder_pool::{AccessHint, PoolError, Translation};

use super::code::{Code, CodeQuery};
use super::layout::Kind;
use super::look::{AtSlot, LookAtSlot};
use super::slots::Slot;
use super::{Core, VamanaIndex};
use crate::metric::Metric;
use crate::near::order_of;
use crate::node_id::{NodeId, State};
use crate::reads::Reads;
use crate::vectors::Vector;

/// By how much nearer (`alpha` in the paper), of distances that grow with the square of how far vectors
/// are apart.
const FACTOR: f32 = 1.2;

/// Quarters of a list that are filled with the nearest of what was left out: with more links a search finds
/// more with as many reads.
const FILLED: usize = 3;

/// A node that may be linked with.
pub(super) struct Candidate<V> {
    pub(super) distance: f32,
    pub(super) entry: NodeId,
    /// By which it is compared with others.
    pub(super) by: V,
}

impl<V> Candidate<V> {
    pub(super) fn nearest_first(candidates: &mut [Candidate<V>]) {
        candidates.sort_unstable_by_key(|one| (order_of(one.distance), one.entry));
    }
}

impl Core {
    fn factor(&self) -> f32 {
        // An inner product may be greater than 1, and then less is not nearer by a factor.
        if self.options.shape.metric == Metric::InnerProduct { 1.0 } else { FACTOR }
    }

    /// At most `count` of these, which are in the order of their distances.
    pub(super) fn prune(&self, near: &[Candidate<&Vector>], count: usize) -> Vec<NodeId> {
        choose(
            near,
            count,
            |_| false,
            |one, other, at_least| {
                let (one, other) = (near[one].by, near[other].by);
                let between = self.distances.between(one, other.run(), || other.scale);
                self.factor() * between >= at_least
            },
        )
    }

    /// The same by their codes. Those that `is_kept` says stay in any case.
    pub(super) fn prune_codes(
        &self,
        near: &[Candidate<Code>],
        count: usize,
        is_kept: impl Fn(NodeId) -> bool,
    ) -> Vec<NodeId> {
        let mut queries: Vec<Option<CodeQuery>> = near.iter().map(|_| None).collect();
        choose(near, count, is_kept, |one, other, at_least| {
            let query = queries[one].get_or_insert_with(|| self.coder.query_of(&near[one].by));
            self.factor() * query.estimate_of(&near[other].by) >= at_least
        })
    }
}

/// Those that are kept, and of the others each that is apart from those chosen before it, as long as there
/// is room. `is_apart` says of a chosen one and another one whether they are as far apart as a distance.
fn choose<V>(
    near: &[Candidate<V>],
    count: usize,
    is_kept: impl Fn(NodeId) -> bool,
    mut is_apart: impl FnMut(usize, usize, f32) -> bool,
) -> Vec<NodeId> {
    let kept = near.iter().filter(|one| is_kept(one.entry)).count();
    let mut room = count.saturating_sub(kept);
    let mut chosen: Vec<usize> = Vec::with_capacity(count);
    for (at, candidate) in near.iter().enumerate() {
        let is_kept = is_kept(candidate.entry);
        let mut others = chosen.iter();
        if is_kept || room > 0 && others.all(|other| is_apart(*other, at, candidate.distance)) {
            chosen.push(at);
            room -= usize::from(!is_kept);
        }
    }
    // What was left out is better than nothing, until that is another one's place.
    let (least, mut is_chosen) = (count * FILLED / 4, vec![false; near.len()]);
    chosen.iter().for_each(|at| is_chosen[*at] = true);
    let left = (0..near.len()).filter(|at| !is_chosen[*at]);
    let more = least.saturating_sub(chosen.len());
    chosen.extend(left.take(more));
    chosen.into_iter().map(|at| near[at].entry).collect()
}

/// The codes of entries.
struct Codes<'c> {
    core: &'c Core,
    codes: Vec<(NodeId, Code)>,
}

impl LookAtSlot for Codes<'_> {
    type Sight = Code;
    const KIND: Kind = Kind::Codes;

    fn see(&mut self, _: NodeId, slot: Slot<'_>) -> Option<Code> {
        let layout = &self.core.layout;
        (slot.state() != State::Free).then(|| Code::copy_of(slot.code(layout), slot.parts()))
    }

    fn take(&mut self, entry: NodeId, code: Code) {
        self.codes.push((entry, code));
    }
}

impl<T: Translation> VamanaIndex<T> {
    /// The codes of those of these entries that are not free, in no order.
    pub(super) fn codes(&self, entries: &[NodeId]) -> Result<Vec<(NodeId, Code)>, PoolError> {
        let mut look = Codes { core: &self.core, codes: Vec::with_capacity(entries.len()) };
        self.space.interleave(AccessHint::Normal, |way| {
            let mut look = AtSlot(&self.core.layout, &mut look);
            Reads::new(&self.space, way).each(entries, &mut look)
        })?;
        Ok(look.codes)
    }
}
