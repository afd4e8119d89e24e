//! Ctrl-C: work stops at the next safe place, so that children end and directories are removed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::BenchError;

/// The exit status that a shell expects after Ctrl-C.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Says whether somebody asked this process to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens to SIGINT, SIGTERM and SIGHUP; a second one ends the process at once. A SIGHUP that
    /// is ignored stays so, as nohup wants it.
    pub(crate) fn listen() -> Result<Interrupt, BenchError> {
        let flag = Arc::new(AtomicBool::new(false));
        let register = |signal: i32| {
            // The order matters: the first signal finds the flag unset and only sets it.
            flag::register_conditional_shutdown(signal, i32::from(EXIT_STATUS), flag.clone())?;
            flag::register(signal, flag.clone())
        };
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            register(signal).map_err(BenchError::file(Path::new("signals")))?;
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

/// Whether the process that started this one has it ignore the signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zero is a value of this struct of plain fields.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one to `now`.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_goes_away_is_an_interrupt() {
        let was_ignored = is_ignored(SIGHUP);
        let interrupt = Interrupt::listen().unwrap();
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert_eq!(interrupt.is_set(), !was_ignored);
    }
}
