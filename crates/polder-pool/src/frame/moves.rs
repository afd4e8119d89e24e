//! Pages that move from frame to frame, and sweeps that look at frame after frame for dirty ones.
//!
//! A sweep visits frame after frame; a dirty page that jumps from one not yet visited to one that
//! was is missed. So a checkpoint says first that a sweep is under way, and then closes and opens
//! the page-move gate once: a thread that moves a page after that moves a clean one. The gate is
//! only tried where something is held (P1, C1: shared), and taken exclusively by a thread that
//! holds nothing.

use std::sync::TryLockError;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Whether pages may change their frames just now.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Held shared by a thread that moves a page; by a sweep exclusively, for a moment.
    gate: RwLock<()>,
    sweeps: AtomicU32,
}

impl Moves {
    /// P1.
    pub(crate) fn enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        match self.gate.try_read() {
            Ok(entered) => Some(entered),
            Err(TryLockError::Poisoned(entered)) => Some(entered.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A thread that has entered sees a sweep that had begun before.
    pub(crate) fn is_sweep_under_way(&self) -> bool {
        self.sweeps.load(Ordering::Acquire) != 0
    }

    /// No page moves until what this gives goes. For a caller that holds nothing.
    pub(crate) fn stop(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// From now on, until what this gives goes, dirty pages stay in their frames.
    pub(crate) fn begin_sweep(&self) -> Sweeping<'_> {
        self.sweeps.fetch_add(1, Ordering::Release);
        drop(self.stop());
        Sweeping(self)
    }
}

/// A sweep over all frames is under way.
#[must_use]
pub(crate) struct Sweeping<'a>(&'a Moves);

impl Drop for Sweeping<'_> {
    fn drop(&mut self) {
        self.0.sweeps.fetch_sub(1, Ordering::Release);
    }
}
