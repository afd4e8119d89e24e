//! Entries in order, as a stream.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::stream::{FusedStream, Stream};
use polder_pool::waits::without_waiting;

use super::operation::{Next, Waiting, is_forked};
use crate::any::{Any, dispatch};
use crate::error::StoreError;
use crate::families::Engines;
use crate::range::{Entry, Range};

type Given = Option<Result<Entry, StoreError>>;

/// Entries of a table in order, as a stream: what [`Range`] is among iterators. It reads nothing until
/// it is polled, and holds nothing between two polls; pages before it are read ahead.
///
/// After an error it gives nothing more, until [`AsyncRange::resume`]. A poll that finds an entry in
/// memory is ready at once: a task that reads very many of them gives way to others by itself, if it
/// should.
#[must_use = "a range reads nothing until it is asked for entries"]
pub struct AsyncRange {
    engine: Any<Engines>,
    /// None while a helper has it, or if one panicked with it.
    range: Option<Range>,
    is_backward: bool,
    waiting: Waiting<(Range, Given)>,
    /// How many pages the next entry has waited for.
    pages: u32,
    has_ended: bool,
}

impl fmt::Debug for AsyncRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncRange").field("range", &self.range).finish_non_exhaustive()
    }
}

fn step(range: &mut Range, is_backward: bool) -> Given {
    if is_backward { range.next_back() } else { range.next() }
}

impl AsyncRange {
    pub(super) fn new(engine: Any<Engines>, range: Range) -> AsyncRange {
        let waiting = Waiting::Nothing;
        let range = Some(range);
        AsyncRange { engine, range, is_backward: false, waiting, pages: 0, has_ended: false }
    }

    /// The entries that are left, from the greatest key on.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # futures_lite::future::block_on(async {
    /// let years = store.open_table("years")?.asynchronous();
    /// years.put("1246", "Delft").await?;
    /// years.put("1272", "Gouda").await?;
    /// let last = years.range(..).backward().next().await.transpose()?;
    /// assert_eq!(last.map(|(year, _)| year), Some(b"1272".to_vec()));
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn backward(mut self) -> AsyncRange {
        self.is_backward = true;
        self
    }

    /// The next entry; `None` when there is no more. Its future may be dropped: no entry is lost.
    ///
    /// # Errors
    /// Those of reading pages, in place of an entry.
    // Of the name that streams have for it, in a world without their traits.
    #[allow(clippy::should_implement_trait)]
    pub async fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        poll_fn(|cx| self.poll_entry(cx)).await
    }

    /// Goes on after an error, as [`Range::resume`] does.
    pub fn resume(&mut self) {
        self.has_ended = false;
        self.range.iter_mut().for_each(Range::resume);
    }

    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Given> {
        if is_forked(&self.engine) {
            let ended = std::mem::replace(&mut self.has_ended, true);
            return Poll::Ready((!ended).then_some(Err(StoreError::Forked)));
        }
        loop {
            let Poll::Ready(next) = self.waiting.poll(cx) else { return Poll::Pending };
            let hand_over = match next {
                Next::Done((range, given)) => {
                    self.range = Some(range);
                    return self.give(given);
                }
                Next::Fail(error) => {
                    let name = self.range.as_ref().map_or_else(String::new, Range::table_name);
                    return self.give(Some(Err(StoreError::of_pool(&name, error))));
                }
                Next::HandOver => true,
                Next::Try => {
                    let Some(range) = &mut self.range else { return Poll::Ready(None) };
                    // It was refused, which is no error of its own.
                    if self.pages > 0 {
                        range.resume();
                    }
                    let is_backward = self.is_backward;
                    match without_waiting(self.pages > 0, || step(range, is_backward)) {
                        (Some(Err(_)), Some(refused)) => {
                            !self.waiting.wait_for(refused, &mut self.pages, &self.engine, cx)
                        }
                        (given, _) => return self.give(given),
                    }
                }
            };
            if hand_over && let Some(mut range) = self.range.take() {
                let is_backward = self.is_backward;
                let work = move || {
                    range.resume();
                    let given = step(&mut range, is_backward);
                    (range, given)
                };
                let job = dispatch!(&self.engine, engine => engine.helpers.readers.begin(work));
                self.waiting = Waiting::Helper(job);
            }
        }
    }

    fn give(&mut self, given: Given) -> Poll<Given> {
        self.pages = 0;
        self.has_ended = !matches!(given, Some(Ok(_)));
        Poll::Ready(given)
    }
}

impl Stream for AsyncRange {
    type Item = Result<Entry, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_entry(cx)
    }
}

impl FusedStream for AsyncRange {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl Drop for AsyncRange {
    fn drop(&mut self) {
        if is_forked(&self.engine) {
            self.waiting.leave_forked();
        }
    }
}
