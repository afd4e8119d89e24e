//! Pages that are torn where they lie, and the slots that make them whole.

use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, Lines, LogSeed, SlotHeader};
use polder_format::{ChecksumSeed, PageSize, PhysicalPageNo, header_at};
use polder_log::{LogFile, LogOptions, Recovered};
use polder_pool::device::{Device, read_block, write_block};
use polder_pool::journal::{Journal, Outgoing};
use polder_testkit::SimDisk;

use crate::support::{ID, OPTIONS, append, disk, find, open, page};

fn place() -> u64 {
    PhysicalPageNo::new(20).offset(PageSize::MIN)
}

#[repr(align(4096))]
#[derive(Clone, Copy)]
struct Image([u8; 4096]);

/// A page on its way through three states: it gets a byte in line 20, and then one in line 40.
struct Sample {
    log: SimDisk,
    data: SimDisk,
    states: Vec<Image>,
}

/// The device promises to write so many bytes as a whole. The first state is synced, the others are
/// written over it.
fn sample(atomic: usize, options: LogOptions) -> Sample {
    let (log_disk, data) = (disk(), disk());
    data.write_atomically(atomic);
    data.allocate(0, 64 << 12).unwrap();
    let device: Arc<dyn Device> = Arc::new(log_disk.clone());
    let file = LogFile::create(device, ID, PageSize::MIN, &options).unwrap();
    let log = file.begin(Arc::new(data.clone()), PageSize::MIN, options, 1).unwrap();
    let (mut image, mut states) = (Image([3; 4096]), Vec::new());
    let put = |image: &mut Image, at: usize, word: u64| {
        image.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    };
    put(&mut image, header_at::PAGE_ID, page(1).to_bits());
    for (number, lines) in [(0, Lines::ALL), (20, Lines(1 | 1 << 20)), (40, Lines(1 | 1 << 40))] {
        image.0[64 * number + 63] = 77;
        let lsn = append(&log, 1, 100);
        put(&mut image, header_at::LSN, lsn.0);
        ChecksumSeed::new(ID).seal(&mut image.0);
        let written = Outgoing {
            page: page(1),
            physical: PhysicalPageNo::new(20),
            bytes: &image.0,
            imaged: false,
            lines,
        };
        let ticket = log.before_write(&[written]).unwrap();
        write_block(&data, place(), &image.0).unwrap();
        log.after_write(ticket, &[]);
        states.push(image);
        if number == 0 {
            log.flush().unwrap();
            data.sync().unwrap();
        }
    }
    Sample { log: log_disk, data, states }
}

impl Sample {
    /// The slot with this number is used again, and a crash comes before it is whole.
    fn overwrite_slot(&self, sequence: u64) {
        let seed = LogSeed::new(ID);
        let is_it = |at: &u64| {
            let block = read_block(&self.log, *at, LOG_BLOCK_BYTES).unwrap();
            SlotHeader::decode(&block, seed).is_ok_and(|header| header.sequence == sequence)
        };
        let blocks = (0..self.log.len().unwrap()).step_by(LOG_BLOCK_BYTES);
        let header: Vec<u64> = blocks.filter(is_it).collect();
        assert_eq!(header.len(), 1, "slot {sequence}");
        write_block(&self.log, header[0], &[0xAA; LOG_BLOCK_BYTES]).unwrap();
    }

    /// What is in place once the log was opened again, if it was torn like this, in sectors.
    fn restored(&self, tear: impl Fn(usize) -> usize) -> ([u8; 4096], u64) {
        let mut torn = [0; 4096];
        for (number, sector) in torn.chunks_mut(512).enumerate() {
            let at = number * 512;
            sector.copy_from_slice(&self.states[tear(number)].0[at..at + 512]);
        }
        write_block(&self.data, place(), &torn).unwrap();
        let rebuilt = open(&self.log).rebuilt_pages(&self.data, PageSize::MIN);
        let mut recovered = Recovered::default();
        let (found, data) = (find(&self.log).unwrap(), Arc::new(self.data.clone()));
        drop(found.open(open(&self.log), data, PageSize::MIN, OPTIONS, 2, &mut recovered).unwrap());
        let bytes = read_block(&self.data, place(), 4096).unwrap();
        // What is looked for in a damaged store is what a recovery makes.
        assert_eq!(rebuilt.len() as u64, recovered.restored_pages);
        assert!(
            rebuilt.iter().all(|page| page.header.page_id == self::page(1) && page.bytes == bytes)
        );
        (bytes.try_into().unwrap(), recovered.restored_pages)
    }
}

/// `SLOT-3`: a page whose sectors are of three states becomes the last of them, by lines of two slots.
/// One that is whole stays as it is.
#[test]
fn a_page_that_is_torn_between_several_states_becomes_the_last() {
    let sample = sample(512, OPTIONS);
    for seed in 1_usize..3000 {
        let (restored, pages) = sample.restored(|sector| seed / 3_usize.pow(sector as u32) % 3);
        let state = sample.states.iter().position(|state| state.0 == restored);
        assert!(state.is_some(), "{seed}: it is none of the states");
        assert!(pages == 0 || state == Some(2), "{seed}: state {state:?}");
    }
}

/// `SLOT-3`: what an older slot has, which was not used again yet, is not laid over what was synced
/// since.
#[test]
fn a_page_becomes_whole_though_an_older_slot_was_used_again() {
    let sample = sample(512, OPTIONS);
    sample.overwrite_slot(2);
    for seed in 0..1_usize << 8 {
        let (restored, pages) = sample.restored(|sector| 1 + (seed >> sector & 1));
        let state = sample.states.iter().position(|state| state.0 == restored);
        assert!(state >= Some(1) && (pages == 0 || state == Some(2)), "{seed}: state {state:?}");
    }
}

/// Where a device promises nothing, or is not relied on, a slot holds all lines: what lies in place
/// may be garbage.
#[test]
fn garbage_is_made_whole_where_nothing_is_promised() {
    let always = LogOptions { always_double_write: true, ..OPTIONS };
    for (atomic, options) in [(0, OPTIONS), (512, always)] {
        let mut sample = sample(atomic, options);
        let last = sample.states[2];
        sample.states = vec![Image([0xEE; 4096]); 3];
        assert_eq!(sample.restored(|_| 0), (last.0, 1));
    }
}
