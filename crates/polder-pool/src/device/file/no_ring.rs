//! Where the kernel has no rings: threads make the transfers.

use std::convert::Infallible;
use std::marker::PhantomData;

use super::calls::Calls;
use super::transfer::{Numbered, Transfer};

/// The rings of a file: there are none.
#[derive(Debug, Default)]
pub(super) struct Rings;

/// There is none.
pub(super) struct Ring<'d>(Infallible, PhantomData<&'d ()>);

impl Rings {
    pub(super) fn are_refused(&self) -> bool {
        true
    }

    pub(super) fn try_first(&self) {}

    pub(super) fn ring(&self, _: &Calls) -> Option<Ring<'_>> {
        None
    }

    pub(super) fn close_idle(&self) {}

    #[cfg(test)]
    pub(super) fn refuse(&self) {}

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (0, 0)
    }
}

impl Ring<'_> {
    pub(super) fn has_room(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn under_way(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn start(&mut self, _: &mut Transfer) {
        match self.0 {}
    }

    pub(super) fn enter(&mut self, _: bool, _: &mut Vec<Numbered>) {
        match self.0 {}
    }
}
