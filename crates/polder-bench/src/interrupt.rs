//! Ctrl-C: work stops at the next safe place, so that children end and directories are removed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::BenchError;

/// The exit status that a shell expects after Ctrl-C.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Says whether somebody asked this process to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens to SIGINT and SIGTERM; a second one ends the process at once.
    pub(crate) fn listen() -> io::Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag unset and only sets it.
            flag::register_conditional_shutdown(signal, i32::from(EXIT_STATUS), flag.clone())?;
            flag::register(signal, flag.clone())?;
        }
        Ok(Interrupt(flag))
    }

    /// Listens to no signal; [`Interrupt::set`] alone asks.
    pub(crate) fn silent() -> Interrupt {
        Interrupt(Arc::new(AtomicBool::new(false)))
    }

    /// Asks.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if somebody asked.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.is_set() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}
