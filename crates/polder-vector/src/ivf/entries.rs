//! Pages of entries: vectors with their labels. (Of centroids, which are vectors as well, by a kind of
//! their own.)
//!
//! ```text
//!   page   | header, 32 | list 8 | next 8 | taken 32 | form 8 | labels | scales | - | vectors |
//!   form   | bytes of a vector 4 | element 1 | metric 1 | lists, less one 2 |
//! ```
//!
//! A page has as many places as fit, 256 at most. Place `i` has the `i`th label, the `i`th scale and the
//! `i`th vector; a bit of `taken` says whether an entry is there. Labels lie together, so that a search
//! with a filter reads nothing of a vector that does not match. Vectors end where the page does, and
//! begin at lines of the processor's cache where that costs no place. Scales are there under the cosine,
//! and of centroids under the inner product, as these are compared by the cosine. An entry stays in its
//! place as long as it lives.
//!
//! The page tells the options of its index (`IVF-5`), so that it can be read without that.

use polder_format::{PAGE_HEADER_BYTES, PageKind, PageNo, PageSize, header_at};
use polder_pool::bytes::{PageMut, PageRef, Run};
use polder_structure::page::{ensure, page_no};

use super::Layouts;
use crate::error::VectorError;
use crate::node_id::MOST_SLOTS;
use crate::options::IvfOptions;
use crate::vectors::{Distances, Vector, VectorShape};

/// Fields of a page of entries.
mod at {
    use super::{MOST_SLOTS, PAGE_HEADER_BYTES};

    /// Which list it is of: the number of the first page of that list's directory.
    pub(super) const LIST: usize = PAGE_HEADER_BYTES;
    /// The next page with free places (`IVF-3`), 0 if there is none.
    pub(super) const NEXT: usize = LIST + 8;
    /// A bit for each place.
    pub(super) const TAKEN: usize = NEXT + 8;
    pub(super) const FORM: usize = TAKEN + MOST_SLOTS / 8;
    pub(super) const LABELS: usize = FORM + 8;
}

const LABEL_BYTES: usize = 8;
const SCALE_BYTES: usize = 4;

/// What a page tells of the options, in one word.
fn form_of(options: &IvfOptions) -> u64 {
    let IvfOptions { shape, lists } = options;
    shape.bytes() as u64
        | u64::from(shape.element.to_byte()) << 32
        | u64::from(shape.metric.to_byte()) << 40
        | (*lists as u64 - 1) << 48
}

/// Where in pages of entries everything lies, and how far entries are from a vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) kind: PageKind,
    form: u64,
    page: usize,
    vector: usize,
    is_scaled: bool,
    /// From one vector to the next, in bytes.
    stride: usize,
    slots: usize,
    scales: usize,
    vectors: usize,
    pub(super) distances: Distances,
}

impl Layout {
    /// Of pages of this kind of an index with such options, which are allowed. `shape`: that of the entries.
    ///
    /// # Errors
    /// [`VectorError::EntryTooLong`].
    pub(super) fn new(
        size: PageSize,
        kind: PageKind,
        options: &IvfOptions,
        shape: VectorShape,
    ) -> Result<Layout, VectorError> {
        let (form, distances) = (form_of(options), Distances::new(shape));
        let (vector, is_scaled) = (shape.bytes(), distances.are_scaled());
        let Places { stride, slots } = Places::of(size.bytes(), vector, is_scaled);
        if slots == 0 {
            let (bytes, room) = (entry_bytes(stride, is_scaled), size.bytes() - at::LABELS);
            return Err(VectorError::EntryTooLong { bytes, room });
        }
        let scales = at::LABELS + LABEL_BYTES * slots;
        let (page, vectors) = (size.bytes(), size.bytes() - stride * slots);
        Ok(Layout {
            kind,
            form,
            page,
            vector,
            is_scaled,
            stride,
            slots,
            scales,
            vectors,
            distances,
        })
    }

    /// How many places a page has.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }
}

fn entry_bytes(stride: usize, is_scaled: bool) -> usize {
    LABEL_BYTES + if is_scaled { SCALE_BYTES } else { 0 } + stride
}

/// How many places a page of entries has, and how far apart their vectors are.
struct Places {
    stride: usize,
    slots: usize,
}

impl Places {
    fn of(page: usize, vector: usize, is_scaled: bool) -> Places {
        let slots = |stride| {
            (page - at::LABELS)
                .checked_div(entry_bytes(stride, is_scaled))
                .map_or(0, |slots| slots.min(MOST_SLOTS))
        };
        let (dense, aligned) = (vector.next_multiple_of(8), vector.next_multiple_of(64));
        let stride = if slots(aligned) == slots(dense) { aligned } else { dense };
        Places { stride, slots: slots(stride) }
    }
}

/// A page of entries to read. It may change meanwhile: answers count once it has been validated.
#[derive(Clone, Copy)]
pub(super) struct EntriesPage<'a> {
    page: PageRef<'a>,
}

impl<'a> EntriesPage<'a> {
    #[inline(always)]
    pub(super) fn new(page: PageRef<'a>) -> EntriesPage<'a> {
        EntriesPage { page }
    }

    /// Whether it is a page of entries with this layout.
    #[inline(always)]
    pub(super) fn is_of(self, layout: &Layout) -> bool {
        self.page.u8(header_at::KIND) == layout.kind.0 && self.page.u64(at::FORM) == layout.form
    }

    /// What the page says of its index, if it is of entries.
    pub(super) fn options(self) -> Result<IvfOptions, &'static str> {
        let form = self.page.u64(at::FORM);
        let [element, metric] = [form >> 32, form >> 40].map(|byte| byte as u8);
        let shape = VectorShape::of_bytes_in_page(element, metric, form as u32)?;
        Ok(IvfOptions { shape, lists: (form >> 48) as usize + 1 })
    }

    /// Which list it is of.
    pub(super) fn list(self) -> Option<PageNo> {
        page_no(self.page, at::LIST)
    }

    /// The next page with free places.
    pub(super) fn next(self) -> Option<PageNo> {
        page_no(self.page, at::NEXT)
    }

    /// The places that are taken, in order.
    #[inline(always)]
    pub(super) fn taken(self, layout: &Layout) -> impl Iterator<Item = usize> + use<'a> {
        let (page, slots) = (self.page, layout.slots);
        (0..slots.div_ceil(64)).flat_map(move |word| {
            let bits = page.u64(at::TAKEN + 8 * word) & mask(slots - 64 * word);
            Ones(bits).map(move |bit| 64 * word + bit)
        })
    }

    pub(super) fn is_taken(self, slot: usize) -> bool {
        let bits = self.page.u64(at::TAKEN + slot / 64 % (MOST_SLOTS / 64) * 8);
        bits >> (slot % 64) & 1 == 1
    }

    /// The first place that is free.
    pub(super) fn free_slot(self, layout: &Layout) -> Option<usize> {
        (0..layout.slots).find(|slot| !self.is_taken(*slot))
    }

    pub(super) fn used(self, layout: &Layout) -> usize {
        self.taken(layout).count()
    }

    #[inline(always)]
    pub(super) fn label(self, slot: usize) -> u64 {
        self.page.u64(at::LABELS + LABEL_BYTES * slot)
    }

    /// How far the vector in a place is from another one.
    #[inline(always)]
    pub(super) fn distance(self, layout: &Layout, from: &Vector, slot: usize) -> f32 {
        layout.distances.between(from, self.vector(layout, slot), || self.scale(layout, slot))
    }

    #[inline(always)]
    fn vector(self, layout: &Layout, slot: usize) -> Run<'a> {
        self.page.run(layout.vectors + layout.stride * slot, layout.vector)
    }

    fn scale(self, layout: &Layout, slot: usize) -> f32 {
        match layout.is_scaled {
            true => f32::from_bits(self.page.u32(layout.scales + SCALE_BYTES * slot)),
            false => 1.0,
        }
    }

    /// A copy of the vector in a place.
    pub(super) fn copy(self, layout: &Layout, slot: usize) -> Vector {
        Vector::copy_of(self.vector(layout, slot), self.scale(layout, slot))
    }

    /// Asks the processor for what is read first of the page: its fields, and the first vectors.
    #[inline(always)]
    pub(super) fn prefetch(self, layout: &Layout) {
        self.page.run(at::LIST, at::LABELS - at::LIST).prefetch();
        self.page.run(layout.vectors, layout.vector.max(FIRST_BYTES)).prefetch();
    }

    /// What every page of entries must be, whichever its index is. Gives its layout.
    pub(super) fn verify(self) -> Result<Layout, &'static str> {
        let layouts = Layouts::new(&self.options()?, self.page.page_size());
        let layouts = layouts.map_err(|_| "entries are of an index that there cannot be")?;
        let of_kind = [layouts.vectors, layouts.centroids];
        let layout = of_kind.into_iter().find(|layout| self.is_of(layout));
        let layout = layout.ok_or("this is no page of entries")?;
        ensure(self.list().is_some(), "entries are of no list")?;
        let is_free = |slot: usize| !self.is_taken(slot);
        ensure((layout.slots..MOST_SLOTS).all(is_free), "an entry is in no place")?;
        Ok(layout)
    }
}

/// Bytes of vectors that are asked for ahead: for what follows them the processor asks by itself.
const FIRST_BYTES: usize = 512;

/// The lowest bits, so many.
fn mask(bits: usize) -> u64 {
    if bits < 64 { (1 << bits) - 1 } else { u64::MAX }
}

/// The numbers of the bits that are set.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

/// A page of entries, to be changed.
pub(super) struct EntriesPageMut<'a> {
    page: PageMut<'a>,
}

impl<'a> EntriesPageMut<'a> {
    pub(super) fn new(page: PageMut<'a>) -> EntriesPageMut<'a> {
        EntriesPageMut { page }
    }

    /// Makes an empty page of a list.
    pub(super) fn init(&mut self, layout: &Layout, list: PageNo) {
        debug_assert!(self.page.size() == layout.page, "a layout is for one size of pages");
        self.page.set_u64(at::LIST, list.get());
        self.page.set_u64(at::FORM, layout.form);
    }

    pub(super) fn set_next(&mut self, next: Option<PageNo>) {
        self.page.set_u64(at::NEXT, next.map_or(0, PageNo::get));
    }

    /// Puts an entry into a place that is free.
    pub(super) fn insert(&mut self, layout: &Layout, slot: usize, label: u64, vector: &Vector) {
        self.page.set_u64(at::LABELS + LABEL_BYTES * slot, label);
        if layout.is_scaled {
            self.page.set_u32(layout.scales + SCALE_BYTES * slot, vector.scale.to_bits());
        }
        self.page.write(layout.vectors + layout.stride * slot, &vector.to_bytes());
        self.set_taken(slot, true);
    }

    /// Makes a place free.
    pub(super) fn remove(&mut self, slot: usize) {
        self.set_taken(slot, false);
    }

    fn set_taken(&mut self, slot: usize, taken: bool) {
        let at = at::TAKEN + slot / 64 % (MOST_SLOTS / 64) * 8;
        let bit = 1 << (slot % 64);
        let bits = self.page.u64(at);
        self.page.set_u64(at, if taken { bits | bit } else { bits & !bit });
    }
}
