use std::fs;

use polder_vector::half::f16;
use polder_vector::{Bits, ElementKind, VectorBuf};
use proptest::prelude::*;

use super::*;
use crate::failure::sentence;

type Read = Result<(Option<u64>, Vec<Row>), String>;

pub(super) fn read(name: &str, content: &[u8]) -> Read {
    read_named(name, content, &Names::default())
}

pub(super) fn read_named(name: &str, content: &[u8], names: &Names) -> Read {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    let all = || {
        let mut rows = Rows::open(&path, names)?;
        let (count, mut all) = (rows.count(), Vec::new());
        while let Some(row) = rows.next()? {
            all.push(row);
        }
        Ok((count, all))
    };
    let in_dir = format!("{}/", dir.path().display());
    all().map_err(|failure: Failure| sentence(&failure).replace(&in_dir, ""))
}

fn rows(numbers: &[&[f32]]) -> Vec<Row> {
    let row = |(number, numbers): (u64, &&[f32])| Row {
        key: number.to_string().into_bytes(),
        numbers: numbers.to_vec(),
        payload: Vec::new(),
    };
    (0..).zip(numbers).map(row).collect()
}

fn npy(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = (head.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), bytes].concat()
}

#[test]
fn rows_are_what_was_written() {
    let two = |bytes: &[u8]| [&2_u32.to_le_bytes()[..], bytes].concat();
    let floats = |a: f32, b: f32| [a.to_le_bytes(), b.to_le_bytes()].concat();
    let fvecs = [two(&floats(1.5, -2.0)), two(&floats(0.0, 3.0))].concat();
    let expected = rows(&[&[1.5, -2.0], &[0.0, 3.0]]);
    assert_eq!(read("a.fvecs", &fvecs), Ok((Some(2), expected.clone())));
    let bvecs = [two(&[1, 255]), two(&[0, 7])].concat();
    let bytes = rows(&[&[1.0, 255.0], &[0.0, 7.0]]);
    assert_eq!(read("a.bvecs", &bvecs), Ok((Some(2), bytes.clone())));
    let ivecs = two(&[7_i32.to_le_bytes(), (-9_i32).to_le_bytes()].concat());
    assert_eq!(read("a.ivecs", &ivecs), Ok((Some(1), rows(&[&[7.0, -9.0]]))));
    let bytes_of_npy = [floats(1.5, -2.0), floats(0.0, 3.0)].concat();
    let all = Ok((Some(2), expected.clone()));
    assert_eq!(read("a.npy", &npy("<f4", "2, 2", &bytes_of_npy)), all);
    let halves = [1.5, -2.0, 0.0, 3.0].map(|number| f16::from_f32(number).to_le_bytes()).concat();
    assert_eq!(read("a.npy", &npy("<f2", "2, 2", &halves)), all);
    assert_eq!(read("a.npy", &npy("|u1", "2, 2", &[1, 255, 0, 7])), Ok((Some(2), bytes)));
    assert_eq!(read("a.npy", &npy("|i1", "1, 2", &[1, 255])), Ok((Some(1), rows(&[&[1.0, -1.0]]))));
    assert_eq!(read("a.jsonl", b"[1.5, -2]\n\n[0, 3]"), Ok((None, expected)));
    for (key, payload, key_said, payload_said) in [
        ("7", "", "7", ""),
        ("\u{e9}", "text", "\"\u{e9}\"", ", \"payload\": \"text\""),
        ("", r#"{"a":[1]}"#, "\"\"", r#", "payload": {"a": [1]}"#),
    ] {
        let row = Row { key: key.into(), numbers: vec![4.0], payload: payload.into() };
        let line = format!("{{\"key\": {key_said}, \"vector\": [4]{payload_said}}}\n");
        assert_eq!(read("a.jsonl", line.as_bytes()), Ok((None, vec![row])));
    }
    for name in ["a.fvecs", "a.jsonl"] {
        assert_eq!(read(name, b"").unwrap().1, []);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_row() {
    let says = |name: &str, content: &[u8], text: &str| {
        let said = read(name, content).unwrap_err();
        assert!(said.contains(text), "{said}");
    };
    says("a.txt", b"1 2", "a.txt is no file of vectors that can be read: those end in .fvecs");
    says("a.fvecs", &[9, 0, 0, 0, 1, 2], "a.fvecs, row 1: the file ends in the middle of a row");
    says("a.fvecs", &[0; 8], "a.fvecs, row 1: it is to have 0 numbers: this is no such file");
    says("a.bvecs", &[1, 0, 0, 0, 5, 1, 0], "a.bvecs, row 2: the file ends in the middle of a row");
    says("a.npy", b"\x93NUMPX\x01\x00", "it is no array of NumPy");
    says("a.npy", &npy("<f8", "1, 1", &[0; 8]), "the array is of <f8: it must be of <f4");
    says("a.npy", &npy("<f4", "4,", &[0; 16]), "the array must have two dimensions");
    says(
        "a.npy",
        &npy("|u1", "2, 2", &[0; 2]),
        "a.npy, row 2: the file ends, and was to have 2 rows",
    );
    says(
        "a.npy",
        &npy("|u1", "1, 2", &[0; 3]),
        "a.npy, row 2: there are bytes behind the last row",
    );
    says("a.jsonl", b"[1]\n[1,", "a.jsonl, row 2: it is no JSON");
    says("a.jsonl", b"[1, \"a\"]", "a.jsonl, row 1: \"a\" is no number");
    says("a.jsonl", b"{\"key\": [1], \"vector\": [1]}", "its key is [1], and must be text");
    says("a.jsonl", b"{\"key\": 1}", "it must be an array of numbers");
}

#[test]
fn fields_may_have_other_names() {
    let name = |name: &str| Some(name.to_owned());
    let names = Names { vector: name("v"), key: name("k"), payload: name("p") };
    let line = b"{\"k\": \"a\", \"v\": [1], \"p\": \"text\", \"key\": \"b\"}";
    let row = Row { key: b"a".to_vec(), numbers: vec![1.0], payload: b"text".to_vec() };
    assert_eq!(read_named("a.jsonl", line, &names), Ok((None, vec![row])));
    let said = read_named("a.jsonl", b"{\"v\": [1], \"p\": 1}", &names).unwrap_err();
    assert_eq!(said, "a.jsonl, row 1: it has no `k`, which --key is to be");
    let said = read_named("a.npy", b"", &Names { key: name("k"), ..Names::default() }).unwrap_err();
    assert_eq!(said, "--key is for .jsonl and .parquet: nothing in a.npy has a name");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_file_for_another_build_says_so() {
    let said = read("a.parquet", b"").unwrap_err();
    assert!(said.contains("cargo build --release -p polder-cli --features parquet"), "{said}");
}

#[test]
fn elements_are_exact_or_refused() {
    let of = |kind, numbers: &[f32]| elements_of(kind, numbers.to_vec());
    assert_eq!(of(ElementKind::I8, &[-128.0, 127.0]), Ok(VectorBuf::I8(vec![-128, 127])));
    let said = of(ElementKind::I8, &[0.0, 200.0]).unwrap_err();
    assert_eq!(said, "dimension 1 is 200, which is no i8: those are -128 to 127");
    assert!(of(ElementKind::I8, &[0.5]).is_err() && of(ElementKind::I8, &[f32::NAN]).is_err());
    let bits = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    assert_eq!(of(ElementKind::Bit, &bits), Ok(VectorBuf::Bit(vec![Bits(129)])));
    assert!(of(ElementKind::Bit, &bits[1..]).is_err() && of(ElementKind::Bit, &[2.0; 8]).is_err());
    assert_eq!(of(ElementKind::F16, &[1.5]), Ok(VectorBuf::F16(vec![f16::from_f32(1.5)])));
}

proptest! {
    /// Whatever bytes there are, they are rows or what is wrong with them.
    #[test]
    fn no_bytes_are_too_strange(
        content in prop::collection::vec(any::<u8>(), 0..200),
        name in prop::sample::select(vec!["a.fvecs", "a.bvecs", "a.ivecs", "a.npy", "a.jsonl"]),
        is_npy: bool,
    ) {
        let content = if is_npy { npy("|u1", "3, 2", &content) } else { content };
        let _ = read(name, &content);
    }
}
