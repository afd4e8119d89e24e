//! Many descents of one thread, interleaved: each as `levels::lowest` makes it, step by step.
//!
//! A descent is a small state machine. What it keeps between two steps is its job, the page that it is
//! at (a guard, which holds nothing), and what it has found there:
//!
//! ```text
//!          through the nodes that are few          follows the link, looks        looks for the
//!          enough to be near; asks for the word    at the page, asks for the      record, reads it,
//!          and the page of the next link           next one or for the record     validates
//!   Root -------------------------------------> Link ----+------------------> Record ----> done
//!    ^                                            ^      | for each level
//!    |                                            +------+ (Page: once more, if the page
//!    |                                                      does not lie where it was expected)
//!    +-- something changed: `MOST_CONFLICTS` times, then alone
//!
//!   Link, and the page is missing --> it is loaded, and the machine goes on when it has come
//! ```
//!
//! `WIDTH` machines take their steps in turn; while one waits for the lines that it has asked for, the
//! others go on (AMAC; see [`polder_pool::Interleaved`]). A machine whose page is missing gives its turn
//! to another job and waits for its flight; so as many machines wait for the device as it has reads
//! under way, and the processor's width is left to those that find their pages. When a flight lands,
//! the machines that waited for it go on at once, to their end: the page is pinned meanwhile, and was
//! just read by the processor to check it.
//!
//! The rules `MANY-1` to `MANY-4` are the pool's. `MANY-4` is kept by draining: while there is a job to
//! be made alone, or as many answers wait as are to be kept, nothing new is begun and nothing loaded,
//! until no flight is open. Every job is answered: a machine takes a bounded number of steps from its
//! root to its end, waits for a flight that lands, or begins again, and that a bounded number of times
//! before it is made alone.

use polder_format::{PageId, PageNo};
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Blocked, Interleaved, LinkRef, Loading, Optimistic, Pin, PoolError, Restart, Space,
    Translation,
};

use crate::levels::{Levels, root};

/// Machines that take their steps in turn: about as many misses as a core has under way at once.
const WIDTH: usize = 12;
/// Machines that wait for pages at most: many for each that is on its way.
const MOST_WAITING: usize = 1024;
/// Conflicts after which a job is made alone.
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
    /// It must be made alone.
    Alone,
}

/// Jobs that are done by descending to one page each, or to a few.
pub trait Jobs<S: Levels> {
    /// One of them, or what is left of it.
    type Job: Copy;
    /// What can go wrong.
    type Error: From<PoolError>;

    /// The next one that nobody has begun.
    fn next(&mut self) -> Option<Self::Job>;

    /// Where in a page above the lowest level the link begins that leads on.
    fn link_in(&self, job: Self::Job, page: PageRef<'_>) -> usize;

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

    /// Does the first part of a job in the way of an operation that is alone; gives the rest.
    ///
    /// # Errors
    /// Those of the operation.
    fn alone(&mut self, job: Self::Job) -> Result<Option<Self::Job>, Self::Error>;

    /// Whether as many answers are kept as should be.
    fn is_full(&self) -> bool;

    /// Hands over the answers that are kept.
    fn deliver(&mut self);
}

/// Does all jobs in a space.
///
/// # Errors
/// The first error, with its job. Answers that were found before have been delivered.
pub fn each<S: Levels, T: Translation, J: Jobs<S>>(
    space: &Space<T>,
    jobs: &mut J,
) -> Result<(), (J::Job, J::Error)> {
    let way = space.interleave(AccessHint::Normal);
    let most_open = way.most_open();
    let root = PageId::new(space.id(), root());
    let crowd = Crowd {
        root,
        way,
        most_open,
        jobs,
        waiting: Vec::new(),
        landed: Vec::new(),
        put_off: Vec::new(),
        again: Vec::new(),
        alone: Vec::new(),
    };
    let done = crowd.run();
    // MANY-4: the crowd is gone, and no flight is open.
    jobs.deliver();
    done
}

/// Where a machine is.
#[derive(Debug, Clone, Copy)]
enum At {
    Root,
    Link,
    Page,
    Record,
}

/// One descent.
#[derive(Clone, Copy)]
struct Machine<'p, J> {
    job: J,
    at: At,
    /// The level of its page.
    level: u8,
    conflicts: u8,
    /// The offset of the link to follow; in the lowest page, what was found there.
    found: usize,
    page: Option<Optimistic<'p>>,
    /// Where the page of the link is expected, whose lines have been asked for.
    expected: Option<PageRef<'p>>,
}

impl<J> Machine<'_, J> {
    fn new(job: J) -> Self {
        let (page, expected) = (None, None);
        Machine { job, at: At::Root, level: 0, conflicts: 0, found: 0, page, expected }
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
enum Went<'p> {
    /// There is another one to take.
    On,
    Done,
    /// It is to be taken again when this page is there.
    Missing(PageNo, Option<Optimistic<'p>>),
    Alone,
}

/// All descents.
struct Crowd<'p, 'j, S: Levels, T: Translation, J: Jobs<S>> {
    root: PageId,
    way: Interleaved<'p, T>,
    most_open: usize,
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
    /// Jobs that are to be made alone.
    alone: Vec<J::Job>,
}

type Failed<S, J> = (<J as Jobs<S>>::Job, <J as Jobs<S>>::Error);

impl<'p, S: Levels, T: Translation, J: Jobs<S>> Crowd<'p, '_, S, T, J> {
    fn run(mut self) -> Result<(), Failed<S, J>> {
        let mut running: [Option<Machine<'p, J::Job>>; WIDTH] = [const { None }; WIDTH];
        loop {
            let mut is_moving = false;
            for place in &mut running {
                if place.is_none() {
                    *place = self.next();
                }
                let Some(machine) = place else { continue };
                is_moving = true;
                match self.step(machine) {
                    Went::On => {}
                    Went::Done => *place = None,
                    stopped => {
                        let machine = *machine;
                        *place = None;
                        self.stop(machine, stopped);
                    }
                }
            }
            if self.way.open() > 0 {
                self.land(!is_moving)?;
                // Nothing may have moved because it was drained.
                is_moving = true;
            }
            if self.way.open() == 0 {
                self.jobs.deliver();
                self.make_alone()?;
                self.again.append(&mut self.put_off);
                if !is_moving && self.again.is_empty() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether nothing new is to be begun, so that no flight is open soon (`MANY-4`).
    fn is_draining(&self) -> bool {
        !self.alone.is_empty() || self.jobs.is_full()
    }

    /// Who takes a place that is free.
    #[inline(always)]
    fn next(&mut self) -> Option<Machine<'p, J::Job>> {
        let open = self.way.open();
        if open > 0 && (self.is_draining() || open == self.most_open) {
            return None;
        }
        let is_crowded = open > 0 && self.waiting.len() + self.put_off.len() >= MOST_WAITING;
        let new = || (!is_crowded).then(|| self.jobs.next().map(Machine::new)).flatten();
        self.again.pop().or_else(new)
    }

    /// One step.
    #[inline(always)]
    fn step(&mut self, machine: &mut Machine<'p, J::Job>) -> Went<'p> {
        let arrived = match (machine.at, machine.page) {
            (At::Link, Some(above)) => {
                let link = LinkRef::InPage(above.page(), machine.found);
                match self.way.follow(link, Some(&above)) {
                    Ok(page) => {
                        machine.level -= 1; // LEVEL-2
                        (machine.at, machine.page) = (At::Page, Some(page));
                        let is_here =
                            |expected: PageRef<'_>| expected.as_ptr() == page.page().as_ptr();
                        if !machine.expected.is_some_and(is_here) {
                            prefetch::<S>(machine.level, page.page());
                            return Went::On;
                        }
                        Ok(page)
                    }
                    Err(blocked) => Err(blocked),
                }
            }
            (At::Page, Some(page)) => Ok(page),
            (At::Record, Some(page)) => match self.jobs.read(machine.job, machine.found, &page) {
                Ok(Read::Done) => return Went::Done,
                Ok(Read::Rest(job)) => {
                    *machine = Machine::new(job);
                    return Went::On;
                }
                Ok(Read::Alone) => return Went::Alone,
                Err(Restart) => Err(Blocked::Changed),
            },
            _ => self.way.follow(LinkRef::Root(self.root), None).inspect(|page| {
                machine.level = S::level(page.page());
            }),
        };
        match arrived.and_then(|page| self.go_through(machine, page)) {
            Ok(went) => went,
            Err(Blocked::Missing(page, parent)) => Went::Missing(page, parent),
            Err(Blocked::Changed) => {
                machine.conflicts += 1;
                (machine.at, machine.page) = (At::Root, None);
                if machine.conflicts > MOST_CONFLICTS { Went::Alone } else { Went::On }
            }
        }
    }

    /// Looks at a page whose first lines are here, and at those below as long as they are near.
    #[inline(always)]
    fn go_through(
        &mut self,
        machine: &mut Machine<'p, J::Job>,
        mut page: Optimistic<'p>,
    ) -> Result<Went<'p>, Blocked<'p>> {
        let mut level = machine.level;
        loop {
            if level == 0 {
                // Only in a damaged structure another level is here.
                if S::level(page.page()) != 0 {
                    return Ok(Went::Alone);
                }
                machine.found = self.jobs.search(machine.job, page.page());
                machine.at = At::Record;
                break;
            }
            let found = self.jobs.link_in(machine.job, page.page());
            let link = LinkRef::InPage(page.page(), found);
            if level - 1 <= FAR_LEVEL {
                machine.expected = self.way.prefetch(link);
                if let Some(expected) = machine.expected {
                    prefetch::<S>(level - 1, expected);
                }
                (machine.found, machine.at) = (found, At::Link);
                break;
            }
            page = self.way.follow(link, Some(&page))?;
            level -= 1; // LEVEL-2
        }
        (machine.level, machine.page) = (level, Some(page));
        Ok(Went::On)
    }

    /// What becomes of a machine that cannot go on.
    #[cold]
    fn stop(&mut self, machine: Machine<'p, J::Job>, stopped: Went<'p>) {
        let Went::Missing(page, parent) = stopped else {
            return self.alone.push(machine.job);
        };
        let loading = match self.is_draining() && self.way.open() > 0 {
            true => Loading::NotNow,
            false => self.way.load(page, parent),
        };
        match loading {
            Loading::Flies(flight) => self.waiting.push((flight, machine)),
            // To wait for it is what an operation alone does (MANY-3).
            _ if self.way.open() == 0 => self.alone.push(machine.job),
            _ => self.put_off.push(machine),
        }
    }

    /// Ends the flights that have come, and lets their machines go on.
    fn land(&mut self, mut wait: bool) -> Result<(), Failed<S, J>> {
        while let Some((flight, outcome)) = self.way.land(wait) {
            wait = false;
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
        self.waiting.retain(|(waits_for, machine)| {
            if *waits_for == flight {
                landed.push(*machine);
            }
            *waits_for != flight
        });
        for machine in landed.drain(..) {
            match &outcome {
                Ok(_pinned) if self.jobs.is_full() => self.put_off.push(machine),
                Ok(_pinned) => self.go_on_to_its_end(machine),
                Err(error @ PoolError::Broken { .. }) => {
                    return Err((machine.job, error.clone().into()));
                }
                // MANY-3
                Err(_) => self.alone.push(machine.job),
            }
        }
        self.landed = landed;
        Ok(())
    }

    fn go_on_to_its_end(&mut self, mut machine: Machine<'p, J::Job>) {
        loop {
            match self.step(&mut machine) {
                Went::On => {}
                Went::Done => return,
                stopped => return self.stop(machine, stopped),
            }
        }
    }

    /// Makes jobs alone; called while no flight is open.
    #[inline(always)]
    fn make_alone(&mut self) -> Result<(), Failed<S, J>> {
        while let Some(job) = self.alone.pop() {
            match self.jobs.alone(job) {
                Ok(None) => {}
                Ok(Some(rest)) => self.again.push(Machine::new(rest)),
                Err(error) => return Err((job, error)),
            }
        }
        Ok(())
    }
}
