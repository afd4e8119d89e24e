use std::fs;

use super::*;

fn written(name: &str, bytes: &[u8], format: Option<Format>) -> Result<Trace, BenchError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    read(&path, format)
}

fn why(name: &str, bytes: &[u8]) -> String {
    let error = written(name, bytes, None).unwrap_err().to_string();
    assert!(error.contains(name), "{error}");
    error
}

#[test]
fn every_block_of_a_line_is_a_request() {
    let trace = written("t.lis", b"7 3 0 0\n\n8 1 0 1\n", None).unwrap();
    assert_eq!((trace.requests, trace.pages), (vec![0, 1, 2, 1], 3));
}

#[test]
fn ids_and_records_of_libcachesim() {
    let trace = written("t.txt", b"18446744073709551615\n5\n5\n", None).unwrap();
    assert_eq!((trace.requests, trace.bytes), (vec![0, 1, 1], vec![]));
    let record = |id: u64, size: u32| {
        let (time, next) = (9u32.to_le_bytes(), (-1i64).to_le_bytes());
        [&time[..], &id.to_le_bytes(), &size.to_le_bytes(), &next].concat()
    };
    let bytes = [record(1 << 40, 512), record(3, 70_000), record(1 << 40, 512)].concat();
    let trace = written("t.oracleGeneral", &bytes, None).unwrap();
    assert_eq!((trace.requests, trace.bytes), (vec![0, 1, 0], vec![512, 70_000]));
    let trace = written("named.otherwise", &bytes, Some(Format::Oracle)).unwrap();
    assert_eq!(trace.pages, 2);
    assert!(why("t.bin", &bytes[..30]).contains("record has 6 of 24"));
}

#[test]
fn ids_may_say_what_is_written() {
    let trace = written("t.csv", b"pages,is_write\n7,0\n8,1\n7\n7, 1\n", None).unwrap();
    assert_eq!(trace.requests, [0, 1, 0, 0]);
    assert_eq!(trace.writes, [false, true, false, true]);
    let trace = written("t.csv", b"7,0\n8,0\n", None).unwrap();
    assert!(trace.writes.is_empty(), "no request writes");
    assert!(why("t.csv", b"7,0\n8,2\n").contains(":2:"));
    assert!(why("t.csv", b"7,0\npages,is_write\n").contains(":2:"));
}

#[test]
fn lines_of_the_storage_council_are_requests_for_pages() {
    let lines = b"0,8,4096,R,0.1\n0,15,1024,W,0.2\n1,8,512,w,0.3,7\n";
    let trace = written("t.spc", lines, None).unwrap();
    // The second begins in the last sector of a page, and ends in the next one.
    assert_eq!((trace.requests, trace.pages), (vec![0, 0, 1, 2], 3));
    assert_eq!(trace.writes, [false, true, true, true]);
    for bad in [&b"0,8,4096\n"[..], b"0,x,1,R\n", b"0,8,4096,D,1\n", b"0,8,99999999999999,R\n"] {
        assert!(why("t.spc", bad).contains(":1:"));
    }
}

#[test]
fn damage_is_an_error_that_names_the_line() {
    assert!(why("t.lis", b"7 3 0 0\nseven\n").contains(":2:"));
    assert!(why("t.lis", b"7\n").contains(":1:"));
    assert!(why("t.lis", b"18446744073709551615 2 0 0\n").contains("too many"));
    assert!(why("t.lis", b"0 99999999 0 0\n").contains("too many"));
    assert!(why("t.txt", b"1\n2\n-3\n").contains(":3:"));
    assert!(why("t.lis", b"\n").contains("no request"));
    assert!(why("t.lis", b"1 1 0 0\n\xFF\n").contains(":2: it is not text"));
    let nowhere = Path::new("/nowhere/t.lis");
    assert!(read(nowhere, None).is_err());
}

#[test]
fn what_was_guessed_is_said() {
    for (name, bytes) in [("t.csv", &b"1,2\n"[..]), ("t.lis.gz", b"\x1F\x8B\x08\0\xFF\n")] {
        let why = why(name, bytes);
        assert!(why.contains(":1: ") && why.contains("say --format lis, oracle or spc"), "{why}");
    }
    assert!(!why("t.lis", b"seven\n").contains("--format"));
    let long = [b'x'; 1000];
    assert!(why("t.txt", &long).len() < 300);
    let said = written("t.csv", b"1,2\n", Some(Format::Ids)).unwrap_err().to_string();
    assert!(!said.contains("--format"), "{said}");
}

/// "7 3 0 0" and "8 1 0 1", packed by zstd 1.5.
const PACKED: &[u8] = b"\x28\xb5\x2f\xfd\x00\x58\x81\x00\x007 3 0 0\n8 1 0 1\n";

#[test]
fn packed_files_are_unpacked_to_their_end() {
    let trace = written("t.lis.zst", PACKED, None).unwrap();
    assert_eq!(trace.requests, [0, 1, 2, 1]);
    let twice = [PACKED, PACKED].concat();
    let trace = written("t.lis.zst", &twice, None).unwrap();
    assert_eq!(trace.requests, [0, 1, 2, 1, 0, 1, 2, 1]);
    for bytes in [&PACKED[..20], &twice[..30], &[PACKED, b"rubbish"].concat(), b"rubbish"] {
        why("t.lis.zst", bytes);
    }
}
