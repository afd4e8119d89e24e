//! The first page of an index: what its vectors are, where searches begin, and the centre.
//!
//! ```text
//!   header, 32 | element 1 | metric 1 | links 1 | bits 1 | dimensions 4 | width 4 | groups 4 | entry 8
//!              | distance 4 | scale 4 | chains 8 each | newest 8 | pages of codes 8 | seeds 4 each
//!              | centre, 1 each | linking 4, parts 4 |
//! ```
//!
//! A number of the centre is a byte times the scale. Which point the centre is matters to how exact codes
//! are, and not much; so it may be rounded.
//!
//! Seeds are pages of codes, drawn as from a reservoir: each is as likely to be among them as any other.
//! A search looks at their entries first, which shows it in which direction to go, as the upper levels of
//! HNSW do.
//!
//! * `VAMANA-7` The entry is a vector's, live or leaving, and none while the index is empty. It is the
//!   root of the tree (`VAMANA-5`), and lies near to the centre: an insert of one that is nearer makes that
//!   the root.
//! * `VAMANA-8` The groups of vectors that loads have placed are counted, for ever, and a bit beside the count
//!   says that some may not be linked. The edit that places a group counts it and sets the bit. Relinking all
//!   that there are clears it, if the count is what it was before the first of them was read. (Each group has
//!   made pages, which are never freed, so that the count does not come round.)
//! * `VAMANA-9` Of a linking that was cut off the page says which one it was, and how many of its parts are linked.
//!   The edit that says so comes behind those of the part. Which one it was is a hash of the centroids between
//!   which the vectors were divided, of how many there were, and of the count of groups. A later one with the
//!   same hash divides them in the same way, and begins behind these parts.

use std::ops::Range;

use polder_format::{PAGE_HEADER_BYTES, PageNo};
use polder_pool::bytes::{PageMut, PageRef};
use polder_structure::page::{ensure, page_no};

use super::layout::{CENTRE, Kind, linking_at, meta_bytes};
use crate::node_id::NodeId;
use crate::options::VamanaOptions;
use crate::random::mix;
use crate::room::Chain;
use crate::vectors::VectorShape;

/// Fields of the page.
mod at {
    use super::PAGE_HEADER_BYTES;

    pub(super) const ELEMENT: usize = PAGE_HEADER_BYTES;
    pub(super) const METRIC: usize = PAGE_HEADER_BYTES + 1;
    pub(super) const LINKS: usize = PAGE_HEADER_BYTES + 2;
    pub(super) const BITS: usize = PAGE_HEADER_BYTES + 3;
    pub(super) const DIMENSIONS: usize = PAGE_HEADER_BYTES + 4;
    pub(super) const WIDTH: usize = PAGE_HEADER_BYTES + 8;
    /// How many groups of vectors were placed, times two; and one if some may not be linked (`VAMANA-8`).
    pub(super) const GROUPS: usize = PAGE_HEADER_BYTES + 12;
    pub(super) const ENTRY: usize = PAGE_HEADER_BYTES + 16;
    /// How far the entry is from the centre.
    pub(super) const DISTANCE: usize = PAGE_HEADER_BYTES + 24;
    pub(super) const SCALE: usize = PAGE_HEADER_BYTES + 28;
    /// For each kind the number of the first page with free places (`VAMANA-3`), 0 if there is none.
    pub(super) const CHAINS: usize = PAGE_HEADER_BYTES + 32;
    /// The page of codes that was made last (`VAMANA-4`), 0 if there is none.
    pub(super) const NEWEST: usize = PAGE_HEADER_BYTES + 48;
    /// How many pages of codes there are.
    pub(super) const COUNT: usize = PAGE_HEADER_BYTES + 56;
    /// Numbers of pages of codes, 0 where there are fewer.
    pub(super) const SEEDS: usize = PAGE_HEADER_BYTES + 64;
    pub(super) const CENTRE: usize = super::CENTRE;
    const _: () = assert!(CENTRE == SEEDS + 4 * super::MOST_SEEDS);
}

/// Pages whose entries a search looks at first, at most.
const MOST_SEEDS: usize = 16;

/// Where searches begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) id: NodeId,
    /// How far it is from the centre.
    pub(super) distance: f32,
}

/// The point from which on vectors are coded, as it lies in the page.
#[derive(Debug, Clone)]
pub(super) struct Centre {
    scale: f32,
    numbers: Vec<i8>,
}

impl Centre {
    /// Near to the mean of some vectors.
    pub(super) fn rounded(mean: &[f32]) -> Centre {
        let greatest = mean.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let scale = greatest / f32::from(i8::MAX);
        let number = |number: &f32| if scale > 0.0 { (number / scale).round() as i8 } else { 0 };
        Centre { scale, numbers: mean.iter().map(number).collect() }
    }

    /// Its numbers.
    pub(super) fn values(&self) -> Vec<f32> {
        self.numbers.iter().map(|number| f32::from(*number) * self.scale).collect()
    }
}

/// What the page says of the index.
pub(super) fn options(page: PageRef<'_>) -> Result<VamanaOptions, &'static str> {
    let [element, metric] = [at::ELEMENT, at::METRIC].map(|at| page.u8(at));
    let options = VamanaOptions {
        shape: VectorShape::in_page(element, metric, page.u32(at::DIMENSIONS))?,
        links: page.u8(at::LINKS).into(),
        insert_width: page.u32(at::WIDTH) as usize,
        code_bits: page.u8(at::BITS).into(),
    };
    ensure(options.layout(page.page_size()).is_ok(), "the options of an index are not allowed")?;
    let scale = f32::from_bits(page.u32(at::SCALE));
    let reach = scale * f32::from(i8::MAX);
    ensure(reach.is_finite(), "the centre of an index is no point")?;
    let distance = f32::from_bits(page.u32(at::DISTANCE));
    ensure(distance.is_finite() && distance >= 0.0, "the root of an index has no distance")?;
    Ok(options)
}

/// The centre of an index whose options are allowed.
pub(super) fn centre(page: PageRef<'_>, dimensions: usize) -> Centre {
    let numbers = (0..dimensions).map(|i| page.u8(at::CENTRE + i) as i8).collect();
    Centre { scale: f32::from_bits(page.u32(at::SCALE)), numbers }
}

/// Where searches begin. Means something only once the page has validated.
pub(super) fn entry(page: PageRef<'_>) -> Option<Entry> {
    let distance = f32::from_bits(page.u32(at::DISTANCE));
    NodeId::from_bits(page.u64(at::ENTRY)).map(|id| Entry { id, distance })
}

pub(super) fn set_entry(page: &mut PageMut<'_>, entry: Option<Entry>) {
    page.set_u64(at::ENTRY, entry.map_or(0, |entry| entry.id.to_bits()));
    page.set_u32(at::DISTANCE, entry.map_or(0.0, |entry| entry.distance).to_bits());
}

/// In the count of groups: some may not be linked.
pub(super) const LOOSE: u32 = 1;

/// The count of groups that were placed, as it lies in the page.
pub(super) fn groups(page: PageRef<'_>) -> u32 {
    page.u32(at::GROUPS)
}

pub(super) fn set_groups(page: &mut PageMut<'_>, groups: u32) {
    page.set_u32(at::GROUPS, groups);
}

/// One more group is placed.
pub(super) fn add_group(page: &mut PageMut<'_>) {
    let groups = page.as_ref().u32(at::GROUPS) | LOOSE;
    page.set_u32(at::GROUPS, groups.saturating_add(2));
}

/// How far a linking has come (`VAMANA-9`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Linked {
    /// Which one: 0 is none.
    pub(super) of: u32,
    pub(super) parts: u32,
}

pub(super) fn linked(page: PageRef<'_>, dimensions: usize) -> Linked {
    let at = linking_at(dimensions);
    Linked { of: page.u32(at), parts: page.u32(at + 4) }
}

pub(super) fn set_linked(page: &mut PageMut<'_>, dimensions: usize, linked: Linked) {
    let at = linking_at(dimensions);
    page.set_u32(at, linked.of);
    page.set_u32(at + 4, linked.parts);
}

/// The chain of a kind.
pub(super) fn chain(kind: Kind) -> Chain {
    Chain { first_at: at::CHAINS + 8 * kind as usize }
}

/// The page of codes that was made last.
pub(super) fn newest(page: PageRef<'_>) -> Option<PageNo> {
    page_no(page, at::NEWEST)
}

/// Pages whose entries a search looks at first.
pub(super) fn seeds(page: PageRef<'_>) -> impl Iterator<Item = PageNo> {
    let seed = move |i| PageNo::new(page.u32(at::SEEDS + 4 * i).into());
    (0..MOST_SEEDS).filter_map(seed).filter(|page| page.get() > 0)
}

/// How many pages of codes there are.
pub(super) fn code_pages(page: PageRef<'_>) -> u64 {
    page.u64(at::COUNT)
}

/// There is another page of codes.
pub(super) fn add_page(page: &mut PageMut<'_>, newest: PageNo) {
    let count = page.as_ref().u64(at::COUNT);
    page.set_u64(at::NEWEST, newest.get());
    page.set_u64(at::COUNT, count.saturating_add(1));
    let drawn = if count < MOST_SEEDS as u64 { count } else { mix(count) % count };
    if drawn < MOST_SEEDS as u64 {
        // A page that can be named has 31 bits.
        page.set_u32(at::SEEDS + 4 * drawn as usize, newest.get() as u32);
    }
}

/// Makes the page of an empty index.
pub(super) fn init(page: &mut PageMut<'_>, options: &VamanaOptions, centre: &Centre) {
    let VamanaOptions { shape, links, insert_width, code_bits } = *options;
    page.set_u8(at::ELEMENT, shape.element.to_byte());
    page.set_u8(at::METRIC, shape.metric.to_byte());
    page.set_u8(at::LINKS, links as u8);
    page.set_u8(at::BITS, code_bits as u8);
    page.set_u32(at::DIMENSIONS, shape.dimensions as u32);
    page.set_u32(at::WIDTH, insert_width as u32);
    page.set_u32(at::SCALE, centre.scale.to_bits());
    let bytes: Vec<u8> = centre.numbers.iter().map(|number| *number as u8).collect();
    page.write(at::CENTRE, &bytes);
}

/// What is behind the fields: nothing.
pub(super) fn hole(page: PageRef<'_>, dimensions: usize) -> Range<usize> {
    meta_bytes(dimensions)..page.size()
}
