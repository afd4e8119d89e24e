//! Many descents of one thread, interleaved: each as `levels::lowest` makes it, step by step.
//!
//! A descent is a small state machine. What it keeps between two steps is its job, the page that it is
//! at (a guard, which holds nothing), and what it has found there:
//!
//! ```text
//!   Root        goes through the nodes that are few enough to be near, to the first link beyond
//!    v
//!   Ask <---+   asks for the link's word and for the first lines of its page, where that is expected
//!    v      |
//!   Link    |   follows the link (Page: once more, if the page lies elsewhere), looks at the hints, and
//!    |      |   asks for the slots that they lead to; in a leaf looks at the slots, and asks for the record
//!    +--> Slots    searches them for the next link
//!    v
//!   Record      reads it, validates its page: done
//!
//!   Something changed: it begins again; after `MOST_CONFLICTS` times the job is run by itself.
//!   The page of a link is missing: it is loaded, and the machine goes on when it has come; a part of
//!   its job goes to another machine at once, if the device has room for what that may miss.
//! ```
//!
//! `WIDTH` machines begin together and take their steps in turn; what one has asked for comes while the
//! others take theirs (AMAC; see [`polder_pool::Interleaved`]). Others begin when all have ended: so all are
//! mostly at the same step, which the processor predicts. To ask for a page is a step of its own, and a
//! short one, so that the processor executes it for several machines at once: each of them may have to
//! wait for the kernel's page tables. A machine whose page is missing ends here and waits for its flight;
//! so as many machines wait for the device as it has reads under way. The device is asked what has come
//! each time that all have ended, and not at each step: what it gives back at once is less than what a
//! turn of machines begins. As long as it has room for more, and each turn begins reads, others begin
//! before what has come is seen to. When a flight lands, the machines that waited for it go on at once, to their
//! end: the page is pinned meanwhile, and was just read by the processor to check it.
//!
//! The rules `MANY-1` to `MANY-4` are the pool's. `MANY-4` is kept by draining: while there is a job
//! to be run by itself, or as many answers wait as are to be kept, nothing new is begun and nothing
//! loaded, until no flight is open. Every job is answered: a machine takes a bounded number of steps
//! from its root to its end, waits for a flight that lands, or begins again, and that a bounded
//! number of times before its job is run by itself, as an operation of one key is.

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, Optimistic, Pin, PoolError, Restart, Space,
    Translation,
};

use crate::levels::{Levels, root};

/// Machines that take their steps in turn. With more, lines go from the nearest cache before they are read.
const WIDTH: usize = 8;
/// Machines that wait for pages at most: many for each that is on its way.
const MOST_WAITING: usize = 1024;
/// Conflicts after which a job is run by itself, as an operation of one key is.
const MOST_CONFLICTS: u8 = 8;
/// From this level down nodes are too many to be in the processor's caches.
const FAR_LEVEL: u8 = 1;

/// What came of reading the lowest page.
#[derive(Debug)]
pub enum Read<J> {
    /// The job is done.
    Done,
    /// This part of it is done, and the rest begins at the root.
    Rest(J),
    /// It must be run by itself, as an operation of one key is.
    Singly,
}

/// Jobs that are done by descending to one page each, or to a few.
pub trait Jobs<S: Levels> {
    /// One of them, or what is left of it.
    type Job: Copy;
    /// What can go wrong.
    type Error: From<PoolError>;

    /// The next one that nobody has begun.
    fn next(&mut self) -> Option<Self::Job>;

    /// Looks at the first lines of a page above the lowest level, and asks for those by which the link is
    /// found that leads on. Gives what is to be remembered.
    fn narrow(&self, job: Self::Job, page: PageRef<'_>) -> usize;

    /// Where in such a page that link begins.
    fn link_in(&self, job: Self::Job, page: PageRef<'_>, narrowed: usize) -> usize;

    /// Looks at the lowest page, whose first lines are here, and asks for what will be read of it. Gives
    /// what is to be remembered.
    fn search(&self, job: Self::Job, page: PageRef<'_>) -> usize;

    /// Reads the lowest page, and validates it. Answers are kept until they are delivered.
    ///
    /// # Errors
    /// [`Restart`] if the page does not validate; nothing is kept of what was read then.
    fn read(
        &mut self,
        job: Self::Job,
        found: usize,
        page: &Optimistic<'_>,
    ) -> Result<Read<Self::Job>, Restart>;

    /// Takes a part off a job that has to wait for a page, so that it goes on meanwhile. None: it is to wait
    /// as a whole.
    fn split(&self, _job: &mut Self::Job) -> Option<Self::Job> {
        None
    }

    /// Does the first part of a job by itself, as an operation of one key is done; gives the rest.
    ///
    /// # Errors
    /// Those of the operation.
    fn run_singly(&mut self, job: Self::Job) -> Result<Option<Self::Job>, Self::Error>;

    /// Whether as many answers are kept as should be.
    fn is_full(&self) -> bool;

    /// Hands over the answers that are kept.
    fn deliver(&mut self);
}

/// Does all jobs in a space. Gives how many pages were loaded for them.
///
/// # Errors
/// The first error, with its job. Answers that were found before have been delivered.
pub fn each<S: Levels, T: Translation, J: Jobs<S>>(
    space: &Space<T>,
    jobs: &mut J,
) -> Result<usize, (J::Job, J::Error)> {
    let done = space.interleave(AccessHint::Normal, |way| {
        let crowd = Crowd {
            root: PageId::new(space.id(), root()),
            way,
            jobs: &mut *jobs,
            waiting: Vec::new(),
            landed: Vec::new(),
            put_off: Vec::new(),
            again: Vec::new(),
            singly: Vec::new(),
            blocked: Blocked::Changed,
            loaded: 0,
        };
        crowd.run()
    });
    // MANY-4: the crowd is gone, and no flight is open.
    jobs.deliver();
    done
}

/// Where a machine is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At the root.
    Root,
    /// It knows the link, and asks for its page.
    Ask,
    /// It has asked for the page of the link.
    Link,
    /// It has asked for the first lines of its page.
    Page,
    /// It has asked for the lines of its page in which the link is.
    Slots,
    /// It has asked for the record.
    Record,
}

/// One descent.
#[derive(Clone, Copy)]
struct Machine<'p, J> {
    at: At,
    /// The level of its page.
    level: u8,
    conflicts: u8,
    /// What is remembered of its page: how far it was searched, or the offset of the link to follow.
    found: usize,
    page: Option<Optimistic<'p>>,
    /// Where the page of the link is expected, whose lines have been asked for.
    expected: *const u8,
    job: J,
}

impl<J> Machine<'_, J> {
    #[inline(always)]
    fn new(job: J) -> Self {
        let expected = std::ptr::null();
        Machine { at: At::Root, level: 0, conflicts: 0, found: 0, page: None, expected, job }
    }
}

/// Asks for the lines of a page that are read first.
#[inline(always)]
fn prefetch<S: Levels>(level: u8, page: PageRef<'_>) {
    match level {
        0 => S::prefetch(page),
        _ => S::prefetch_inner(page),
    }
}

/// How a step ended.
enum Went {
    /// There is another one to take.
    On,
    Done,
    /// The job is to be run by itself.
    Singly,
}

/// All descents.
struct Crowd<'p, 'j, S: Levels, T: Translation, J: Jobs<S>> {
    root: PageId,
    way: &'j mut Interleaved<'p, T>,
    jobs: &'j mut J,
    /// Machines that wait for a flight.
    waiting: Vec<(usize, Machine<'p, J::Job>)>,
    /// Memory for those whose flight has landed.
    landed: Vec<Machine<'p, J::Job>>,
    /// Machines whose page is on its way for another thread, or could not be loaded at once: until a
    /// flight has landed, or none is open.
    put_off: Vec<Machine<'p, J::Job>>,
    /// Those of them that may try again.
    again: Vec<Machine<'p, J::Job>>,
    /// Jobs of which each is to be run by itself.
    singly: Vec<J::Job>,
    /// Why the last machine did not go on.
    blocked: Blocked<'p>,
    loaded: usize,
}

type Failed<S, J> = (<J as Jobs<S>>::Job, <J as Jobs<S>>::Error);

impl<'p, S: Levels, T: Translation, J: Jobs<S>> Crowd<'p, '_, S, T, J> {
    fn run(mut self) -> Result<usize, Failed<S, J>> {
        let mut running: Vec<Machine<'p, J::Job>> = Vec::with_capacity(WIDTH);
        let mut open_before = 0;
        loop {
            if running.is_empty() {
                open_before = self.way.open();
                while running.len() < WIDTH
                    && let Some(machine) = self.next()
                {
                    running.push(machine);
                }
            }
            let mut is_moving = !running.is_empty();
            // From the last one on: where all end, none is moved.
            for place in (0..running.len()).rev() {
                match self.step(&mut running[place]) {
                    Ok(Went::On) => {}
                    Ok(Went::Done) => {
                        running.swap_remove(place);
                    }
                    Ok(Went::Singly) => self.singly.push(running.swap_remove(place).job),
                    Err(Restart) if self.is_stopped(&mut running[place]) => {
                        let machine = running.swap_remove(place);
                        self.stop(machine);
                    }
                    Err(Restart) => {}
                }
            }
            if !running.is_empty() {
                continue;
            }
            if self.way.open() > 0 {
                if !is_moving && !self.way.has_come() {
                    self.way.hand_over(true);
                } else if is_moving && self.way.open() > open_before && !self.way.is_full() {
                    // The device has room for more: what has come can wait.
                    self.way.hand_over(false);
                } else {
                    self.land()?;
                }
                // Nothing may have moved because it was drained.
                is_moving = true;
            }
            if self.way.open() == 0 {
                self.jobs.deliver();
                self.run_singly()?;
                self.again.append(&mut self.put_off);
                if !is_moving && self.again.is_empty() {
                    return Ok(self.loaded);
                }
            }
        }
    }

    /// Whether nothing new is to be begun, so that no flight is open soon (`MANY-4`).
    fn is_draining(&self) -> bool {
        !self.singly.is_empty() || self.jobs.is_full()
    }

    /// The operation that takes a place that is free.
    #[inline(always)]
    fn next(&mut self) -> Option<Machine<'p, J::Job>> {
        let open = self.way.open();
        if open > 0 && (self.is_draining() || self.way.is_full()) {
            return None;
        }
        let is_crowded = open > 0 && self.waiting.len() + self.put_off.len() >= MOST_WAITING;
        let new = || (!is_crowded).then(|| self.jobs.next().map(Machine::new)).flatten();
        self.again.pop().or_else(new)
    }

    /// One step.
    #[inline(always)]
    fn step(&mut self, machine: &mut Machine<'p, J::Job>) -> Result<Went, Restart> {
        match (machine.at, machine.page) {
            (At::Link, Some(above)) => {
                let link = LinkRef::InPage(above.page(), machine.found);
                let page = self.way.follow(link, Some(&above))?;
                machine.level -= 1; // LEVEL-2
                machine.page = Some(page);
                if machine.expected != page.page().as_ptr() {
                    machine.at = At::Page;
                    prefetch::<S>(machine.level, page.page());
                    return Ok(Went::On);
                }
                self.look(machine, page)
            }
            (At::Page, Some(page)) => self.look(machine, page),
            (At::Slots, Some(page)) => {
                machine.found = self.jobs.link_in(machine.job, page.page(), machine.found);
                machine.at = At::Ask;
                Ok(Went::On)
            }
            (At::Ask, Some(page)) => {
                self.ask(machine, page);
                Ok(Went::On)
            }
            (At::Record, Some(page)) => match self.jobs.read(machine.job, machine.found, &page)? {
                Read::Done => Ok(Went::Done),
                Read::Rest(job) => {
                    *machine = Machine::new(job);
                    Ok(Went::On)
                }
                Read::Singly => Ok(Went::Singly),
            },
            _ => self.begin(machine),
        }
    }

    /// Goes through the nodes that are near, from the root.
    #[inline(always)]
    fn begin(&mut self, machine: &mut Machine<'p, J::Job>) -> Result<Went, Restart> {
        let mut page = self.way.follow(LinkRef::Root(self.root), None)?;
        let mut level = S::level(page.page());
        while level > 0 {
            let narrowed = self.jobs.narrow(machine.job, page.page());
            let found = self.jobs.link_in(machine.job, page.page(), narrowed);
            if level - 1 <= FAR_LEVEL {
                machine.level = level;
                machine.page = Some(page);
                (machine.found, machine.at) = (found, At::Ask);
                return Ok(Went::On);
            }
            let link = LinkRef::InPage(page.page(), found);
            page = self.way.follow(link, Some(&page))?;
            level -= 1; // LEVEL-2
        }
        machine.level = level;
        machine.page = Some(page);
        self.look(machine, page)
    }

    /// Asks for the page of a link.
    #[inline(always)]
    fn ask(&mut self, machine: &mut Machine<'p, J::Job>, page: Optimistic<'p>) {
        machine.at = At::Link;
        machine.expected = std::ptr::null();
        if let Some(expected) = self.way.prefetch(LinkRef::InPage(page.page(), machine.found)) {
            machine.expected = expected.as_ptr();
            prefetch::<S>(machine.level - 1, expected);
        }
    }

    /// Looks at the first lines of a page, which are here.
    #[inline(always)]
    fn look(
        &mut self,
        machine: &mut Machine<'p, J::Job>,
        page: Optimistic<'p>,
    ) -> Result<Went, Restart> {
        if machine.level > 0 {
            machine.found = self.jobs.narrow(machine.job, page.page());
            machine.at = At::Slots;
            return Ok(Went::On);
        }
        // Only in a damaged structure another level is here.
        if S::level(page.page()) != 0 {
            return Ok(Went::Singly);
        }
        machine.found = self.jobs.search(machine.job, page.page());
        machine.at = At::Record;
        Ok(Went::On)
    }

    /// Whether a machine that did not go on waits for something; else it begins again.
    #[cold]
    fn is_stopped(&mut self, machine: &mut Machine<'p, J::Job>) -> bool {
        self.blocked = self.way.blocked();
        if matches!(self.blocked, Blocked::Missing(..)) {
            return true;
        }
        machine.conflicts += 1;
        (machine.at, machine.page) = (At::Root, None);
        machine.conflicts > MOST_CONFLICTS
    }

    /// What becomes of a machine that cannot go on.
    #[cold]
    fn stop(&mut self, mut machine: Machine<'p, J::Job>) {
        let Blocked::Missing(page, parent) = self.blocked else {
            return self.singly.push(machine.job);
        };
        let open = self.way.open();
        let loading = match self.is_draining() && open > 0 {
            true => Loading::NotNow,
            false => self.way.load(page, parent),
        };
        match loading {
            Loading::Flies(flight) => {
                // A part of the job may need another page, which the device can read at the same time.
                if self.way.open() > open && !self.way.is_full() {
                    self.again.extend(self.jobs.split(&mut machine.job).map(Machine::new));
                }
                self.waiting.push((flight, machine));
            }
            // To wait for it is what an operation of one key does (MANY-3).
            _ if self.way.open() == 0 => self.singly.push(machine.job),
            _ => self.put_off.push(machine),
        }
    }

    /// Ends the flights that have come, and lets their machines go on.
    fn land(&mut self) -> Result<(), Failed<S, J>> {
        while let Some((flight, outcome)) = self.way.land(false) {
            self.loaded += 1;
            self.go_on(flight, outcome)?;
            self.again.extend(self.put_off.pop());
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        flight: usize,
        outcome: Result<Pin<'p>, PoolError>,
    ) -> Result<(), Failed<S, J>> {
        // All of them first: one that goes on may wait for another page by a flight of the same number.
        let mut landed = std::mem::take(&mut self.landed);
        let mut at = 0;
        while at < self.waiting.len() {
            match self.waiting[at].0 == flight {
                true => landed.push(self.waiting.swap_remove(at).1),
                false => at += 1,
            }
        }
        for machine in landed.drain(..) {
            match &outcome {
                Ok(_pinned) if self.jobs.is_full() => self.put_off.push(machine),
                Ok(_pinned) => self.go_on_to_its_end(machine),
                Err(error @ PoolError::Broken { .. }) => {
                    return Err((machine.job, error.clone().into()));
                }
                // MANY-3
                Err(_) => self.singly.push(machine.job),
            }
        }
        self.landed = landed;
        Ok(())
    }

    fn go_on_to_its_end(&mut self, mut machine: Machine<'p, J::Job>) {
        loop {
            match self.step(&mut machine) {
                Ok(Went::On) => {}
                Ok(Went::Done) => return,
                Ok(Went::Singly) => return self.singly.push(machine.job),
                Err(Restart) if self.is_stopped(&mut machine) => return self.stop(machine),
                Err(Restart) => {}
            }
        }
    }

    /// Runs jobs, each by itself; called while no flight is open.
    #[inline(always)]
    fn run_singly(&mut self) -> Result<(), Failed<S, J>> {
        while let Some(job) = self.singly.pop() {
            match self.jobs.run_singly(job) {
                Ok(None) => {}
                Ok(Some(rest)) => self.again.push(Machine::new(rest)),
                Err(error) => return Err((job, error)),
            }
        }
        Ok(())
    }
}
