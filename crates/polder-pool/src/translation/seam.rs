//! What the pool asks of a translation, a way from a link to a frame.
//!
//! A translation owns the map and the memory of the state words. It resolves a link *in its place*
//! (a page and the offset in it), not a page id by value, so that a translation may write into
//! links. The rest of the pool knows only the state word.
//!
//! It is two traits. [`Words`] keeps the words: a table, an array, a map. [`Translation`] is the way
//! to them from a link, on the hot path, and what else is particular to a design. Several designs
//! share one kind of words and differ in how they come to them.
//!
//! Both speak of what only this crate has (state words, frames), so that a design lives in this
//! folder; `docs/adding-a-translation.md` shows how one is written. From outside a translation is
//! chosen, and its constants are read. Memory is in bytes, and is what the budget reckons with;
//! `frame` is a frame's number, `page` a page's number in its space.
//!
//! A design writes the functions that have no body. What only some need has one: the kinds of
//! memory and of reading ([`PageMemory`], [`ReadModes`]), and the *events*, which do nothing
//! unless a design says otherwise.

#![cfg(not(loom))]

use std::fmt::{self, Debug};
use std::ptr::NonNull;
use std::sync::Arc;

use polder_format::{PageId, PageNo, PageSize, SpaceId};

use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Latches, Optimistic, Resolved, StateCell, StateWord, Version};
use crate::machine::{HUGE_PAGE_BYTES, Moved, NodeId, OS_PAGE_BYTES, PageMoves};
use crate::page::{LinkRef, PageKinds, PageRef};
use crate::read_mode::ReadMode;
use crate::sync::atomic::{Ordering, fence};

/// Where the state words of pages are, and how that of a page is found off the common way.
///
/// A word is for the page that `claim` was told, from then on until `remove`. The memory of words is
/// never unmapped while the pool lives (`POOL-2`).
///
/// Two threads that must see each other across a claim (dropping a space, moving an extent: F6) use
/// SeqCst: the claim is followed by a SeqCst fence before the flags are looked at, and a thread that
/// sets a flag has one before it looks for words.
pub trait Words: Debug + Sized + Send + Sync + 'static {
    /// What the handle of an open space carries, so that no prefix needs to be looked up.
    type Directory: Debug + Send + Sync + 'static;

    /// Bytes of memory that the words take for a resident page, as the budget reckons it.
    fn bytes_per_frame() -> u64;

    /// The memory that is used now.
    fn footprint(&self) -> Footprint;

    /// A directory for a space that has none: one for each space that is open.
    fn open(&self, space: SpaceId) -> Self::Directory;

    /// The space is gone and quiet: its memory can serve others.
    fn close(&self, _directory: &Self::Directory) {}

    /// Calls `visit` for each page of the space whose word is not zero.
    fn for_each_present(&self, directory: &Self::Directory, visit: &mut dyn FnMut(PageNo));

    /// How many pages of the space are resident, in flight or about to be. SeqCst with what a claimer
    /// does first; exact while no page comes or goes.
    fn present(&self, directory: &Self::Directory) -> u64 {
        fence(Ordering::SeqCst);
        let mut present = 0;
        self.for_each_present(directory, &mut |_| present += 1);
        present
    }

    /// The state of a page that is resident, in flight or about to be; `None` if it is not. The
    /// word may be another page's, or have moved, by the time it is looked at (`TABLE-2`).
    fn state<'p>(&'p self, directory: &'p Self::Directory, page: PageNo) -> Option<&'p StateCell>;

    /// Makes room for the page's word, before it is claimed.
    ///
    /// # Errors
    /// [`PoolError::Memory`] or [`PoolError::NoAddresses`] if there is none;
    /// [`PoolError::Dropped`].
    fn make_room(&self, _directory: &Self::Directory, _page: PageNo) -> Result<(), PoolError> {
        Ok(())
    }

    /// F4 and F5: claims the page for the caller, which has this frame for it, and gives its
    /// state, in flight. `None` if it is resident or in flight already.
    ///
    /// # Errors
    /// [`PoolError::Dropped`] if the directory was closed, [`PoolError::Broken`] if a table is
    /// full.
    fn claim<'p>(
        &'p self,
        latches: &Latches,
        directory: &'p Self::Directory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError>;

    /// E7 and E8: the page in this frame, held exclusively, has no word any more. `end` makes it 0.
    fn remove(
        &self,
        latches: &Latches,
        directory: &Self::Directory,
        page: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    );

    /// The end of a claim without a page, by the thread that made it, whose state is `claim`: as
    /// `remove`, though the space may have been closed since.
    fn abandon(
        &self,
        latches: &Latches,
        directory: &Self::Directory,
        page: PageNo,
        frame: FrameId,
        (_claim, end): (&StateCell, impl FnOnce(&StateCell)),
    ) {
        self.remove(latches, directory, page, frame, end);
    }

    /// P5: the page, held exclusively, is in frame `to` from now on, which has this version, and
    /// nobody holds it. `to` is the caller's, and held no page.
    fn relocate(
        &self,
        _directory: &Self::Directory,
        _page: PageNo,
        (cell, held): (&StateCell, StateWord),
        (to, version): (FrameId, Version),
    ) {
        cell.release_moved(held, to, version);
    }
}

/// What the handle of an open space carries for a translation: [`Words::Directory`] of its words.
pub type DirectoryOf<T> = <<T as Translation>::Words as Words>::Directory;

/// A way from a link to a frame: the parameter of [`Pool`](crate::Pool) and
/// [`Space`](crate::Space). The types that implement it are in [`translation`](crate::translation).
///
/// ```
/// use polder_pool::{Array, Direct, ReadMode, Translation};
///
/// fn describe<T: Translation>() -> String {
///     let pages = if T::EVICTS { "evicts" } else { "keeps all" };
///     let copies = T::READ_MODES.why_not(ReadMode::Copy).unwrap_or("changes pages in copies");
///     format!("{}: {pages}; {copies}", T::NAME)
/// }
/// assert_eq!(describe::<Array>(), "array: evicts; changes pages in copies");
/// assert!(describe::<Direct>().starts_with("direct: keeps all; nothing is ever evicted"));
/// ```
pub trait Translation: Debug + Sized + Send + Sync + 'static {
    /// What users call it: the name in options, engines and results.
    const NAME: &'static str;
    /// Whether pages can be evicted. If not, all data fits in the budget, or an operation ends with
    /// [`PoolError::DoesNotFit`].
    const EVICTS: bool = true;
    /// Where the bytes of pages lie.
    const MEMORY: PageMemory = PageMemory::Frames;
    /// Why pages cannot lie in tiers of memory; `None` if they can.
    const WHY_NO_TIERS: Option<&'static str> = Self::MEMORY.why_no_tiers(Self::EVICTS);
    /// How readers can hold pages. Another read mode is refused when a pool is opened.
    const READ_MODES: ReadModes = ReadModes::ALL;
    /// Whether links may hold frames ([`Swip`](crate::Swip)). If so, [`Translation::target`] says to
    /// which page such a link leads.
    const SWIZZLES: bool = false;
    /// Whether a page stays in its frame while a link to it is swizzled.
    const LINKS_PIN: bool = false;
    /// Where it has the state words.
    type Words: Words;

    /// A translation for this many frames.
    ///
    /// # Errors
    /// [`PoolError::Memory`] if the kernel gives no addresses, [`PoolError::PageTooSmall`].
    fn new(config: TranslationConfig) -> Result<Self, PoolError>;

    /// How many frames there must be (addresses, not memory): those of the budget, or more.
    fn frame_range(config: TranslationConfig) -> u32 {
        config.frames
    }

    /// Bytes of memory that it takes for a resident page beside the words.
    fn bytes_per_frame_beside() -> u64 {
        0
    }

    /// Bytes of memory used now beside the words.
    fn bytes_beside(&self) -> u64 {
        0
    }

    /// The state words.
    fn words(&self) -> &Self::Words;

    /// The hot path: where a link leads. `None`, or a word of 0, if the page is not where it mostly
    /// is.
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p DirectoryOf<Self>,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>>;

    /// The page that a link in this space leads to, wherever that page is.
    #[inline(always)]
    fn target(link: LinkRef<'_>, _space: SpaceId) -> PageId {
        PageId::from_link(link.load())
    }

    /// Asks the processor for what `resolve` will read first of this link's page: its word, or what
    /// leads to that. For a caller that resolves the link a little later. It reads nothing that could
    /// make it wait. Gives where the page lies if it lies where it is expected before anything is read;
    /// what is there may be another page, or none.
    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        _frames: &'p Frames,
        _directory: &'p DirectoryOf<Self>,
        _link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        None
    }

    /// Where a page is that `resolve` did not find where it looks first, for translations that keep
    /// some elsewhere.
    fn resolve_elsewhere<'p>(
        &'p self,
        _frames: &'p Frames,
        _directory: &'p DirectoryOf<Self>,
        _page: PageNo,
    ) -> Option<Resolved<'p>> {
        None
    }

    /// Where the bytes of a page are that is in this frame.
    fn page_address(
        &self,
        frames: &Frames,
        _directory: &DirectoryOf<Self>,
        _page: PageNo,
        frame: FrameId,
    ) -> NonNull<u8> {
        frames.address(frame)
    }

    /// The frame that the page prefers, if it has one.
    fn preferred(&self, _directory: &DirectoryOf<Self>, _page: PageNo) -> Option<FrameId> {
        None
    }

    /// Where the page wants to lie; makes room for its word.
    ///
    /// # Errors
    /// As [`Words::make_room`].
    fn place(
        &self,
        _frames: &Frames,
        directory: &DirectoryOf<Self>,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        self.words().make_room(directory, page)?;
        Ok(self.preferred(directory, page).map_or(Placement::Anywhere, Placement::Prefer))
    }

    /// Event, before F10: the page that was loaded or made in this frame can be read in a moment.
    fn before_publish(&self, _frame: FrameId) {}

    /// Event, behind an access: a reader that will want the page again followed a link that does
    /// not say where its page is. `parent` is the page in which the link stands.
    fn followed_unswizzled(
        &self,
        _pool: &PoolContext<'_, Self>,
        _directory: &DirectoryOf<Self>,
        _link: LinkRef<'_>,
        _parent: Option<&Optimistic<'_>>,
    ) {
    }

    /// Event, before E3 or before a page is marked: the page in this frame is to cool, or to go. The
    /// frame of the page that can instead, if there is one. `urgent`: all else was tried.
    fn before_cooling(
        &self,
        _pool: &PoolContext<'_, Self>,
        frame: FrameId,
        _urgent: bool,
    ) -> Option<FrameId> {
        Some(frame)
    }

    /// Event, behind E5, under the exclusive latch: whether the page may leave its frame. A page
    /// that is freed leaves whatever this says.
    fn before_leaving(
        &self,
        _pool: &PoolContext<'_, Self>,
        _page: PageRef<'_>,
        _frame: FrameId,
        _why: Leaving,
    ) -> bool {
        true
    }

    /// Event, under a latch: of a page of this space the bytes from `begin` on were copied out of
    /// its frame, to be written or logged. Whether the copy may differ from the page after that.
    fn copied_out(
        _kinds: &PageKinds,
        _page: PageRef<'_>,
        _space: SpaceId,
        _begin: usize,
        _copy: &mut [u8],
    ) -> bool {
        false
    }

    /// Event, where memory is given back ([`PageMemory::gives_back`]): these pages, which are held
    /// exclusively, are about to be removed. With as few calls as their neighbourhood allows.
    fn give_back(&self, _frames: &Frames, _pages: &mut [NonNull<u8>]) {}

    /// Event, in place of T3 where pages have addresses ([`PageMemory::has_addresses`]): the memory of
    /// these pages is to go to this node. Gives what became of each.
    fn move_to_node(&self, pages: &[NonNull<u8>], _node: NodeId) -> Vec<Moved> {
        vec![Moved::There; pages.len()]
    }

    /// What contradicts itself, as sentences; none if all is well. Means something while nobody but
    /// the pool's own threads uses the pool.
    fn check(&self, _pool: &PoolContext<'_, Self>) -> Vec<String> {
        Vec::new()
    }
}

/// Where the bytes of pages lie, under a translation ([`Translation::MEMORY`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMemory {
    /// In frames, any page in any frame.
    Frames,
    /// In frames, of which the page alone decides. Then frames are addresses, more than the budget
    /// pays for, and those in use are counted.
    FramesByPage,
    /// In the translation's own memory, at the page's address.
    Addresses,
}

impl PageMemory {
    /// Whether the page alone decides on its frame.
    pub const fn has_fixed_frames(self) -> bool {
        matches!(self, PageMemory::FramesByPage)
    }

    /// Whether pages lie in frames, and not in the translation's memory.
    pub const fn is_in_frames(self) -> bool {
        !matches!(self, PageMemory::Addresses)
    }

    /// Why pages cannot lie in tiers of memory; `None` if they can.
    const fn why_no_tiers(self, evicts: bool) -> Option<&'static str> {
        match self {
            PageMemory::FramesByPage => Some("the page alone decides on its frame"),
            _ if !evicts => Some("nothing is ever evicted, so that no page makes room"),
            PageMemory::Frames | PageMemory::Addresses => None,
        }
    }

    /// Whether pages have addresses of their own, behind which the kernel puts memory.
    pub const fn has_addresses(self) -> bool {
        matches!(self, PageMemory::Addresses)
    }

    /// Whether the memory of a page that leaves goes back to the kernel: nobody else can use it.
    pub const fn gives_back(self) -> bool {
        !matches!(self, PageMemory::Frames)
    }
}

/// How readers can hold pages besides optimistically and shared: why not, where they cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadModes {
    /// Why not by slices, one for a group of cores; `None` if they can.
    pub no_slices: Option<&'static str>,
    /// Why not by slices while pages are changed in copies; `None` if they can.
    pub no_copies: Option<&'static str>,
}

impl ReadModes {
    /// Readers can hold pages in every way.
    pub const ALL: ReadModes = ReadModes { no_slices: None, no_copies: None };

    /// Readers cannot hold pages by slices, and so not by copies, for this reason.
    pub const fn no_slices(why: &'static str) -> ReadModes {
        ReadModes { no_slices: Some(why), no_copies: Some(why) }
    }

    /// Readers can hold pages by slices, but not by copies, for this reason.
    pub const fn no_copies(why: &'static str) -> ReadModes {
        ReadModes { no_slices: None, no_copies: Some(why) }
    }

    /// Why readers cannot hold pages in this way; `None` if they can.
    pub const fn why_not(self, mode: ReadMode) -> Option<&'static str> {
        match mode {
            ReadMode::Optimistic | ReadMode::Shared => None,
            ReadMode::Group | ReadMode::GroupOf(_) | ReadMode::Core => self.no_slices,
            ReadMode::Copy | ReadMode::CopyOf(_) => self.no_copies,
        }
    }
}

/// Why a page leaves its frame ([`Translation::before_leaving`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It is evicted, to make room.
    Evicted,
    /// It is freed, or its space is dropped.
    Freed,
}

/// Where a page wants to lie ([`Translation::place`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The page lies wherever there is a frame.
    Anywhere,
    /// The page lies in this frame if that is free, else anywhere.
    Prefer(FrameId),
    /// The page lies in this frame and in no other.
    Fixed(FrameId),
}

/// Memory of a translation in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of the map itself.
    pub translation_bytes: u64,
    /// Bytes of page tables that the kernel needs for the map.
    pub page_table_bytes: u64,
    /// How often the memory of a part of the map was given back to the kernel, so far.
    pub hole_punches: u64,
    /// System calls so far that gave memory of evicted pages back to the kernel.
    pub give_backs: u64,
    /// System calls so far that moved memory of pages from node to node.
    pub page_moves: u64,
    /// Bytes of pages that huge pages back, where pages lie in the translation's memory; `None`
    /// where they lie in frames.
    pub huge_page_bytes: Option<u64>,
}

impl Footprint {
    /// Of tables on huge pages, which need a page table for each of those.
    pub(crate) fn on_huge_pages(bytes: u64) -> Footprint {
        Footprint {
            translation_bytes: bytes,
            page_table_bytes: bytes.div_ceil(HUGE_PAGE_BYTES as u64) * OS_PAGE_BYTES as u64,
            ..Footprint::default()
        }
    }
}

/// What the pool tells a translation at the beginning.
#[derive(Debug, Clone, Copy)]
pub struct TranslationConfig {
    /// Frames that the budget pays for.
    pub frames: u32,
    /// Of these, those of the fastest tier, which come first: where pages prefer frames, these.
    pub first_frames: u32,
    /// Size of all pages.
    pub page_size: PageSize,
    /// The node of the fastest tier, if one was named, where pages have addresses.
    pub first_node: Option<NodeId>,
    /// How the kernel is asked to move pages from tier to tier there.
    pub page_moves: PageMoves,
}

#[cfg(test)]
impl TranslationConfig {
    /// Of a pool of one tier.
    pub(crate) fn of(frames: u32, page_size: PageSize) -> TranslationConfig {
        let (first_node, page_moves) = (None, PageMoves::default());
        TranslationConfig { frames, first_frames: frames, page_size, first_node, page_moves }
    }
}

/// The directories of the spaces that are open.
pub trait Directories<T: Translation> {
    /// The directory of a space, if that is open.
    fn directory(&self, space: SpaceId) -> Option<Arc<DirectoryOf<T>>>;
}

/// What a translation may ask of the pool around it, off the way of a resident lookup.
pub struct PoolContext<'p, T: Translation> {
    /// The frames.
    pub(crate) frames: &'p Frames,
    /// What is known of each frame.
    pub(crate) latches: &'p Latches,
    /// What is known of each kind of page.
    pub(crate) kinds: &'p PageKinds,
    /// The spaces that are open.
    pub(crate) spaces: &'p dyn Directories<T>,
}

impl<T: Translation> fmt::Debug for PoolContext<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolContext({:?})", self.frames)
    }
}

impl<T: Translation> PoolContext<'_, T> {
    /// Calls `then` with the page in a frame held shared; tried.
    pub(crate) fn with_page_in<R>(
        &self,
        translation: &T,
        frame: FrameId,
        then: impl FnOnce(PageRef<'_>, PageId) -> R,
    ) -> Option<R> {
        let meta = self.latches.meta(frame);
        let id = meta.page();
        let directory = (!id.is_null()).then(|| self.spaces.directory(id.space())).flatten()?;
        let cell = translation.words().state(&directory, id.page())?;
        let word = cell.try_share()?;
        let here = word.frame() == frame && meta.page() == id;
        let result = here.then(|| then(self.frames.page(frame), id));
        cell.unshare();
        result
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::latch::Metas;

    /// Of a pool of so many frames, which nobody holds.
    pub(crate) fn latches(frames: u32) -> Latches {
        Latches::new(Metas::new(frames).unwrap(), ReadMode::Optimistic, None, false, None)
    }
}
