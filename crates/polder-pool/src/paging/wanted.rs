//! Pages that futures wait for: the protocol between them and the one thread that loads for them
//! (`loader.rs`), which loom runs.
//!
//! A future that misses a page holds nothing: it *asks* here, leaves its waker, and is polled again
//! when the page has come, or is not to come this way. What it has here is a place, by a number.
//!
//! ```text
//!                ask                              tell, end
//!   (no place) -------> waiting: page, waker ------------------> told: an answer
//!        ^                 |  ^   |                                  |
//!        |                 |  +---+ poll: the waker of the last poll |
//!        +-----------------+                                         |
//!        |     forget: the future is dropped                         |
//!        +-----------------------------------------------------------+
//!                                  poll, forget
//!
//!   page:  (not here) --ask--> new --next--> taken --tell--> (not here)
//!                               +--next: nobody waits--------^
//! ```
//!
//! * `ASK-1` A page is new or taken exactly once, from the first ask until it is told; whoever asks
//!   meanwhile is told with the others. So a page that is told was looked at after each of them had
//!   found it missing, or before: then they find it.
//! * `ASK-2` A place that waits is told, or forgotten. What is told after the place was forgotten goes
//!   nowhere, also if another future has the number by then.
//! * `ASK-3` Wakers are called, and dropped, with the mutex released.
//! * `ASK-4` After the end for good nobody waits: to ask is refused.
//!
//! A future that is dropped leaves at most the page in the list of new ones, which is passed over when
//! its turn comes.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::task::Waker;

use polder_format::PageId;

use crate::sync::{Mutex, lock};

/// What a future waits for; the answer it is told is an `A`.
#[derive(Debug)]
pub(crate) struct Wanted<A> {
    state: Mutex<State<A>>,
}

/// A page that is wanted, and the one above that leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) page: PageId,
    pub(crate) above: Option<PageId>,
}

#[derive(Debug)]
struct State<A> {
    has_ended: bool,
    new: VecDeque<Wish>,
    /// The futures that wait for each page that is new or taken.
    pages: HashMap<PageId, Vec<usize>>,
    places: Vec<Place<A>>,
    free: Vec<usize>,
}

#[derive(Debug)]
enum Place<A> {
    Free,
    Waiting(PageId, Waker),
    Told(A),
}

impl<A> Default for Wanted<A> {
    fn default() -> Wanted<A> {
        let (new, pages) = (VecDeque::new(), HashMap::new());
        let (places, free) = (Vec::new(), Vec::new());
        Wanted { state: Mutex::new(State { has_ended: false, new, pages, places, free }) }
    }
}

impl<A: Clone> Wanted<A> {
    /// Of a future: it wants this page. Gives the number of its place; none after the end.
    pub(crate) fn ask(&self, wish: Wish, waker: &Waker) -> Option<usize> {
        let place = Place::Waiting(wish.page, waker.clone());
        let mut state = lock(&self.state);
        if state.has_ended {
            drop(state); // ASK-3
            return None;
        }
        let number = match state.free.pop() {
            Some(number) => {
                state.places[number] = place;
                number
            }
            None => {
                state.places.push(place);
                state.places.len() - 1
            }
        };
        let State { new, pages, .. } = &mut *state;
        let waiting = pages.entry(wish.page).or_insert_with(|| {
            new.push_back(wish); // ASK-1
            Vec::new()
        });
        waiting.push(number);
        Some(number)
    }

    /// Of a future: the answer, and the place is its no more; or none yet.
    pub(crate) fn poll(&self, number: usize, waker: &Waker) -> Option<A> {
        let new = waker.clone(); // ASK-3
        let mut state = lock(&self.state);
        let place = &mut state.places[number];
        let old = match place {
            Place::Waiting(_, before) => std::mem::replace(before, new),
            _ => {
                let told = std::mem::replace(place, Place::Free);
                state.free.push(number);
                let Place::Told(answer) = told else { return None };
                return Some(answer);
            }
        };
        drop(state); // ASK-3
        drop(old);
        None
    }

    /// Of a future that is dropped.
    pub(crate) fn forget(&self, number: usize) {
        let mut state = lock(&self.state);
        let place = std::mem::replace(&mut state.places[number], Place::Free);
        state.free.push(number);
        if let Place::Waiting(page, _) = &place
            && let Some(waiting) = state.pages.get_mut(page)
        {
            waiting.retain(|waits| *waits != number); // ASK-2
        }
        drop(state); // ASK-3
        drop(place);
    }

    /// Of the thread that loads: the next page that somebody waits for, which it takes: it tells what
    /// has become of it.
    pub(crate) fn next(&self) -> Option<Wish> {
        let mut state = lock(&self.state);
        loop {
            let wish = state.new.pop_front()?;
            if state.pages.get(&wish.page).is_some_and(|waiting| !waiting.is_empty()) {
                return Some(wish);
            }
            state.pages.remove(&wish.page);
        }
    }

    /// Of the thread that loads: this has become of a page that it has taken.
    pub(crate) fn tell(&self, page: PageId, answer: &A, wake: impl Fn(Waker)) {
        let mut state = lock(&self.state);
        let waiting = state.pages.remove(&page).unwrap_or_default();
        let wakers: Vec<_> =
            waiting.into_iter().filter_map(|number| state.tell(number, answer)).collect();
        drop(state); // ASK-3
        wakers.into_iter().for_each(wake);
    }

    /// All that wait are told so, and nobody waits any more (`ASK-4`).
    pub(crate) fn end(&self, answer: &A, wake: impl Fn(Waker)) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.new.clear();
        state.pages.clear();
        let wakers: Vec<_> =
            (0..state.places.len()).filter_map(|number| state.tell(number, answer)).collect();
        drop(state); // ASK-3
        wakers.into_iter().for_each(wake);
    }

    /// How many places are taken: for the models.
    #[cfg(all(loom, test))]
    pub(crate) fn places(&self) -> usize {
        let state = lock(&self.state);
        state.places.len() - state.free.len()
    }
}

impl<A: Clone> State<A> {
    /// The waker of a place that waits, which is told.
    fn tell(&mut self, number: usize, answer: &A) -> Option<Waker> {
        let place = self.places.get_mut(number)?;
        if !matches!(place, Place::Waiting(..)) {
            return None;
        }
        match std::mem::replace(place, Place::Told(answer.clone())) {
            Place::Waiting(_, waker) => Some(waker),
            _ => None,
        }
    }
}
