//! Structures that are in the way of others, or of their own entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder::OpenError;
use polder::structure::{
    KindOps, PAGE_HEADER_BYTES, PageKind, PageRef, PoolError, Space, Structure, Translation,
};

use crate::structures::{assert_whole, fill, open, options};
use crate::support::*;

static REDONE: AtomicU64 = AtomicU64::new(0);

/// A structure with the kind of a hash index's buckets, which would make of its records what it likes.
enum Taker {}

impl Structure for Taker {
    const NAME: &'static str = "polder.taker";
    const KINDS: &'static [KindOps] = &[KindOps {
        max_layout: u8::MAX,
        redo: Some(|_, mut page| {
            REDONE.fetch_add(1, Ordering::Relaxed);
            page.zero(PAGE_HEADER_BYTES, page.size() - PAGE_HEADER_BYTES);
            Ok(())
        }),
        ..KindOps::plain(PageKind::HASH_BUCKET, "test", |_| Ok(()))
    }];
    type Handle = ();
    fn create<T: Translation>(_: &Space<T>) -> Result<(), PoolError> {
        Ok(())
    }
    fn open<T: Translation>(_: Space<T>) -> Result<Arc<()>, PoolError> {
        Ok(Arc::new(()))
    }
    fn entries(_: PageRef<'_>, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn restore(_: &(), _: &[u8], _: &[u8]) -> Result<(), PoolError> {
        Ok(())
    }
}

/// What one structure has logged no other one redoes, whatever it takes the pages for.
#[test]
fn a_kind_that_is_taken_is_found_before_its_pages_are_redone() {
    let disks = disk();
    // Also the making of the structure is in the log alone.
    let sample = fill(disks.open(options()).unwrap());
    let after = disks.kill(1);
    drop(sample);
    match after.open(tight("simulated").structure::<Taker>()) {
        Err(OpenError::KindTaken { name, registered, .. }) => {
            assert_eq!((name.as_str(), registered.as_str()), ("hash", "polder.taker"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(REDONE.load(Ordering::Relaxed), 0);
    assert_whole(&open(after.open(options()).unwrap()));
}
