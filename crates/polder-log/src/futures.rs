//! The wakers of futures that wait for a sync: places that they have while they wait (`durable.rs`).

#![cfg(not(loom))]

use std::sync::Mutex;
use std::task::Waker;

use polder_pool::waits::wake;

use crate::sync::lock;

/// Futures that wait for a sync.
#[derive(Debug, Default)]
pub(crate) struct Futures {
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    all: Vec<Option<Place>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    lsn: u64,
    /// None once it was called.
    waker: Option<Waker>,
}

impl Futures {
    /// Gives the number of the place, which is a new one if there is none yet.
    pub(crate) fn leave(&self, place: Option<usize>, lsn: u64, waker: &Waker) -> usize {
        let new = Some(Place { lsn, waker: Some(waker.clone()) });
        let mut places = lock(&self.places);
        let number = place.or_else(|| places.free.pop()).unwrap_or_else(|| {
            places.all.push(None);
            places.all.len() - 1
        });
        let old = std::mem::replace(&mut places.all[number], new);
        // A waker is dropped with nothing locked.
        drop(places);
        drop(old);
        number
    }

    pub(crate) fn forget(&self, number: usize) {
        let mut places = lock(&self.places);
        let old = places.all[number].take();
        places.free.push(number);
        drop(places);
        drop(old);
    }

    /// Whether some wait for more than is durable.
    pub(crate) fn wait_beyond(&self, durable: u64) -> bool {
        lock(&self.places).all.iter().flatten().any(|place| place.lsn > durable)
    }

    /// The log is durable up to here; or it has failed, and all are woken.
    pub(crate) fn wake_up_to(&self, durable: u64) {
        let mut places = lock(&self.places);
        let waiting = places.all.iter_mut().flatten().filter(|place| place.lsn <= durable);
        let wakers: Vec<_> = waiting.filter_map(|place| place.waker.take()).collect();
        drop(places);
        wakers.into_iter().for_each(wake);
    }
}
