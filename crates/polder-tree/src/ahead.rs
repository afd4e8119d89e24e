//! How far ahead of itself a scan has pages loaded.
//!
//! None as long as it finds all in memory. Behind a page that was missing, few at first, and twice as
//! many each time, as a short scan would have pages loaded that it never comes to; in the end so many
//! that a device has several large requests at once.

use polder_format::PageNo;
use polder_pool::{Space, Translation};

/// Pages that are asked for at first.
const FIRST: usize = 16;
/// Bytes of pages, at most.
const MOST_BYTES: usize = 4 << 20;
/// Pages behind one that was missing for which a scan goes on asking.
const COLD: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// For so many pages more those ahead of them are asked for.
    cold: u32,
    window: usize,
}

impl Ahead {
    /// The scan has come to a page: whether those ahead are to be asked for.
    #[inline]
    pub(crate) fn note(&mut self, was_missing: bool) -> bool {
        match was_missing {
            true => self.cold = self.cold.max(COLD),
            false => self.cold = self.cold.saturating_sub(1),
        }
        self.cold > 0
    }

    /// How many pages from the next one on are to have been asked for; none if of those for which that
    /// is so enough are left: three quarters, since those that have come and are not seen to yet are among
    /// them, and the device is busy with the others alone.
    pub(crate) fn wanted<T: Translation>(
        &mut self,
        space: &Space<T>,
        left: usize,
    ) -> Option<usize> {
        let most = (MOST_BYTES / space.page_size().bytes()).max(FIRST).min(space.most_ahead());
        self.window = self.window.clamp(FIRST.min(most), most);
        (most > 0 && left <= self.window - self.window / 4).then_some(self.window)
    }

    /// Asks for pages.
    pub(crate) fn ask<T: Translation>(&mut self, space: &Space<T>, pages: &[PageNo]) {
        if !pages.is_empty() {
            self.asked(space.load_ahead(pages.iter().copied()) > 0);
        }
        self.window *= 2;
    }

    /// If some of what was asked for was missing, the scan goes on asking until it has passed that, however
    /// many pages it finds in memory by then: if all goes well these are all of them.
    fn asked(&mut self, some_missing: bool) {
        if some_missing {
            self.cold = self.cold.max(self.window as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_asking_as_long_as_what_it_asked_for_is_ahead() {
        let mut ahead = Ahead { cold: 0, window: 1000 };
        assert!(!ahead.note(false));
        assert!(ahead.note(true));
        ahead.asked(true);
        // Each page is there when the scan comes to it; for one of them it has to wait.
        assert!((0..999).all(|page| ahead.note(page == 500)));
        // Nothing ahead is missing any more.
        ahead.asked(false);
        let more = (0..2000).take_while(|_| ahead.note(false)).count();
        assert!(more < COLD as usize, "{more}");
    }
}
