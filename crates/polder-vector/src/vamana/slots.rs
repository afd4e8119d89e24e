//! What pages of codes and pages of nodes have in common: places, all of one length.
//!
//! ```text
//!   page   | header, 32 | form 8 | width 4 | used 2 | - 2 | next 8 | before 8 | place | place | ...
//!   form   | bytes of a vector 4 | links 1 | element 1 | metric 1 | bits of a code 1 |
//!   place  | partner 5 | state 1 | - 2 | label 8 | what `entry.rs` and `node.rs` say
//! ```
//!
//! A vector has a place in a page of either kind, its *entry* and its *node*; each is the other's partner.
//! Each page tells all options of its index.
//!
//! * `VAMANA-1` Entry and node of a vector lead to each other, and have the same label and state: one edit
//!   changes both. They stay where they are as long as the vector is there.
//! * `VAMANA-2` Pages of codes and of nodes are never freed. A link may be *stale*: its entry is free, or
//!   is another vector's by now. Readers pass over what is free, and take what is there for what it is. A
//!   node that does not lead back to the entry by which it was reached is read as gone.
//! * `VAMANA-3` The page says how many of its places are in use. A page in which a place became free is in
//!   the chain of its kind, which the first page begins, once, until somebody takes it from there.
//! * `VAMANA-4` All pages of codes are a list, in the order in which they were made: the first page of the
//!   index leads to the newest one, and each to the one before it.

use polder_format::{PAGE_HEADER_BYTES, PageNo, header_at};
use polder_pool::bytes::{PageMut, PageRef};
use polder_structure::page::{ensure, page_no};

use super::layout::{Kind, Layout, PLACES};
use crate::node_id::{NodeId, State};
use crate::options::VamanaOptions;
use crate::vectors::VectorShape;

/// Fields of a page.
mod at {
    use super::PAGE_HEADER_BYTES;

    pub(super) const FORM: usize = PAGE_HEADER_BYTES;
    /// How many of the nearest an insert keeps in sight, 4 bytes.
    pub(super) const WIDTH: usize = PAGE_HEADER_BYTES + 8;
    pub(super) const USED: usize = PAGE_HEADER_BYTES + 12;
    /// The page of codes that was made before this one, 0 if there is none.
    pub(super) const BEFORE: usize = PAGE_HEADER_BYTES + 24;
    pub(super) const PLACES: usize = super::PLACES;
}

const STATE_SHIFT: u32 = 40;
const LABEL: usize = 8;

impl Layout {
    /// Where in its page a place begins.
    #[inline(always)]
    pub(super) fn place_at(&self, kind: Kind, slot: usize) -> usize {
        at::PLACES + slot * self.strides[kind as usize]
    }
}

/// A page of either kind to read. It may change meanwhile: answers count once it has been validated.
#[derive(Clone, Copy)]
pub(super) struct SlotPage<'a> {
    page: PageRef<'a>,
}

impl<'a> SlotPage<'a> {
    #[inline(always)]
    pub(super) fn new(page: PageRef<'a>) -> SlotPage<'a> {
        SlotPage { page }
    }

    /// Whether it is a page of this kind of an index with this layout.
    #[inline(always)]
    pub(super) fn is_of(self, layout: &Layout, kind: Kind) -> bool {
        self.page.u8(header_at::KIND) == kind.of_page().0 && self.page.u64(at::FORM) == layout.form
    }

    pub(super) fn used(self) -> usize {
        self.page.u16(at::USED).into()
    }

    /// The page of codes that was made before this one.
    pub(super) fn before(self) -> Option<PageNo> {
        page_no(self.page, at::BEFORE)
    }

    /// A place, if there is such a one.
    #[inline(always)]
    pub(super) fn slot(self, layout: &Layout, kind: Kind, slot: usize) -> Option<Slot<'a>> {
        (slot < layout.slots(kind)).then(|| self.expected(layout, kind, slot))
    }

    /// Where a place is expected, to ask the processor for it.
    #[inline(always)]
    pub(super) fn expected(self, layout: &Layout, kind: Kind, slot: usize) -> Slot<'a> {
        Slot { page: self.page, at: layout.place_at(kind, slot) }
    }

    /// The places that are not free, with their numbers.
    pub(super) fn taken(
        self,
        layout: &Layout,
        kind: Kind,
    ) -> impl Iterator<Item = (usize, Slot<'a>)> {
        let layout = *layout;
        let slots =
            (0..layout.slots(kind)).map(move |slot| (slot, self.expected(&layout, kind, slot)));
        slots.filter(|(_, slot)| slot.state() != State::Free)
    }

    /// The first place that is free.
    pub(super) fn free_slot(self, layout: &Layout, kind: Kind) -> Option<usize> {
        if self.used() >= layout.slots(kind) {
            return None;
        }
        self.free_slots(layout, kind).next()
    }

    /// The places that are free.
    pub(super) fn free_slots(self, layout: &Layout, kind: Kind) -> impl Iterator<Item = usize> {
        let layout = *layout;
        let is_free =
            move |slot: &usize| self.expected(&layout, kind, *slot).state() == State::Free;
        (0..layout.slots(kind)).filter(is_free)
    }

    /// What the page says of the index.
    pub(super) fn options(self) -> Result<VamanaOptions, &'static str> {
        let page = self.page;
        let [element, metric] = [at::FORM + 5, at::FORM + 6].map(|at| page.u8(at));
        Ok(VamanaOptions {
            shape: VectorShape::of_bytes_in_page(element, metric, page.u32(at::FORM))?,
            links: page.u8(at::FORM + 4).into(),
            insert_width: page.u32(at::WIDTH) as usize,
            code_bits: page.u8(at::FORM + 7).into(),
        })
    }

    /// What every page of this kind must be, whichever its index is.
    pub(super) fn verify(self, kind: Kind) -> Result<Layout, &'static str> {
        let page = self.page;
        let layout = self.options()?.layout(page.page_size());
        let layout = layout.map_err(|_| "places are of an index that there cannot be")?;
        ensure(page.u64(at::FORM) == layout.form, "places are not what their page says")?;
        let used = self.used();
        ensure(used <= layout.slots(kind), "more places are in use than there are in the page")?;
        Ok(layout)
    }
}

/// A place to read, whatever is there.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    pub(super) page: PageRef<'a>,
    pub(super) at: usize,
}

impl Slot<'_> {
    #[inline(always)]
    pub(super) fn state(self) -> State {
        State::from_byte((self.page.u64(self.at) >> STATE_SHIFT) as u8)
    }

    /// The other place of the same vector: of an entry its node, of a node its entry.
    #[inline(always)]
    pub(super) fn partner(self) -> Option<NodeId> {
        NodeId::from_bits(self.page.u64(self.at))
    }

    #[inline(always)]
    pub(super) fn label(self) -> u64 {
        self.page.u64(self.at + LABEL)
    }
}

/// A page of either kind, to be changed.
pub(super) struct SlotPageMut<'a> {
    pub(super) page: PageMut<'a>,
}

impl<'a> SlotPageMut<'a> {
    pub(super) fn new(page: PageMut<'a>) -> SlotPageMut<'a> {
        SlotPageMut { page }
    }

    /// Makes an empty page of an index into which is inserted with this width.
    pub(super) fn init(&mut self, layout: &Layout, insert_width: usize, before: Option<PageNo>) {
        self.page.set_u64(at::FORM, layout.form);
        self.page.set_u32(at::WIDTH, insert_width as u32);
        self.page.set_u64(at::BEFORE, before.map_or(0, PageNo::get));
    }

    fn view(&self) -> SlotPage<'_> {
        SlotPage::new(self.page.as_ref())
    }

    /// Where a place begins.
    pub(super) fn at(&self, layout: &Layout, kind: Kind, slot: usize) -> usize {
        self.view().expected(layout, kind, slot).at
    }

    /// Whether a place is free.
    pub(super) fn has_room(&self, layout: &Layout, kind: Kind) -> bool {
        self.view().used() < layout.slots(kind)
    }

    /// Takes a place that is free. Gives where it begins.
    pub(super) fn take(
        &mut self,
        layout: &Layout,
        kind: Kind,
        slot: usize,
        (partner, label): (NodeId, u64),
    ) -> usize {
        let at = self.at(layout, kind, slot);
        self.page.set_u64(at, partner.to_bits());
        self.set_state(layout, kind, slot, State::Live);
        self.page.set_u64(at + LABEL, label);
        let used = self.view().used() + 1;
        self.page.set_u16(at::USED, used as u16);
        at
    }

    /// Makes a place free.
    pub(super) fn remove(&mut self, layout: &Layout, kind: Kind, slot: usize) {
        self.set_state(layout, kind, slot, State::Free);
        let used = self.view().used().saturating_sub(1);
        self.page.set_u16(at::USED, used as u16);
    }

    pub(super) fn set_state(&mut self, layout: &Layout, kind: Kind, slot: usize, state: State) {
        let state = u64::from(state.to_byte());
        let at = self.at(layout, kind, slot);
        let partner = self.page.as_ref().u64(at) & ((1 << STATE_SHIFT) - 1);
        self.page.set_u64(at, partner | state << STATE_SHIFT);
    }
}
