//! Reads of the device that are under way, and their end.

#![cfg(not(loom))]

use std::thread;
use std::time::Duration;

use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often the thread that ends the reading looks whether reads are under way.
const LOOK: Duration = Duration::from_micros(200);

/// Counts the reads of the device that are under way, until there are to be none any more.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    under_way: CachePadded<AtomicU32>,
    /// The device is not read any more. The thread that sets it waits afterwards until no read is
    /// under way, and a reader is counted first and looks then: `SeqCst` on both sides.
    ended: AtomicBool,
}

/// A read of the device that is under way.
#[derive(Debug)]
pub(crate) struct Reading<'a>(&'a Reads);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}

impl Reads {
    /// To read the device; `None` if that was ended.
    pub(crate) fn begin(&self) -> Option<Reading<'_>> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let reading = Reading(self);
        (!self.ended.load(Ordering::SeqCst)).then_some(reading)
    }

    /// Whether the device is being read.
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Ends the reading of the device, and waits for the reads that are under way.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        while self.under_way.load(Ordering::SeqCst) > 0 {
            thread::sleep(LOOK);
        }
    }
}
