//! The pages in their frames, as policies see them and as those who take them out find them.

#![cfg(not(loom))]

use std::cell::Cell;
use std::sync::Arc;

use polder_format::PageId;

use crate::latch::{FrameId, StateCell, StateWord};
use crate::replacement::{Look, Pages};
use crate::shared::{Shared, SpaceCore};
use crate::translation::Translation;

/// The pages as the policy sees them.
pub(crate) struct PagesOf<'p, T: Translation> {
    pub(crate) shared: &'p Shared<T>,
    /// The last space that was asked for: neighbours often share one.
    last: Cell<Option<Arc<SpaceCore<T>>>>,
}

impl<'p, T: Translation> PagesOf<'p, T> {
    pub(crate) fn new(shared: &'p Shared<T>) -> PagesOf<'p, T> {
        PagesOf { shared, last: Cell::new(None) }
    }

    /// E1: the page in a frame, its state and what its word was. The frame may hold another page
    /// by the time of the word: the thread that takes it compares.
    pub(crate) fn with<R>(
        &self,
        frame: FrameId,
        then: impl FnOnce(&Arc<SpaceCore<T>>, PageId, &StateCell, StateWord) -> R,
    ) -> Option<R> {
        let page = self.shared.core.latches.meta(frame).page();
        if page.is_null() {
            return None;
        }
        let last = self.last.take().filter(|space| space.id == page.space());
        let space = last.or_else(|| self.shared.space(page.space()))?;
        let result = self
            .shared
            .state_of(&space, page.page())
            .map(|cell| (cell, cell.read()))
            .filter(|(_, word)| word.frame() == frame)
            .map(|(cell, word)| then(&space, page, cell, word));
        self.last.set(Some(space));
        result
    }

    /// Whether a page bears the mark of its policy, and not only one for somebody else.
    pub(crate) fn is_marked(&self, frame: FrameId, word: StateWord) -> bool {
        self.shared.core.replacement.is_marked(frame, word.is_marked())
    }
}

impl<T: Translation> Pages for PagesOf<'_, T> {
    fn look(&self, frame: FrameId) -> Look {
        self.with(frame, |_, _, _, word| match (word.is_free(), word.is_marked()) {
            (false, _) => Look::Nothing,
            (true, false) => Look::Plain,
            (true, true) => Look::Marked,
        })
        .unwrap_or(Look::Nothing)
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        // U5  the page cools: no link holds it
        let shared = self.shared;
        let plain = shared.translation.before_cooling(&shared.context(), frame, false);
        plain.inspect(|frame| {
            self.with(*frame, |_, _, cell, word| word.is_free() && cell.mark(word));
        });
        plain.unwrap_or(frame)
    }
}
