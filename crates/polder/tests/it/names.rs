//! Every type in a signature of `polder` can be named from `polder` alone: nothing here imports the
//! crates below.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder::device::{
    Batch, Buffer, Device, Direction, FileDevice, OpenKind, PageId, Request, SpaceId,
};
use polder::tuple::{Element, Encoder, OwnedElement, TupleError};
use polder::{
    BatchError, GroupSize, NodeStats, OpenError, OptionsError, PoolStats, ReadMode,
    ReplacementKind, SalvageError, SpaceStats, Store, StoreError, TranslationKind, UnknownReadMode,
    UnknownReplacement,
};

use crate::support::quick;

/// A device of an application: it counts what is written.
#[derive(Debug)]
struct Counting {
    file: FileDevice,
    written_bytes: Arc<AtomicU64>,
}

impl Device for Counting {
    fn perform(&self, batch: Batch) -> Batch {
        let bytes = |request: &Request| {
            let (_page, buffer): (PageId, Buffer) = (request.page, request.buffer);
            if request.direction == Direction::Write { buffer.len() as u64 } else { 0 }
        };
        let written = batch.requests().iter().map(bytes).sum();
        self.written_bytes.fetch_add(written, Ordering::Relaxed);
        self.file.perform(batch)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[test]
fn a_store_stands_on_a_device_of_an_application() {
    let dir = tempfile::tempdir().unwrap();
    let written_bytes = Arc::new(AtomicU64::new(0));
    let device = |name| {
        let file = FileDevice::open(dir.path().join(name), OpenKind::Create).unwrap();
        Box::new(Counting { file, written_bytes: Arc::clone(&written_bytes) })
    };
    let store = Store::open_on(device("data"), device("log"), quick("counted")).unwrap();
    store.open_table("t").unwrap().put("key", "value").unwrap();
    store.close().unwrap();
    assert!(written_bytes.load(Ordering::Relaxed) > 0);
}

/// What an application finds in errors. That this compiles is the test.
#[allow(dead_code)]
fn cause(error: polder::Error) -> Option<Box<dyn Error + Send + Sync>> {
    use polder::Error::{Batch, Open, Salvage, Store, Tuple};
    match error {
        Open(OpenError::Newer { source, .. } | OpenError::Log { source, .. }) => Some(source),
        Open(OpenError::Damaged { source, .. }) => Some(source),
        Open(OpenError::Options(OptionsError::ReadMode { read_mode, translation, why })) => {
            let (_, _, why): (ReadMode, TranslationKind, &str) = (read_mode, translation, why);
            Some(why.into())
        }
        Store(StoreError::Full { source } | StoreError::PoolExhausted { source }) => Some(source),
        Store(StoreError::Corrupt { source, .. } | StoreError::Io { source }) => Some(source),
        Batch(BatchError::Store(error)) | Salvage(SalvageError::Write(error)) => {
            cause(Store(error))
        }
        Tuple(error) => {
            let _: TupleError = error.clone();
            Some(error.into())
        }
        _ => None,
    }
}

#[test]
fn what_is_chosen_by_name_has_an_error_that_can_be_named() {
    let unknown: UnknownReplacement = "hush".parse::<ReplacementKind>().unwrap_err();
    assert!(unknown.to_string().contains("hush"));
    let unknown: UnknownReadMode = "hush".parse::<ReadMode>().unwrap_err();
    assert!(unknown.to_string().contains("hush"));
    let unknown: OptionsError = "hush".parse::<TranslationKind>().unwrap_err();
    assert!(unknown.to_string().contains("hush"));
    assert_eq!("group:4".parse(), Ok(ReadMode::GroupOf(GroupSize::new(4).unwrap())));
    let mut encoder = Encoder::default();
    let element: Element<'_> = OwnedElement::Uint(1).as_element();
    encoder.push(element).unwrap();
    let _: fn(polder::Stats) -> PoolStats = |stats| stats.pool;
    let _: fn(PoolStats) -> Vec<NodeStats> = |pool| pool.nodes;
    let _: fn(PoolStats) -> HashMap<SpaceId, SpaceStats> = |pool| pool.spaces;
}
