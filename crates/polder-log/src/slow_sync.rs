//! Syncs that are timed, so that a slow device is told of.

#![cfg(not(loom))]

use std::io;
use std::time::{Duration, Instant};

use polder_pool::device::Device;
use polder_pool::event;

/// A sync that takes longer is slow, by any device.
const SLOW: Duration = Duration::from_secs(1);

/// Syncs the device of the file `name`.
pub(crate) fn timed_sync(device: &dyn Device, name: &'static str) -> io::Result<()> {
    let begun = Instant::now();
    let synced = device.sync();
    let ms = begun.elapsed().as_millis();
    if ms > SLOW.as_millis() {
        event!(warn, file = name, ms = ms, "the device was slow to sync");
    }
    synced
}
