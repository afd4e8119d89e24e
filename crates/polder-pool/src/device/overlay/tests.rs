use proptest::prelude::*;

use super::super::{OpenKind, read_block, write_block};
use super::*;

const BLOCK: usize = BLOCK_BYTES as usize;

fn below(folder: &std::path::Path, bytes: &[u8]) -> Arc<FileDevice> {
    let path = folder.join("below");
    std::fs::write(&path, bytes).unwrap();
    Arc::new(FileDevice::open(path, OpenKind::ReadOnly).unwrap())
}

/// What is done to a device, in blocks.
#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize, byte: u8 },
    Read { at: usize, len: usize },
    Truncate { len: usize },
    Allocate { at: usize, len: usize },
    Punch { at: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0usize..12, 1usize..5);
    prop_oneof![
        4 => (range(), any::<u8>()).prop_map(|((at, len), byte)| Step::Write { at, len, byte }),
        4 => range().prop_map(|(at, len)| Step::Read { at, len }),
        1 => (0usize..14).prop_map(|len| Step::Truncate { len }),
        1 => range().prop_map(|(at, len)| Step::Allocate { at, len }),
        1 => range().prop_map(|(at, len)| Step::Punch { at, len }),
    ]
}

proptest! {
    /// It is a device like any other, and the one below stays as it is.
    #[test]
    fn an_overlay_is_a_device(steps in prop::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..8 * BLOCK).map(|i| (i / BLOCK + 1) as u8).collect();
        let below = below(folder.path(), &bytes);
        let device = OverlayDevice::new(below, folder.path()).unwrap();
        let mut model = bytes.clone();
        for step in steps {
            match step {
                Step::Write { at, len, byte } => {
                    let end = (at + len) * BLOCK;
                    write_block(&device, (at * BLOCK) as u64, &vec![byte; len * BLOCK]).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[at * BLOCK..end].fill(byte);
                }
                Step::Read { at, len } => {
                    let read = read_block(&device, (at * BLOCK) as u64, len * BLOCK);
                    match model.get(at * BLOCK..(at + len) * BLOCK) {
                        Some(expected) => prop_assert_eq!(read.unwrap(), expected),
                        None => {
                            let kind = read.unwrap_err().kind();
                            prop_assert_eq!(kind, io::ErrorKind::UnexpectedEof);
                        }
                    }
                }
                Step::Truncate { len } => {
                    device.truncate((len * BLOCK) as u64).unwrap();
                    model.resize(len * BLOCK, 0);
                }
                Step::Allocate { at, len } => {
                    device.allocate((at * BLOCK) as u64, (len * BLOCK) as u64).unwrap();
                    model.resize(model.len().max((at + len) * BLOCK), 0);
                }
                Step::Punch { at, len } => {
                    device.punch((at * BLOCK) as u64, (len * BLOCK) as u64).unwrap();
                    let end = ((at + len) * BLOCK).min(model.len());
                    model[(at * BLOCK).min(end)..end].fill(0);
                }
            }
            prop_assert_eq!(device.len().unwrap(), model.len() as u64);
        }
        if !model.is_empty() {
            prop_assert_eq!(read_block(&device, 0, model.len()).unwrap(), model);
        }
        prop_assert_eq!(std::fs::read(folder.path().join("below")).unwrap(), bytes);
    }
}

#[test]
fn what_is_only_read_needs_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let below = below(folder.path(), &[7; 2 * BLOCK]);
    // There is no such directory, which nobody notices.
    let device = OverlayDevice::new(below, folder.path().join("none")).unwrap();
    assert_eq!(read_block(&device, 0, 2 * BLOCK).unwrap(), [7; 2 * BLOCK]);
    device.allocate(0, 4 * BLOCK_BYTES).unwrap();
    assert_eq!(read_block(&device, 0, BLOCK).unwrap(), [7; BLOCK]);
    device.sync().unwrap();
    assert!(!device.has_scratch());
    let text = write_block(&device, 0, &[1; BLOCK]).unwrap_err().to_string();
    assert!(text.contains(&folder.path().join("none").display().to_string()), "{text}");
    assert!(text.contains("larger budget"), "{text}");
    assert_eq!(read_block(&device, 0, BLOCK).unwrap(), [7; BLOCK]);
}

#[test]
fn temporary_files_have_no_name_and_are_nobody_elses() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let by_name = named_and_removed(&mut options, folder.path()).unwrap();
    for file in [temporary_file(folder.path()).unwrap(), by_name] {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
