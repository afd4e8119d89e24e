//! Linking all vectors by parts, each of which is held in memory (section 4.3 of the paper).
//!
//! ```text
//! 1  some vectors are drawn, and centroids are found by k-means: each is a part
//! 2  all pages of nodes are read: those of a part have a vector for which its centroid is one of the
//!    nearest few
//! 3  for each part, its vectors are read, and a graph of them is made in memory (`part.rs`)
//! 4  edits of a few lists each: a list leads to what it has led to, and to what the vector leads to in the
//!    part. Of a list that is too long for that what is too much is pruned by codes, as an insert does, and
//!    its children stay
//! 5  one edit: so many parts are linked (VAMANA-9), or all are (VAMANA-8)
//! ```
//!
//! Where all vectors are in memory at once they are one part, and are linked twice. Where those of a part are
//! too many they are several, as they lie in the file.
//!
//! It may end anywhere: each edit of step 4 leaves lists that lead to more of what is near than before. The next
//! one draws the same vectors, if none of these has changed and it has as much memory, and finds the same
//! centroids. If there are as many vectors as there were, it goes on behind the parts that are linked; otherwise
//! it begins with the first part. It may also be made of an index that
//! is years old: stale links go from lists that are pruned. Others may change the index meanwhile. A list
//! that has changed since it was read is read again; a vector that has left is passed over, and links to it
//! are stale as others are (`VAMANA-2`); one that has come was linked by who inserted it, and is counted
//! by `VAMANA-8` if that was a load.

use polder_format::PageNo;
use polder_pool::Translation;
use polder_structure::edit;
use polder_structure::levels::root;

use super::layout::Kind;
use super::link::{AT_ONCE, Wish};
use super::meta::{self, Linked};
use super::part::{Member, Part, Scratch};
use super::slots::Slot;
use super::{Core, VamanaIndex};
use crate::error::VectorError;
use crate::index::{Bulk, Change, Loading, made};
use crate::ivf::train::{Drawn, distances_of_centroids};
use crate::near::order_of;
use crate::node_id::NodeId;
use crate::pages::for_each_of;
use crate::random::mix;
use crate::share::share;
use crate::vectors::{Distances, Vector};

/// Parts of a vector. With two, as in the paper, and with memory for a tenth of the vectors, too many near
/// ones have no part in common for searches to find as many of the nearest as after inserts.
const COPIES: usize = 4;
/// By how much of their average parts are made smaller, so that most that are larger fit in memory: a half.
const UNEVEN: usize = 2;
/// Vectors of a part, at least.
const LEAST: usize = 256;
/// Vectors that are drawn for each part, and those that there must be at least.
const DRAWN: usize = 64;
const FEW_DRAWN: usize = 4;

/// Which vectors are of which part.
struct Parts {
    distances: Distances,
    centroids: Vec<Vector>,
}

impl Parts {
    /// Those of a vector: numbers of centroids, and others where there are too few. Without any all are of
    /// one part.
    fn of(&self, core: &Core, slot: Slot<'_>) -> [usize; COPIES] {
        let mut nearest = [(u32::MAX, usize::MAX); COPIES];
        if self.centroids.is_empty() {
            nearest[0].1 = 0;
        }
        let vector = slot.vector(&core.layout);
        for (number, centroid) in self.centroids.iter().enumerate() {
            let distance = self.distances.between(centroid, vector, || slot.scale());
            let one = (order_of(distance), number);
            if one < nearest[COPIES - 1] {
                nearest[COPIES - 1] = one;
                nearest.sort_unstable();
            }
        }
        nearest.map(|(_, number)| number)
    }

    /// A number of its own of linking by these, when so many groups had been placed, and all parts together
    /// have so many vectors (`VAMANA-9`).
    fn number(&self, groups: u32, vectors: usize) -> u32 {
        let counts = mix(mix(groups.into()) ^ vectors as u64);
        let bytes = self.centroids.iter().flat_map(Vector::to_bytes);
        let number = bytes.fold(counts, |number, byte| mix(number ^ u64::from(byte)));
        (number as u32).max(1)
    }
}

/// What is known of a part.
#[derive(Default)]
struct OfPart {
    /// How many vectors it has, and the pages in which they are.
    vectors: usize,
    pages: Vec<PageNo>,
}

impl OfPart {
    /// It has one more, in this page.
    fn add(&mut self, page: PageNo) {
        self.vectors += 1;
        if self.pages.last() != Some(&page) {
            self.pages.push(page);
        }
    }
}

/// How the work is done, and how much of it is.
struct Work<'t> {
    threads: usize,
    /// Vectors that are held in memory at once.
    most: usize,
    /// How often a vector is linked in a part.
    rounds: usize,
    done: usize,
    all: usize,
    change: Change<'t>,
    progress: &'t mut dyn FnMut(Loading<'_>) -> bool,
}

impl Work<'_> {
    /// Tells how much is done, with so many more of a part. Whether to go on.
    fn tell(&mut self, more: usize) -> bool {
        // Others may have inserted some more.
        let done = (self.done + more).min(self.all);
        (self.progress)(Loading::Linked(done as f64 / self.all.max(1) as f64))
    }
}

impl<T: Translation> VamanaIndex<T> {
    /// Finds links for all vectors anew, beside those that they have, by so many threads, with about so many
    /// bytes of memory beside the pool's; and at least with memory for some hundred vectors, for the numbers of
    /// all pages and for those of each part, which are 64 bytes for a vector at most. It completes a load that
    /// was cut off ([`VamanaIndex::bulk_load`]), and refreshes a graph that was changed much. Whether it came
    /// to its end.
    ///
    /// `progress` is told which share is done, from 0 to 1, and stops it by returning false. The index is as
    /// sound then as before, and what was linked stays so: with as much memory, and if no vectors have come or
    /// gone meanwhile, the next call goes on behind the parts that are linked, also after a crash. Others may
    /// change and search the index meanwhile.
    ///
    /// # Errors
    /// Those of loading and logging pages.
    pub fn relink_all(
        &self,
        threads: usize,
        memory_bytes: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<bool, VectorError> {
        let progress: &mut dyn FnMut(Loading<'_>) -> bool = &mut |loading| match loading {
            Loading::Linked(share) => progress(share),
            Loading::Placed(_) => true,
        };
        self.relink_in(&mut Bulk { threads, memory_bytes, change: &|make| make(), progress })
    }

    /// The same, each edit within what the caller says.
    pub(super) fn relink_in(&self, bulk: &mut Bulk<'_>) -> Result<bool, VectorError> {
        match self.relink_parts(bulk) {
            Err(VectorError::Stopped) => Ok(false),
            relinked => relinked,
        }
    }

    fn relink_parts(&self, bulk: &mut Bulk<'_>) -> Result<bool, VectorError> {
        let Bulk { threads, memory_bytes, change, .. } = *bulk;
        let progress = &mut *bulk.progress;
        let most = (memory_bytes / self.core.bytes_of_member()).max(LEAST);
        let groups = self.groups()?;
        let pages = self.space.used_pages()?;
        // 1
        let Some(parts) = self.divide(&pages, most, progress)? else { return Ok(false) };
        // 2
        let mut of_parts: Vec<OfPart> = Vec::new();
        of_parts.resize_with(parts.centroids.len().max(1), OfPart::default);
        let (mut found, mut is_stopped) = (Vec::new(), false);
        for_each_of(&self.space, &pages, |page| {
            self.live(Kind::Nodes, page, &mut found, |_, slot| Some(parts.of(&self.core, slot)))?;
            for part in found.drain(..).flatten() {
                of_parts.get_mut(part).into_iter().for_each(|part| part.add(page));
            }
            is_stopped = !progress(Loading::Linked(0.0));
            Ok(!is_stopped)
        })?;
        if is_stopped {
            return Ok(false);
        }
        drop(pages);
        let all = of_parts.iter().map(|part| part.vectors).sum();
        // The paper's graphs are made in two rounds. What a part lacks after one others have.
        let count = of_parts.len();
        let rounds = if count > 1 { 1 } else { 2 };
        let mut work = Work { threads, most, rounds, done: 0, all, change, progress };
        // VAMANA-9
        let (dimensions, of) = (self.core.options.shape.dimensions, parts.number(groups, all));
        let linked = self.read_meta(|page| meta::linked(page, dimensions))?;
        let done = if linked.of == of { linked.parts } else { 0 };
        for (part, of_part) in (0_u32..).zip(of_parts) {
            if part < done {
                work.done += of_part.vectors;
                continue;
            }
            if !self.link_part(&parts, part as usize, &of_part, &mut work)? {
                return Ok(false);
            }
            // 5
            let linked = Linked { of, parts: part + 1 };
            let is_last = linked.parts as usize == count;
            made(change, || {
                edit(&self.space, |edit| {
                    let page = &mut edit.page_mut(root())?;
                    meta::set_linked(
                        page,
                        dimensions,
                        if is_last { Linked::default() } else { linked },
                    );
                    if is_last && meta::groups(page.as_ref()) == groups {
                        meta::set_groups(page, groups & !meta::LOOSE);
                    }
                    Ok(())
                })
            })?;
        }
        Ok(true)
    }

    /// Step 1.
    fn divide(
        &self,
        pages: &[PageNo],
        most: usize,
        progress: &mut dyn FnMut(Loading<'_>) -> bool,
    ) -> Result<Option<Parts>, VectorError> {
        let core = &*self.core;
        let distances = distances_of_centroids(core.options.shape);
        let vectors = core.layout.vectors_in(pages.len() as u64) as usize;
        let parts = match vectors > most {
            true => (vectors * COPIES * (UNEVEN + 1)).div_ceil(UNEVEN * most).min(most / FEW_DRAWN),
            false => 1,
        };
        // What is drawn is held in memory as well.
        let draws = (parts * DRAWN).min(most);
        let every = (vectors / draws).max(1);
        let drawn: Vec<PageNo> = pages.iter().copied().step_by(every).collect();
        let (mut sample, mut count, mut found) = (Drawn::new(draws), 0, Vec::new());
        for_each_of(&self.space, &drawn, |page| {
            self.live(Kind::Nodes, page, &mut found, |_, slot| Some(slot.copy(&core.layout)))?;
            for vector in found.drain(..) {
                // What has no direction teaches nothing.
                let vector = vector.to_buf(core.options.shape.element);
                if let Ok(vector) = distances.vector(vector.view()) {
                    sample.give(vector);
                    count += 1;
                }
            }
            Ok(true)
        })?;
        match sample.train(&distances, parts.min(count), &mut |_| progress(Loading::Linked(0.0))) {
            Ok(centroids) => Ok(Some(Parts { distances, centroids })),
            Err(VectorError::Stopped) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Step 3, and step 4 for each time that memory is full. Whether it came to its end.
    fn link_part(
        &self,
        parts: &Parts,
        part: usize,
        of_part: &OfPart,
        work: &mut Work<'_>,
    ) -> Result<bool, VectorError> {
        let core = &*self.core;
        // As even as can be.
        let times = of_part.vectors.div_ceil(work.most);
        let most = of_part.vectors.div_ceil(times.max(1));
        let mut pages = &of_part.pages[..];
        while !pages.is_empty() {
            let (mut members, mut found, mut read) = (Vec::new(), Vec::new(), 0);
            for_each_of(&self.space, pages, |page| {
                self.live(Kind::Nodes, page, &mut found, |_, slot| {
                    let is_in = parts.of(core, slot).contains(&part);
                    let entry = slot.partner().filter(|_| is_in)?;
                    Some(Member { entry, vector: slot.copy(&core.layout) })
                })?;
                members.append(&mut found);
                read += 1;
                Ok(members.len() < most)
            })?;
            pages = &pages[read..];
            if !self.link_members(&members, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Steps 3 and 4 for vectors that are in memory.
    fn link_members(&self, members: &[Member], work: &mut Work<'_>) -> Result<bool, VectorError> {
        let Work { threads, change, .. } = *work;
        let graph = Part::new(&self.core, members);
        let rounds = work.rounds;
        let insert = |scratch: &mut Scratch, place| -> Result<(), VectorError> {
            graph.insert(scratch, place);
            Ok(())
        };
        let tell = &mut |number| work.tell(number / rounds);
        if share(rounds * members.len(), threads, Scratch::new, insert, tell)?.is_none() {
            return Ok(false);
        }
        work.done += members.len();
        // 4
        let write = |(): &mut (), number: usize| {
            let some = number * AT_ONCE..members.len().min((number + 1) * AT_ONCE);
            let links: Vec<(NodeId, Vec<NodeId>)> =
                some.map(|member| (members[member].entry, graph.links(member))).collect();
            let wishes: Vec<_> =
                links.iter().map(|(entry, links)| (*entry, Wish::AddAll { links })).collect();
            made(change, || self.relink_each(&wishes))
        };
        let count = members.len().div_ceil(AT_ONCE);
        Ok(share(count, threads, || (), write, &mut |_| work.tell(0))?.is_some())
    }
}
