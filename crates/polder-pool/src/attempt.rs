//! One operation on a structure, tried until it goes through.
//!
//! An operation reads pages optimistically and gives up with [`Restart`] when one of them changed,
//! or is not resident. What happens then is decided here, outside of all latches: load the page and
//! go on with a pin on it, or wait a little. After [`PATIENCE`] conflicts the operation holds the
//! pages of its way shared, so that it cannot be overtaken for ever.

use polder_format::PageId;

use crate::admission::Admitted;
use crate::bytes::PageRef;
use crate::core::Core;
use crate::counters::Counter;
use crate::error::PoolError;
use crate::found::Resolved;
use crate::guard::{Exclusive, Optimistic, Pin, Restart};
use crate::hold::Holds;
use crate::link::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::state::{StateCell, StateWord};
use crate::sync::{Backoff, aside};
use crate::translation::{Translation, swizzle};
use crate::waiting::Exhaustion;

/// Conflicts before an operation takes latches on its way.
const PATIENCE: u32 = 32;
/// Pins that one operation keeps at most: a path from the root, and neighbours.
const MAX_PINS: usize = 10;
/// How often a page may turn out unreadable whose parent was no longer there to ask.
const UNREADABLE_TRIES: u32 = 16;

/// The state of one operation.
#[derive(Debug)]
pub struct Attempt<'p> {
    hint: AccessHint,
    /// Not just optimistic: patient, or the pool's way of holding is another.
    holds: bool,
    /// Whether it may go by snapshots.
    snapshots: bool,
    /// How many pages of the space had been discarded when it took the first.
    discarded: u64,
    patient: bool,
    /// A patient attempt that holds a page exclusively waits for no other one.
    exclusive: bool,
    pages: u64,
    interrupted: Interrupted<'p>,
    obstacles: Obstacles<'p>,
    /// What is to be followed off the common way, and the page that was found there.
    step: Option<Step<'p>>,
    found: Option<Optimistic<'p>>,
    held: Vec<&'p StateCell>,
    /// What it holds on its way by the pool's way of holding.
    way: Holds<'p>,
    core: &'p Core,
}

/// A link, and the page that it stands in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'p> {
    page: Option<PageRef<'p>>,
    at: usize,
    id: PageId,
    is_root: bool,
    pub(crate) parent: Option<Optimistic<'p>>,
}

impl<'p> Step<'p> {
    /// Not the link itself: a copy of it in memory would be all there is of it, also on the common
    /// way.
    #[inline(always)]
    fn new(link: LinkRef<'p>, parent: Option<&Optimistic<'p>>) -> Step<'p> {
        let (page, at, id, is_root) = match link {
            LinkRef::InPage(page, at) => (Some(page), at, PageId::NULL, false),
            LinkRef::Root(id) => (None, 0, id, true),
            LinkRef::Id(id) => (None, 0, id, false),
        };
        Step { page, at, id, is_root, parent: parent.copied() }
    }

    pub(crate) fn link(&self) -> LinkRef<'p> {
        match self.page {
            Some(page) => LinkRef::InPage(page, self.at),
            None if self.is_root => LinkRef::Root(self.id),
            None => LinkRef::Id(self.id),
        }
    }
}

/// Why a single try did not go through, and what must be done before the next one, when no latch
/// is held any more.
#[derive(Debug, Default)]
pub struct Interrupted<'p> {
    /// The page to load, and the parent that leads to it.
    miss: Option<(PageId, Option<Optimistic<'p>>)>,
    failure: Option<PoolError>,
}

impl Interrupted<'_> {
    /// Whether somebody else held or changed a page, so that the same may go through at once.
    pub fn is_conflict(&self) -> bool {
        self.failure.is_none() && self.miss.is_none()
    }
}

/// What has been in the way of one operation so far, and the pages that it keeps resident.
#[derive(Debug, Default)]
pub struct Obstacles<'p> {
    conflicts: u32,
    /// A page was missing.
    waited: bool,
    unreadable: u32,
    kept: Option<Box<Kept<'p>>>,
}

/// What an operation that met obstacles keeps until its end. In a box: most meet none.
#[derive(Debug, Default)]
struct Kept<'p> {
    pins: Vec<Pin<'p>>,
    admitted: Option<Admitted<'p>>,
}

impl Drop for Obstacles<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            let_go_of_all(kept);
        }
    }
}

/// By itself, so that an operation that met no obstacle runs no code of this.
#[cold]
#[inline(never)]
fn let_go_of_all(kept: Box<Kept<'_>>) {
    drop(kept);
}

impl<'p> Attempt<'p> {
    #[inline(always)]
    fn new(core: &'p Core, hint: AccessHint) -> Attempt<'p> {
        Attempt {
            hint,
            holds: core.latches.holds_all,
            snapshots: core.latches.copies,
            discarded: 0,
            patient: false,
            exclusive: false,
            pages: 0,
            interrupted: Interrupted::default(),
            obstacles: Obstacles::default(),
            step: None,
            found: None,
            held: Vec::new(),
            way: Holds::default(),
            core,
        }
    }

    /// Whether it goes to its leaf by [`Space::snapshot`](crate::Space::snapshot), and changes nodes by [`Space::shadow`](crate::Space::shadow).
    #[inline(always)]
    pub fn takes_snapshots(&self) -> bool {
        self.snapshots
    }

    pub(crate) fn begin_snapshots(&mut self, discarded: u64) {
        self.discarded = discarded;
    }

    /// Whether no page of the space was discarded since it took its first snapshot.
    pub(crate) fn began_snapshots_at(&self, discarded: u64) -> bool {
        self.discarded == discarded
    }

    /// Lets go of this page, if it is held by a snapshot.
    pub(crate) fn let_go_of(&mut self, page: &Optimistic<'p>) {
        self.way.let_go_of(&self.core.latches, page.cell());
    }

    /// Lets go of the page that it holds by a snapshot, if it does.
    pub(crate) fn let_go(&mut self) {
        self.way.clear(&self.core.latches);
    }

    /// Holds the page that was found, and no other, if it still is as it was.
    pub(crate) fn hold_this(&mut self, found: &Resolved<'p>) -> bool {
        self.holds = true;
        let held = self.way.hold_this(&self.core.latches, found);
        self.pages += u64::from(held);
        held
    }

    /// An access to a marked page.
    pub(crate) fn access(&self, cell: &StateCell, seen: StateWord) {
        self.core.access(self.hint, cell, seen);
    }

    /// The page must be loaded.
    pub(crate) fn miss(&mut self, page: PageId, parent: Option<&Optimistic<'p>>) -> Restart {
        self.interrupted.miss = Some((page, parent.map(Optimistic::let_go)));
        Restart
    }

    /// Whether the operation has come to a page that had to be loaded.
    pub fn has_waited(&self) -> bool {
        self.obstacles.waited
    }

    /// Ends the operation with an error: to be returned as `Err(attempt.fail(...))`.
    #[cold]
    pub fn fail(&mut self, error: PoolError) -> Restart {
        self.interrupted.failure = Some(error);
        Restart
    }

    /// Holds an optimistically read page exclusively; never waits.
    #[inline(always)]
    pub fn upgrade(&mut self, page: Optimistic<'p>) -> Result<Exclusive<'p>, Restart> {
        if self.holds { self.upgrade_held(page) } else { page.try_upgrade() }
    }

    #[cold]
    fn upgrade_held(&mut self, page: Optimistic<'p>) -> Result<Exclusive<'p>, Restart> {
        self.way.let_go_of(&self.core.latches, page.cell());
        if !self.patient {
            // A writer that waits for others holds nothing for which they may be waiting. (What it
            // has read validates without being held, or it begins again.)
            if page.is_held_by_others() {
                self.way.clear(&self.core.latches);
            }
            return page.try_upgrade();
        }
        page.validate()?;
        self.exclusive = true;
        let same = |cell: &&StateCell| std::ptr::eq(*cell, page.cell());
        match self.held.iter().position(same) {
            Some(at) => {
                let exclusive = page.upgrade_shared()?;
                self.held.swap_remove(at);
                Ok(exclusive)
            }
            None => page.try_upgrade(),
        }
    }

    /// Holds a page of the way of a patient attempt; once, however often the way comes by.
    fn share(&mut self, cell: &'p StateCell) -> Result<StateWord, Restart> {
        if self.held.iter().any(|held| std::ptr::eq(*held, cell)) {
            return Ok(cell.read());
        }
        // Whoever waits holds nothing that others may be waiting for.
        let shared = if self.exclusive { cell.try_share() } else { wait_for_share(cell) };
        let word = shared.ok_or(Restart)?;
        self.held.push(cell);
        Ok(word)
    }

    /// Lets go of what a patient attempt holds.
    fn release(&mut self) {
        self.held.drain(..).for_each(StateCell::unshare);
        self.way.clear(&self.core.latches);
        self.exclusive = false;
    }
}

impl Drop for Attempt<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.holds {
            self.release();
        }
    }
}

impl<'p, T: Translation> View<'p, T> {
    /// As [`Space::run`](crate::Space::run), for a part of what the pool does, which may stand under its locks: waits for
    /// no frame.
    #[inline]
    pub(crate) fn run<R>(
        self,
        hint: AccessHint,
        operation: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, PoolError> {
        self.run_as::<false, R>(hint, operation)
    }

    #[inline(always)]
    pub(crate) fn run_as<const WAITS: bool, R>(
        self,
        hint: AccessHint,
        mut operation: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, PoolError> {
        let core = &self.shared.core;
        let mut attempt = Attempt::new(core, hint);
        loop {
            let result = operation(&mut attempt);
            core.counters.add(Counter::PagesRead, std::mem::take(&mut attempt.pages));
            match result {
                Ok(result) => return Ok(result),
                Err(Restart) => self.recover::<WAITS>(&mut attempt)?,
            }
        }
    }

    /// Runs `operation` once, waiting for nothing.
    pub(crate) fn run_once<R>(
        self,
        operation: impl FnOnce(&mut Attempt<'p>) -> Result<R, Restart>,
    ) -> Result<R, Box<Interrupted<'p>>> {
        let mut attempt = Attempt::new(&self.shared.core, AccessHint::Normal);
        // To take a snapshot may mean to wait.
        attempt.snapshots = false;
        operation(&mut attempt)
            .map_err(|Restart| Box::new(std::mem::take(&mut attempt.interrupted)))
    }

    #[inline(always)]
    pub(crate) fn follow(
        self,
        attempt: &mut Attempt<'p>,
        link: LinkRef<'p>,
        parent: Option<&Optimistic<'p>>,
    ) -> Result<Optimistic<'p>, Restart> {
        let core = &self.shared.core;
        let wraps = core.latches.wraps.get();
        if let Some(found) = self.resolve(link)
            && found.word.is_readable()
            && !attempt.holds
            && !(T::SWIZZLES && found.astray)
        {
            let page = Optimistic::new(&core.latches, found, wraps);
            page.page().prefetch(0);
            if found.word.is_marked() {
                core.access(attempt.hint, found.cell, found.word);
            }
            match parent {
                Some(parent) => parent.validate()?,
                None => self.check_own(attempt)?,
            }
            attempt.pages += 1;
            if T::SWIZZLES && matches!(link, LinkRef::Id(_)) {
                core.counters.add(Counter::PagesByTable, 1);
            }
            if !T::SWIZZLES && found.astray {
                self.maybe_promote(PageId::from_link(link.load()));
            }
            return Ok(page);
        }
        // To and fro by way of the attempt: what a call is given lies in memory, and on the way above
        // all of this stays in registers.
        attempt.step = Some(Step::new(link, parent));
        self.follow_slowly(attempt)?;
        attempt.found.take().ok_or(Restart)
    }

    /// A word that was read without a parent to validate is one of our space, unless that was
    /// dropped before: then it may serve another one.
    #[inline(always)]
    pub(crate) fn check_own(self, attempt: &mut Attempt<'p>) -> Result<(), Restart> {
        if self.space.is_dropped() {
            return Err(attempt.fail(PoolError::Dropped { space: self.space.id }));
        }
        Ok(())
    }

    /// The page is not where `resolve` looks first, or is not resident, or held, or the attempt
    /// holds what it reads: puts the page in `attempt.found`.
    #[cold]
    #[inline(never)]
    fn follow_slowly(self, attempt: &mut Attempt<'p>) -> Result<(), Restart> {
        let step = attempt.step.ok_or(Restart)?;
        let (link, parent) = (step.link(), step.parent);
        let core = &self.shared.core;
        let target = match T::SWIZZLES {
            true => swizzle::target(link, self.space.id),
            false => PageId::from_link(link.load()),
        };
        let wraps = core.latches.wraps.get();
        let found = self.resolve(link).filter(|found| !found.word.is_evicted()).or_else(|| {
            let translation = &self.shared.translation;
            translation.resolve_elsewhere(&core.frames, &self.space.directory, target.page())
        });
        // F0: the parent is validated after the page's word was read.
        if let Some(parent) = &parent {
            parent.validate()?;
        }
        if target.space() != self.space.id || target.is_null() {
            let page = parent.map_or(target, |parent| parent.id());
            let what = "a link leads to another space";
            return Err(attempt.fail(PoolError::Broken { page, what }));
        }
        let Some(found) = found.filter(|f| !f.word.is_evicted() && !f.word.is_in_flight()) else {
            return Err(attempt.miss(target, parent.as_ref()));
        };
        let found = if attempt.patient {
            self.share(attempt, target, found)?
        } else {
            self.hold(attempt, parent.as_ref(), target, found)?
        };
        match &parent {
            Some(parent) => parent.validate()?,
            None => self.check_own(attempt)?,
        }
        attempt.pages += 1;
        attempt.found = Some(Optimistic::new(&core.latches, found, wraps));
        if T::SWIZZLES && (found.astray || matches!(link, LinkRef::Id(_))) {
            core.counters.add(Counter::PagesByTable, 1);
            if found.astray && attempt.hint == AccessHint::Normal {
                aside(|| {
                    let (pool, directory) = (self.shared.context(), &self.space.directory);
                    let translation = &self.shared.translation;
                    translation.followed_unswizzled(&pool, directory, link, parent.as_ref());
                });
            }
        }
        Ok(())
    }

    /// The pool's way of holding, which may be not to.
    fn hold(
        self,
        attempt: &mut Attempt<'p>,
        parent: Option<&Optimistic<'p>>,
        target: PageId,
        found: Resolved<'p>,
    ) -> Result<Resolved<'p>, Restart> {
        let core = &self.shared.core;
        if !found.word.is_readable() {
            return Err(Restart);
        }
        // Before it is held: to hold it by its word changes that.
        if found.word.is_marked() {
            core.access(attempt.hint, found.cell, found.word);
        }
        // Before it is held, too: what somebody holds does not move. (If it does, the word that was
        // found does not stand any more, and the operation begins again.)
        if !T::SWIZZLES && found.astray {
            self.maybe_promote(target);
        }
        if attempt.holds && !attempt.way.step(&core.latches, &found, parent.map(Optimistic::cell)) {
            return Err(Restart);
        }
        found.page.prefetch(0);
        Ok(found)
    }

    /// A patient attempt waits, and keeps what it has.
    fn share(
        self,
        attempt: &mut Attempt<'p>,
        target: PageId,
        found: Resolved<'p>,
    ) -> Result<Resolved<'p>, Restart> {
        let core = &self.shared.core;
        let word = attempt.share(found.cell)?;
        // TABLE-2: what we hold may be another page's by now, or the page in another frame.
        let frame = word.frame();
        if core.latches.meta(frame).page() != target {
            return Err(Restart);
        }
        if word.is_marked() {
            core.access(attempt.hint, found.cell, word);
        }
        let page = self.shared.page_in(self.space, target.page(), frame);
        Ok(Resolved { cell: found.cell, word, frame, page, astray: false })
    }

    /// After a restart: what must be done before the next try.
    #[cold]
    fn recover<const WAITS: bool>(self, attempt: &mut Attempt<'p>) -> Result<(), PoolError> {
        attempt.release(); // WAY-2: what follows may wait
        let what = std::mem::take(&mut attempt.interrupted);
        let made = self.make_way(what, attempt.hint, MAX_PINS, &mut attempt.obstacles);
        if let Err(error) = made {
            if !WAITS || !error.is_exhausted() {
                return Err(error);
            }
            let kept = attempt.obstacles.kept.get_or_insert_default();
            if kept.admitted.is_some() {
                return Err(error);
            }
            // Others may wait for what it holds.
            kept.pins.clear();
            kept.admitted = Some(self.shared.admit().ok_or(error)?);
        }
        attempt.patient = attempt.obstacles.conflicts > PATIENCE;
        attempt.holds = attempt.patient || self.shared.core.latches.holds_all;
        attempt.snapshots = !attempt.patient && self.shared.core.latches.copies;
        Ok(())
    }

    /// After a try by [`View::run_once`] for an operation that holds so many pages.
    pub(crate) fn make_way_beside(
        self,
        pages_held: usize,
        what: Interrupted<'p>,
        obstacles: &mut Obstacles<'p>,
    ) -> Result<(), PoolError> {
        // The pages that it holds, and those on the ways to them.
        self.make_way(what, AccessHint::Normal, pages_held + MAX_PINS, obstacles)
    }

    fn make_way(
        self,
        what: Interrupted<'p>,
        hint: AccessHint,
        most_pins: usize,
        obstacles: &mut Obstacles<'p>,
    ) -> Result<(), PoolError> {
        self.shared.core.counters.add(Counter::Restarts, 1);
        if let Some(error) = what.failure {
            return Err(error);
        }
        self.space.check_not_dropped()?;
        let Some((page, parent)) = what.miss else {
            obstacles.conflicts += 1;
            let mut backoff = Backoff::new();
            (0..obstacles.conflicts.min(10)).for_each(|_| backoff.wait());
            return Ok(());
        };
        obstacles.waited = true;
        match self.shared.fault(self.space, page.page(), hint) {
            Ok(Some(pin)) => {
                self.check_link(page, parent)?;
                let pins = &mut obstacles.kept.get_or_insert_default().pins;
                if pins.len() == most_pins {
                    pins.remove(0);
                }
                pins.push(pin);
                Ok(())
            }
            Ok(None) => Ok(()),
            // A page that was freed meanwhile may hold anything; its parent has changed then. On a
            // tiny pool the parent may have been evicted instead, again and again: hence a bound.
            Err(error) if error.is_about_content() => {
                obstacles.unreadable += 1;
                let moved = parent.is_some_and(|parent| parent.validate().is_err());
                if moved && obstacles.unreadable < UNREADABLE_TRIES { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    /// A page was loaded: it must be what the page that led to it says of it, if that is still so.
    fn check_link(self, id: PageId, parent: Option<Optimistic<'p>>) -> Result<(), PoolError> {
        let core = &self.shared.core;
        let wraps = core.latches.wraps.get();
        let found = self.find(id).filter(|found| found.word.is_readable());
        let (Some(parent), Some(found)) = (parent, found) else { return Ok(()) };
        let page = Optimistic::new(&core.latches, found, wraps);
        match core.kinds.check_link(parent.page(), id, page.page()) {
            Err(what) if page.stands() && parent.stands() => {
                Err(PoolError::Broken { page: id, what })
            }
            _ => Ok(()),
        }
    }
}

fn wait_for_share(cell: &StateCell) -> Option<StateWord> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(word) = cell.try_share() {
            return Some(word);
        }
        let now = cell.peek();
        if now.is_evicted() || now.is_in_flight() {
            return None;
        }
        backoff.wait();
    }
}
