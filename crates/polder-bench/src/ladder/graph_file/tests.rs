use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn broken(text: &[u8]) -> (u64, String) {
    match parse(text, &Interrupt::silent(), |_, _| ()) {
        Err(Broken::Line(at, why)) => (at, why),
        other => panic!("{other:?}"),
    }
}

fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn edges_go_both_ways() {
    for text in ["4,3,u\n1,2\n2,3\n4,4\n", "4,3\n1,2\n2,3\n4,4", "4,3\n1, 2\n2,3,0.5\n4,4\n\n"] {
        let (_dir, path) = written("g.txt", text.as_bytes());
        assert_eq!(read(&path).unwrap(), [vec![1], vec![0, 2], vec![1], vec![3]], "{text:?}");
    }
    let (_dir, path) = written("g.txt", b"2,0\n");
    assert_eq!(read(&path).unwrap(), vec![Vec::<u32>::new(); 2]);
}

#[test]
fn packed_graphs_are_unpacked_and_cut_ones_noticed() {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(b"2,1\n1,2\n").unwrap();
    let packed = packer.finish().unwrap();
    let (_dir, path) = written("g.jlg", &packed);
    assert_eq!(read(&path).unwrap(), [vec![1], vec![0]]);
    let (_dir, path) = written("g.jlg", &packed[..packed.len() - 4]);
    let why = read(&path).unwrap_err().to_string();
    assert!(why.contains("g.jlg:") && why.contains("cannot be read"), "{why}");
}

#[test]
fn broken_lines_are_named_with_what_is_expected() {
    for (text, line, expected) in [
        ("", 1, "`nodes,edges`"),
        ("x", 1, "`nodes,edges`"),
        ("\n2,1\n1,2\n", 1, "`nodes,edges`"),
        ("0,0\n", 1, "from 1 to"),
        ("999999999999,1", 1, "from 1 to"),
        ("2,1\n1;2", 2, "`source,target`"),
        ("2,1\n1,", 2, "`source,target`"),
        ("2,2\n1,2\n0,1", 3, "1 to 2"),
        ("2,1\n1,3", 2, "1 to 2"),
        ("3,3\n1,2\n2,3\n", 3, "after 2 edges; its first line says 3"),
        ("3,1\n1,2\n2,3\n", 3, "after 2 edges; its first line says 1"),
    ] {
        let (at, why) = broken(text.as_bytes());
        assert_eq!(at, line, "{text:?}: {why}");
        assert!(why.contains(expected), "{text:?}: {why}");
    }
    assert_eq!(broken(b"2,1\n\xFF\xFF\n").0, 2);
    for begin in ["", "2,1\n"] {
        let why = broken(format!("{begin}{}", "x".repeat(1000)).as_bytes()).1;
        assert!(why.len() < 200, "{why}");
    }
}

#[test]
fn graphs_of_one_name_are_refused() {
    let check = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        check_all(&paths, &Interrupt::silent())
    };
    let Err(BenchError::Options(why)) = check(&["a/ring.txt", "b.txt", "c/ring.jlg"]) else {
        panic!("taken");
    };
    assert!(why.contains("a/ring.txt") && why.contains("c/ring.jlg"), "{why}");
    let why = check(&["a: b/c: d.txt"]).unwrap_err().to_string();
    assert!(why.contains("a colon and a space"), "{why}");
    assert!(matches!(check(&["/now: here/ring.txt"]), Err(BenchError::File { .. })));
    let (_dir, path) = written("g.txt", b"2,2\n1,2\n");
    let cut = check_all(&[path], &Interrupt::silent()).unwrap_err().to_string();
    assert!(cut.contains("g.txt:2:"), "{cut}");
}
