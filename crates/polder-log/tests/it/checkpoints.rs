//! What a checkpoint says of tables is found, whatever else is logged meanwhile.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use polder_format::log::{Group, LoggedValue, Operation};
use polder_format::{Lsn, PageId, PageNo, SpaceId, Superblock};
use polder_log::{Log, LogOptions};
use polder_pool::journal::Journal;

use crate::support::*;

fn insert_into(log: &Log, space: u64) -> Lsn {
    let page = PageId::new(SpaceId::new(space).unwrap(), PageNo::new(1).unwrap());
    let value = LoggedValue::Inline(b"");
    let mut group = Group::new();
    group.push(page, &Operation::Insert { added: true, version: 1, key: b"key", value });
    let reserved = group.len() as u64;
    log.reserve(reserved).unwrap();
    log.append(&mut group, reserved)
}

/// The counts of many tables take several groups, and writers put theirs in between.
#[test]
fn the_counts_of_a_checkpoint_in_several_groups_are_found() {
    let disk = disk();
    // No room for two of these groups: the second one waits.
    let options = LogOptions { buffer_bytes: 128 << 10, ..OPTIONS };
    let log = begin_with(Arc::new(disk.clone()), options);
    let (other, tables) = (9, 10..9010);
    for space in tables.clone() {
        let lsn = insert_into(&log, space);
        if space % 1000 == 0 {
            log.await_durable(lsn).unwrap();
        }
    }
    let begun = log.begin_checkpoint().unwrap();
    let (done, marked) = mpsc::channel();
    let checkpoint = Arc::clone(&log);
    thread::spawn(move || {
        checkpoint.finish_checkpoint(&begun, 7, |mark| done.send(mark).map_err(io::Error::other))
    });
    let begin = log.durable();
    await_that(|| log.end().0 > begin.0 + options.buffer_bytes);
    let full = log.end();
    let writer = Arc::clone(&log);
    thread::spawn(move || insert_into(&writer, other));
    await_that(|| log.end() > full);
    let flushed = Arc::clone(&log);
    in_time(move || flushed.flush()).unwrap();
    let mark = marked.recv_timeout(Duration::from_secs(10)).expect("the checkpoint waits for ever");
    let superblock = Superblock {
        redo_start: mark.redo_start,
        checkpoint: mark.checkpoint,
        next_version: mark.next_version,
        ..superblock(mark.durable)
    };
    let file = open(&disk.crash(0));
    let found = file.find_end(&superblock, &mut |_| {}).unwrap();
    let mut groups = file.groups(found.start);
    let count = std::iter::from_fn(|| groups.next().unwrap().map(drop)).count();
    assert_eq!((count, found.groups), (4, 1), "three of the checkpoint, and one that inserts");
    for space in tables.chain([other]) {
        assert_eq!(found.tally.entries(SpaceId::new(space).unwrap()), 1, "table {space}");
    }
}
