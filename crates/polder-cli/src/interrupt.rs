//! Ctrl-C as a flag.
//!
//! A signal only sets the flag. Every loop of a command that can take long looks at it and ends in
//! good order, so that the store is closed. There is no second, harder Ctrl-C: a recovery takes
//! longer than a moment.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether somebody wants the command to end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens to the signals that ask a process to end. A hang-up that is being ignored (`nohup`)
    /// stays ignored.
    pub fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal != SIGHUP || !is_ignored(signal) {
                signal_hook::flag::register(signal, interrupt.0.clone())?;
            }
        }
        Ok(interrupt)
    }

    /// As a signal would.
    #[cfg(test)]
    pub fn request(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether to end.
    pub fn requested(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// An error if the command shall end.
    pub fn check(&self) -> Result<(), Failure> {
        if self.requested() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// Whether the process was started with this signal ignored; `false` where that is not known.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?.trim();
            u64::from_str_radix(mask, 16).ok()
        })
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
