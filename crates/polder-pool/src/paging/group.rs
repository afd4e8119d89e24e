//! Pages of one space that are loaded together, by one batch of reads, in the order of where they lie, so
//! that neighbours in the file are one request of the device. Only what can be begun without waiting
//! (`FLIGHT-1`): the rest is left to whoever reads it.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::device::{Batch, sort_by_offset};
use crate::paging::flights::Begun;
use crate::replacement::AccessHint;
use crate::shared::View;
use crate::translation::Translation;

impl<T: Translation> View<'_, T> {
    /// Loads those that can be begun without waiting; gives how many were loaded.
    #[cold]
    pub(crate) fn load_group(self, missing: &[PageId], hint: AccessHint) -> usize {
        let View { shared, space } = self;
        let (mut open, mut requests) = (Vec::new(), Vec::new());
        for page in missing.iter().filter(|page| page.space() == space.id && !page.is_null()) {
            if open.len() == shared.most_flights() {
                break;
            }
            let Begun::Open(mut fault) = shared.begin_fault(space, page.page()) else { continue };
            if let Ok(request) = fault.request() {
                requests.push(request);
                open.push(fault);
            }
        }
        if open.is_empty() {
            return 0;
        }
        // The faults, which own the frames (FLIGHT-2), in the order of their requests.
        sort_by_offset(&mut requests, |request| request.offset);
        let device = &shared.core.data.device;
        let batch = device.perform(Batch::Many(requests));
        let mut loaded = 0;
        for read in batch.into_requests() {
            let Some(at) = open.iter().position(|fault| fault.id() == read.page) else { continue };
            let fault = open.swap_remove(at);
            loaded += usize::from(fault.finish(read.outcome, hint).is_ok());
        }
        loaded
    }
}
