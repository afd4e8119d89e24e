//! How a search with a filter is done: by going through the lowest level, in one of two ways, or by comparing
//! with all that match.
//!
//! Either what does not match is gone through as well, and not found: so the search is as good as one without
//! a filter, and as long as one for as many as there are nearer than the last one that matches. Or only what
//! matches is compared and gone through, which also leads through a region in which nothing does: where a node
//! is linked to one that does not match, what that one is linked to is taken instead, until a node has as many
//! neighbours as it can have links (Patel et al., "ACORN: Performant and Predicate-Agnostic Search Over Vector
//! Embeddings and Structured Data", SIGMOD 2024, their variant for graphs that were built as without filters).
//! Where few match and what matches lies anywhere, this finds far less: what matches is hardly linked then.
//!
//! A sample says how many vectors match, about, and whether what matches lies together: whether what it is
//! linked to matches as well. So it is known how much is gone through until enough match. If that costs more
//! than comparing with all, that is done at once; if it turns out to do so, that is done then. A search begins
//! by going through everything. If what matches lies together, and so little of what is near the query matches
//! that it is less work to go through what matches alone, or if far less matches there than elsewhere, it begins
//! again, with what it has found and vectors of the sample that match, and goes by way of what matches alone.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;

use polder_pool::{PoolError, Translation};

use super::HnswIndex;
use super::look::{By, Labelled, Labels, Nearer};
use super::matching::Matching;
use super::sample::Sample;
use super::walk::{Halt, Scratch, Walk};
use crate::near::Near;
use crate::node_id::{NodeId, State};
use crate::reads::{Awaited, Reads};
use crate::search::Filter;
use crate::vectors::Vector;

/// Vectors of the sample from which a search begins, at most. Of so many that match it is known how many do.
const MOST_SEEDS: usize = 32;
/// How much longer comparing a vector takes than finding out whether it matches.
const COMPARING: f64 = 4.0;
/// What going through the links of a node and comparing those that were not seen costs, in nodes that are
/// looked at for their labels.
const STEP: f64 = 44.0;
/// By so much going through the graph must cost less than comparing with all: what matches may lie farther away
/// than a sample says, and a search that gives up costs both.
const SURELY: f64 = 1.5;
/// What it costs to compare with a vector of which it is known where it lies.
const PLACE: f64 = 6.0;
/// How much longer it takes to look at a label than at the next one in a page.
const FAR_LABEL: f64 = 2.0;
/// After so many nodes it is known whether fewer match near the query than elsewhere.
const JUDGED_FIRST: u64 = 200;
/// Fewer by this factor are far fewer.
const FAR_FEWER: f64 = 8.0;

/// What matches lies together if at least this part matches of what it is linked to, more by this factor than of
/// all, and so many were seen that it is not by chance.
const TOGETHER: f64 = 0.2;
const MORE_BESIDE: f64 = 3.0;
const LEAST_BESIDE: usize = 4;

/// What is known of a filter before a search.
#[derive(Clone)]
pub(super) struct Estimate {
    /// The search goes by way of what matches alone if near the query less than this part does.
    few: f64,
    /// Nodes that matched not long ago.
    seeds: Vec<NodeId>,
    /// What comparing with all costs, in nodes that are looked at for their labels.
    most: f64,
}

impl<T: Translation> HnswIndex<T> {
    /// What is known of a filter, for searches that keep so many in sight. `None` if to compare with all that
    /// match costs less.
    pub(super) fn estimate(
        &self,
        filter: &dyn Filter,
        width: usize,
    ) -> Result<Option<Estimate>, PoolError> {
        let width = width as f64;
        let places = filter.places().map(|places| places.as_slice().len() as f64 * PLACE);
        // A search goes through so many nodes at least.
        if places.is_some_and(|costs| costs <= width * STEP) {
            return Ok(None);
        }
        let sample = self.sample()?;
        let Asked { seeds, share, beside } = Asked::new(&sample, filter);
        let most = places.unwrap_or(sample.vectors * (1.0 + COMPARING * share));
        let through_all = STEP / share;
        let (few, costs) = match beside {
            Some(beside) => {
                let labels = self.core.layout.capacity(0) as f64 / beside;
                let through_matching = STEP + FAR_LABEL * labels;
                (STEP / through_matching, through_all.min(through_matching))
            }
            None => (share / FAR_FEWER, through_all),
        };
        // What is no number, where nothing is known, is not less.
        let is_less = (SURELY * width * costs).partial_cmp(&most) == Some(Ordering::Less);
        Ok((is_less && !seeds.is_empty()).then_some(Estimate { few, seeds, most }))
    }
}

/// What a filter says of a sample.
struct Asked {
    /// Nodes that match.
    seeds: Vec<NodeId>,
    /// The part of all vectors that matches, about; no number if that is not known.
    share: f64,
    /// Where what matches lies together: the part that matches of what it is linked to.
    beside: Option<f64>,
}

impl Asked {
    /// Asks until enough match: so the share is known as well of what matches often as of what matches seldom.
    fn new(sample: &Sample, filter: &dyn Filter) -> Asked {
        let (mut seeds, mut asked, mut linked, mut beside) = (Vec::new(), 0, 0, 0);
        for one in &sample.drawn {
            asked += 1;
            if !filter.would_match(one.label) {
                continue;
            }
            seeds.push(one.node);
            for other in one.linked.iter().flatten() {
                linked += 1;
                beside += usize::from(filter.would_match(*other));
            }
            if seeds.len() == MOST_SEEDS {
                break;
            }
        }
        let share = match filter.count() {
            Some(count) => (count as f64 / sample.vectors).min(1.0),
            None => seeds.len() as f64 / f64::from(asked),
        };
        let part = beside as f64 / linked as f64;
        let is_together = beside >= LEAST_BESIDE && part >= TOGETHER.max(MORE_BESIDE * share);
        Asked { seeds, share, beside: is_together.then_some(part) }
    }
}

/// How a search with a filter goes through the lowest level.
pub(super) struct Filtered<'f> {
    filter: &'f dyn Filter,
    estimate: Estimate,
    /// What was spent, in nodes that are looked at for their labels.
    spent: f64,
    /// How many nodes were seen that are near enough, and how many of them match.
    seen: u64,
    matched: u64,
    /// Whether it goes by way of what matches alone.
    only_matching: bool,
    /// Whether the filter is asked about what the nearest node itself leads to.
    is_direct: bool,
    at: At,
}

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The links of the nearest node are read of which they were not.
    Nearest,
    /// They have been read: what they lead to is compared, if what does not match is gone through.
    Links,
    /// Else its labels are read.
    Labels,
    /// That was done: the filter is asked.
    Seen,
    /// The filter was asked about labels: links are read of a node that does not match, or what matches is compared.
    Judged,
    /// What matches was compared.
    Compared,
    /// To compare with all costs less.
    GivenUp,
}

impl<'f> Filtered<'f> {
    pub(super) fn new(filter: &'f dyn Filter, estimate: Estimate) -> Filtered<'f> {
        let (spent, seen, matched, at) = (0.0, 0, 0, At::Nearest);
        let (only_matching, is_direct) = (false, false);
        Filtered { filter, estimate, spent, seen, matched, only_matching, is_direct, at }
    }

    /// Begins at this node; what does not match is gone through, and not found.
    pub(super) fn begin<Q: Borrow<Vector>>(
        &mut self,
        walk: &mut Walk<'_, Q>,
        start: NodeId,
        width: usize,
        keeps_all: bool,
    ) {
        walk.clear(width, 0, keeps_all);
        walk.scratch.links.push(start);
        self.at = At::Links;
    }

    /// Begins again, with what was found and what matched of the sample, and goes by way of what matches alone.
    fn begin_again<Q: Borrow<Vector>>(&mut self, walk: &mut Walk<'_, Q>) {
        let (width, keeps_all) = (walk.nearest().width(), walk.nearest().keeps_all());
        if keeps_all {
            // What is beyond the width was found as well.
            walk.nearest().widen(usize::MAX);
        }
        let mut judged = mem::take(&mut walk.scratch.matching.judged);
        judged.clone_from(&self.estimate.seeds);
        judged.extend(walk.found().map(|near| near.node));
        walk.clear(width, 0, keeps_all);
        let Scratch { visited, matching, .. } = &mut *walk.scratch;
        matching.clear();
        matching.judged = judged;
        visited.insert_all(&mut matching.judged, 0);
        (self.only_matching, self.is_direct, self.at) = (true, false, At::Labels);
    }

    /// Whether to compare with all costs less.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.at, At::GivenUp)
    }

    /// Goes on until a page is missing, the filter is to be asked, or the links of the nearest nodes have been read.
    pub(super) fn go_on<T: Translation, Q: Borrow<Vector>>(
        &mut self,
        walk: &mut Walk<'_, Q>,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<Halt, PoolError> {
        loop {
            let by = By::new(walk.core, walk.query.borrow(), 0);
            let scratch = &mut *walk.scratch;
            let awaited = match self.at {
                At::Nearest => match scratch.nearest.take_next() {
                    Some(node) => {
                        self.is_direct = true;
                        scratch.matching.clear();
                        self.read_links(scratch, reads, node, by)?
                    }
                    None => return Ok(Halt::Over),
                },
                At::Links => {
                    scratch.sift_links();
                    let Scratch { nearest, links, matching, .. } = scratch;
                    if self.only_matching {
                        self.at = At::Labels;
                        mem::swap(&mut matching.judged, links);
                        continue;
                    }
                    self.at = At::Seen;
                    let (bound, seen) = (nearest.bound(), &mut matching.seen);
                    seen.clear();
                    reads.ask(links, &mut Labelled { by, bound, seen })?
                }
                At::Labels => {
                    self.at = At::Seen;
                    let Matching { judged, labels, .. } = &mut scratch.matching;
                    labels.clear();
                    reads.ask(judged, &mut Labels { core: by.core, labels })?
                }
                At::Seen if scratch.matching.is_seen(self.only_matching) => {
                    return Ok(Halt::Judges);
                }
                At::Seen => {
                    self.judge(walk);
                    0
                }
                At::Judged => {
                    let Matching { matching, between, next, .. } = &mut scratch.matching;
                    let is_enough = matching.len() >= by.core.layout.capacity(0);
                    match between.get(*next).filter(|_| !is_enough).copied() {
                        Some(node) => {
                            *next += 1;
                            self.is_direct = false;
                            self.read_links(scratch, reads, node, by)?
                        }
                        None => {
                            self.at = At::Compared;
                            let nearest = &mut scratch.nearest;
                            let mut look = Nearer { by, nearest, without_leaving: false };
                            reads.ask(matching, &mut look)?
                        }
                    }
                }
                At::Compared => {
                    self.at = At::Nearest;
                    self.spent += STEP;
                    self.give_up_if_dear();
                    0
                }
                At::GivenUp => return Ok(Halt::Over),
            };
            if awaited > 0 {
                return Ok(Halt::Awaits(awaited));
            }
        }
    }

    fn read_links<T: Translation>(
        &mut self,
        scratch: &mut Scratch,
        reads: &mut Reads<'_, '_, T>,
        node: NodeId,
        by: By<'_>,
    ) -> Result<usize, PoolError> {
        self.at = At::Links;
        scratch.clear_links();
        match scratch.read_links(reads, node, by.core, by.level) {
            true => Ok(0),
            false => scratch.ask_for_links(reads, node, by),
        }
    }

    /// Looks at what was awaited.
    pub(super) fn look<T: Translation, Q: Borrow<Vector>>(
        &mut self,
        walk: &mut Walk<'_, Q>,
        reads: &mut Reads<'_, '_, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        let core = walk.core;
        let by = By::new(core, walk.query.borrow(), 0);
        let scratch = &mut *walk.scratch;
        if let At::Links = self.at {
            return scratch.look_at_links(reads, awaited, by, may_wait);
        }
        let Scratch { nearest, matching: Matching { seen, labels, .. }, .. } = scratch;
        match self.at {
            At::Seen if self.only_matching => {
                reads.look_at(awaited, &mut Labels { core, labels }, may_wait)
            }
            At::Seen => {
                let bound = nearest.bound();
                reads.look_at(awaited, &mut Labelled { by, bound, seen }, may_wait)
            }
            _ => {
                let mut look = Nearer { by, nearest, without_leaving: false };
                reads.look_at(awaited, &mut look, may_wait)
            }
        }
    }

    /// Asks the filter about what was seen, if there is something. Then no page may be on its way (`MANY-4`).
    pub(super) fn judge<Q: Borrow<Vector>>(&mut self, walk: &mut Walk<'_, Q>) {
        let Scratch { nearest, matching: memory, .. } = &mut *walk.scratch;
        if self.only_matching {
            self.at = At::Judged;
            self.spent += FAR_LABEL * memory.judged.len() as f64;
            for (node, label) in &memory.labels {
                match self.filter.matches(*label) {
                    true => memory.matching.push(*node),
                    false if self.is_direct => memory.between.push(*node),
                    false => {}
                }
            }
            return;
        }
        self.at = At::Nearest;
        self.spent += STEP;
        for (node, sight, label) in &memory.seen {
            // Of what has left the label may be one that nothing has.
            let is_match = sight.state == State::Live && self.filter.matches(*label);
            self.seen += 1;
            self.matched += u64::from(is_match);
            if sight.state != State::Free && sight.distance < nearest.bound() {
                nearest.insert(Near { distance: sight.distance, node: *node }, is_match);
            }
        }
        self.give_up_if_dear();
        let is_known = self.seen >= JUDGED_FIRST && !self.is_given_up();
        if is_known && self.local_share() < self.estimate.few {
            self.begin_again(walk);
        }
    }

    fn give_up_if_dear(&mut self) {
        if self.spent > self.estimate.most {
            self.at = At::GivenUp;
        }
    }

    /// The part that matches of what is near to the query.
    fn local_share(&self) -> f64 {
        (self.matched + 1) as f64 / (self.seen + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use polder_pool::AccessHint;

    use super::super::tests::index;
    use super::*;

    /// What a search for all within a distance has found beyond its width is where it begins again.
    #[test]
    fn what_was_found_is_kept() {
        let (_pool, index, _) = index(600);
        let query = index.core.distances.vector((&[0.5_f32, 0.5]).into()).unwrap();
        let start = index.entry().unwrap().unwrap().node;
        let estimate = Estimate { few: 0.0, seeds: Vec::new(), most: f64::INFINITY };
        let even = |label: u64| label.is_multiple_of(2);
        index.space.interleave(AccessHint::Normal, |way| {
            let mut reads = Reads::new(&index.space, way);
            let mut walk = Walk::new(&index.core, &query);
            let mut filtered = Filtered::new(&even, estimate);
            filtered.begin(&mut walk, start, 4, true);
            while filtered.matched < 12 {
                match filtered.go_on(&mut walk, &mut reads).unwrap() {
                    Halt::Judges => filtered.judge(&mut walk),
                    Halt::Awaits(_) => reads
                        .finish(|reads, one, wait| filtered.look(&mut walk, reads, one, wait))
                        .unwrap(),
                    Halt::Over => panic!("it is over behind {} that match", filtered.matched),
                }
            }
            filtered.begin_again(&mut walk);
            assert_eq!(walk.scratch.matching.judged.len() as u64, filtered.matched);
        });
    }

    /// A sample has labels of vectors that are there, of those that they are linked to, and of no more than a part
    /// of few.
    #[test]
    fn a_sample_is_of_what_is_there() {
        let (_pool, index, nodes) = index(600);
        let sample = index.sample().unwrap();
        assert_eq!((sample.drawn.len(), sample.vectors), (150, 600.0));
        let mut labels: Vec<u64> = sample.drawn.iter().map(|one| one.label).collect();
        for one in &sample.drawn {
            assert_eq!(one.node, nodes[one.label as usize]);
            let links = super::super::tests::links(&index, one.node, 0);
            for other in one.linked.iter().flatten() {
                assert!(links.contains(&nodes[*other as usize]), "{} to {other}", one.label);
            }
            assert!(one.linked.iter().flatten().count() > 0);
        }
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), 150);
    }

    /// The part that matches is known about as well of few as of many, and of what lies together it is known.
    #[test]
    fn what_a_filter_says_of_a_sample() {
        let (_pool, index, _) = index(4000);
        let sample = index.sample().unwrap();
        let asked = |filter: &dyn Filter| Asked::new(&sample, filter);
        for of in [1, 2, 5, 20] {
            let Asked { seeds, share, beside } = asked(&|label: u64| label.is_multiple_of(of));
            let error = share * of as f64;
            assert!((0.6..1.7).contains(&error), "{share} of one in {of}");
            assert!(beside.is_none() && seeds.len() <= MOST_SEEDS);
        }
        let of_labels = (0..200).collect::<roaring::RoaringTreemap>();
        assert_eq!(asked(&of_labels).share, 0.05);
        let none = asked(&|_: u64| false);
        assert!(none.share == 0.0 && none.beside.is_none() && none.seeds.is_empty());
        // Those in a corner of the plane.
        let corner = [0.1_f32, 0.1];
        let search = crate::Search::new(200, 0);
        let near = index.search_exact(&corner, &search).unwrap().found;
        let near: Vec<u64> = near.iter().map(|one| one.label).collect();
        let beside = asked(&|label: u64| near.contains(&label)).beside;
        assert!(beside.is_some_and(|part| part > 0.5), "{beside:?}");
    }
}
