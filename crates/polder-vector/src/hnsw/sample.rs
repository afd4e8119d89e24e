//! A sample of an index's vectors: how many there are, about, some of their labels, and of what they are linked to.

use std::array;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use polder_format::PageNo;
use polder_pool::{AccessHint, PoolError, Translation, lock};

use super::HnswIndex;
use super::node::NodeRef;
use crate::node_id::{NodeId, State};
use crate::pages::for_each_of;
use crate::random::{Numbers, mix};

/// Vectors in a sample, about.
const SAMPLE: usize = 4096;
/// Pages of which they are, at most: what lies in one page was often inserted together. Of so many vectors some
/// links are in the sample.
const PAGES: usize = 2048;
/// Links of such a vector.
const LINKS: usize = 2;
/// Of few vectors one in so many is in the sample, so that it costs little beside all to ask for these.
const OF_FEW: usize = 4;
/// A sample is drawn anew when one vector in so many was inserted or removed since.
const RENEWED_AFTER: f64 = 8.0;

/// Vectors of an index, by chance and in no order, but that those of which links are there come first.
pub(crate) struct Sample {
    pub(super) drawn: Vec<Drawn>,
    /// How many vectors the index has, about.
    pub(super) vectors: f64,
}

/// A vector of the sample.
pub(super) struct Drawn {
    pub(super) node: NodeId,
    pub(super) label: u64,
    /// Labels of vectors to which it is linked.
    pub(super) linked: [Option<u64>; LINKS],
}

/// The sample that is used at the moment.
pub(crate) struct Kept {
    sample: Arc<Sample>,
    /// What [`Core::changes`](super::Core::changes) was when it was drawn.
    changes: u64,
}

impl<T: Translation> HnswIndex<T> {
    /// The sample that is used at the moment, or a new one.
    pub(super) fn sample(&self) -> Result<Arc<Sample>, PoolError> {
        let changes = self.core.changes.load(Relaxed);
        if let Some(kept) = &mut *lock(&self.core.sample) {
            let changed = changes.saturating_sub(kept.changes) as f64;
            if changed * RENEWED_AFTER <= kept.sample.vectors {
                return Ok(Arc::clone(&kept.sample));
            }
            // Others go on with this one meanwhile.
            kept.changes = changes;
        }
        let sample = Arc::new(self.draw_sample()?);
        *lock(&self.core.sample) = Some(Kept { sample: Arc::clone(&sample), changes });
        Ok(sample)
    }

    fn draw_sample(&self) -> Result<Sample, PoolError> {
        let (space, layout) = (&self.space, &self.core.layout);
        let pages = space.used_pages()?;
        let count = pages.len().min(PAGES);
        let drawn: Vec<PageNo> = (0..count).map(|i| pages[i * pages.len() / count]).collect();
        let [of_a_page, linked] = [SAMPLE, PAGES].map(|all| all.div_ceil(count.max(1)));
        let (mut random, mut there, mut vectors) = (Numbers::default(), Vec::new(), 0);
        let (mut first, mut rest, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for_each_of(space, &drawn, |page| {
            let ask = |node: NodeRef<'_>| {
                node.prefetch_label(layout);
                node.prefetch_links(layout, 0);
            };
            self.live_nodes(page, &mut there, ask, |id, node| {
                let count = node.each_link(layout, 0).count().max(1) as u64;
                let place = |i| (mix(id.to_bits() + i) % count) as usize;
                let link = |i| node.each_link(layout, 0).nth(place(i as u64));
                Some((id, node.label(), array::from_fn::<_, LINKS, _>(link)))
            })?;
            vectors += there.len();
            random.shuffle(&mut there);
            for (i, (node, label, to)) in there.drain(..).take(of_a_page).enumerate() {
                let one = Drawn { node, label, linked: [None; LINKS] };
                if i >= linked {
                    rest.push(one);
                    continue;
                }
                let to = to.into_iter().enumerate().filter_map(|(place, to)| Some((to?, place)));
                links.extend(to.map(|(to, place)| (to, first.len(), place)));
                first.push(one);
            }
            Ok(true)
        })?;
        links.sort_unstable();
        let drawn: Vec<PageNo> = links.iter().map(|(to, ..)| to.page()).collect();
        let mut next = links.iter();
        for_each_of(space, &drawn, |_| {
            if let Some((to, one, place)) = next.next() {
                let label = self.read_node_for(AccessHint::Scan, *to, |_, found| {
                    (found.state() == State::Live).then(|| found.label())
                })?;
                first[*one].linked[*place] = label.flatten();
            }
            Ok(true)
        })?;
        random.shuffle(&mut first);
        random.shuffle(&mut rest);
        first.append(&mut rest);
        first.truncate(vectors.div_ceil(OF_FEW));
        let vectors = vectors as f64 * pages.len() as f64 / count.max(1) as f64;
        Ok(Sample { drawn: first, vectors })
    }
}
