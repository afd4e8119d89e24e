//! Where there are no queues: each transfer is a call of its own.

use std::fs::File;

use libc::iovec;

use super::FileDevice;
use super::run::Run;
use crate::device::ReadQueue;

/// The queues of a file: there are none.
#[derive(Debug)]
pub(super) struct Queues;

/// No better queue than that of every device.
pub(super) fn reads(_: &FileDevice) -> Option<Box<dyn ReadQueue + '_>> {
    None
}

impl Queues {
    pub(super) fn at_most(_: usize) -> Queues {
        Queues
    }

    pub(super) fn transfer(&self, _: &File, _: &[Run], _: &[iovec]) -> Vec<Option<usize>> {
        Vec::new()
    }

    #[cfg(test)]
    pub(super) fn refuse(&self) {}

    #[cfg(test)]
    pub(super) fn are_refused(&self) -> bool {
        true
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (0, 0)
    }
}
