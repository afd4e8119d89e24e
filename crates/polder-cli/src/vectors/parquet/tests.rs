use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use polder_vector::half::f16;
use proptest::prelude::*;

use super::super::tests::{read, read_named};
use super::*;

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// A file with these columns, and for each row group what writes it.
fn file(columns: &str, groups: &[&dyn Fn(&mut Group<'_>)]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {columns} }}")).unwrap());
    let options = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(options)).unwrap();
    for write in groups {
        let mut group = writer.next_row_group().unwrap();
        write(&mut group);
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

/// The next column, of values that may be null.
fn values<T: DataType>(group: &mut Group<'_>, values: &[Option<T::T>]) {
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.iter().flatten().cloned().collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
}

/// The next column, of lists of values, all of which may be null.
fn lists<T: DataType>(group: &mut Group<'_>, rows: &[Option<&[Option<T::T>]>]) {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let list = row.unwrap_or(&[]);
        if list.is_empty() {
            defined.push(row.is_some().into());
            repeated.push(0);
        }
        for (at, value) in list.iter().enumerate() {
            defined.push(2 + i16::from(value.is_some()));
            repeated.push((at > 0).into());
            values.extend(value.clone());
        }
    }
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(&values, Some(&defined), Some(&repeated)).unwrap();
    column.close().unwrap();
}

fn list(name: &str, element: &str) -> String {
    format!("optional group {name} (LIST) {{ repeated group list {{ optional {element}; }} }}")
}

fn floats(group: &mut Group<'_>, rows: &[&[f32]]) {
    let rows: Vec<Vec<Option<f32>>> =
        rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect();
    let rows: Vec<_> = rows.iter().map(|row| Some(&row[..])).collect();
    lists::<FloatType>(group, &rows);
}

fn text(text: &str) -> Option<ByteArray> {
    Some(ByteArray::from(text))
}

fn row(key: &str, numbers: &[f32], payload: &str) -> Row {
    Row { key: key.into(), numbers: numbers.to_vec(), payload: payload.into() }
}

#[test]
fn rows_are_what_was_written() {
    let columns = format!(
        "optional binary key (UTF8); {} optional binary payload (UTF8); optional int64 more;",
        list("vector", "float element")
    );
    let first = |group: &mut Group<'_>| {
        values::<ByteArrayType>(group, &[text("a"), text("b")]);
        floats(group, &[&[1.5, -2.0], &[0.0, 3.0]]);
        values::<ByteArrayType>(group, &[text("one"), None]);
        values::<Int64Type>(group, &[Some(7), Some(8)]);
    };
    let second = |group: &mut Group<'_>| {
        values::<ByteArrayType>(group, &[text("c")]);
        floats(group, &[&[4.0, 5.0]]);
        values::<ByteArrayType>(group, &[text("three")]);
        values::<Int64Type>(group, &[None]);
    };
    let bytes = file(&columns, &[&first, &second]);
    let expected =
        [row("a", &[1.5, -2.0], "one"), row("b", &[0.0, 3.0], ""), row("c", &[4.0, 5.0], "three")];
    assert_eq!(read("a.parquet", &bytes), Ok((Some(3), expected.to_vec())));
    // Columns that are named are where it looks.
    let name = |name: &str| Some(name.to_owned());
    let names = Names { key: name("more"), payload: name("key"), ..Names::default() };
    let said = read_named("a.parquet", &bytes, &names).unwrap_err();
    let must = "must be text, bytes or a whole number";
    assert_eq!(said, format!("a.parquet, row 3: its key, in column `more`, is null, and {must}"));
    let names = Names { payload: name("more"), ..Names::default() };
    let (_, rows) = read_named("a.parquet", &bytes, &names).unwrap();
    let payloads: Vec<&[u8]> = rows.iter().map(|row| &row.payload[..]).collect();
    assert_eq!(payloads, [&b"7"[..], b"8", b""]);
}

#[test]
fn without_key_and_payload_there_are_numbers_and_the_rest() {
    let columns = format!(
        "optional int32 id; {} optional binary title (UTF8); optional boolean good;",
        list("embedding", "double element")
    );
    let group = |group: &mut Group<'_>| {
        values::<Int32Type>(group, &[Some(-5), Some(6)]);
        let numbers = [[Some(0.5), Some(2.0)], [Some(1e300), Some(-1.0)]];
        lists::<DoubleType>(group, &[Some(&numbers[0]), Some(&numbers[1])]);
        values::<ByteArrayType>(group, &[text("\u{e9}"), None]);
        values::<BoolType>(group, &[Some(true), Some(false)]);
    };
    let bytes = file(&columns, &[&group]);
    let mut names = Names { vector: Some("embedding".to_owned()), ..Names::default() };
    let read = |names: &Names| read_named("a.parquet", &bytes, names).map(|(_, rows)| rows);
    let rest = [r#"{"good":true,"id":-5,"title":"é"}"#, r#"{"good":false,"id":6,"title":null}"#];
    let numbers = [[0.5, 2.0], [f32::INFINITY, -1.0]];
    assert_eq!(
        read(&names),
        Ok(vec![row("0", &numbers[0], rest[0]), row("1", &numbers[1], rest[1])])
    );
    names.key = Some("id".to_owned());
    let rows = read(&names).unwrap();
    assert_eq!(rows[0], row("-5", &numbers[0], r#"{"good":true,"title":"é"}"#));
    // Only a vector: there is no payload.
    let group = |group: &mut Group<'_>| floats(group, &[&[1.0]]);
    let bytes = file(&list("vector", "float element"), &[&group]);
    assert_eq!(super::super::tests::read("a.parquet", &bytes).unwrap().1, [row("0", &[1.0], "")]);
}

#[test]
fn numbers_of_other_types_are_taken() {
    let of = |element: &str, write: &dyn Fn(&mut Group<'_>)| {
        let bytes = file(&list("vector", element), &[write]);
        read("a.parquet", &bytes).map(|(_, rows)| rows[0].numbers.clone())
    };
    let half = |number| Some(FixedLenByteArray::from(f16::from_f32(number).to_le_bytes().to_vec()));
    let halves = of("fixed_len_byte_array(2) element (FLOAT16)", &|group| {
        lists::<FixedLenByteArrayType>(group, &[Some(&[half(1.5), half(-2.0)])]);
    });
    assert_eq!(halves, Ok(vec![1.5, -2.0]));
    let whole = of("int32 element (INTEGER(8,true))", &|group| {
        lists::<Int32Type>(group, &[Some(&[Some(-128), Some(127)])]);
    });
    assert_eq!(whole, Ok(vec![-128.0, 127.0]));
}

#[test]
fn what_is_no_vector_is_said() {
    let says = |columns: &str, write: &dyn Fn(&mut Group<'_>), text: &str| {
        let said = read("a.parquet", &file(columns, &[write])).unwrap_err();
        assert!(said.contains(text), "{said}");
    };
    let column = list("vector", "float element");
    let two = [Some(1.0), Some(2.0)];
    says(
        &column,
        &|group| lists::<FloatType>(group, &[Some(&two), None]),
        "a.parquet, row 2: its column `vector` is null, and must be a list of numbers",
    );
    says(
        &column,
        &|group| lists::<FloatType>(group, &[Some(&two), Some(&[Some(1.0), None])]),
        "a.parquet, row 2: its column `vector` has null at 1, and must be a list of numbers",
    );
    says(
        &column,
        &|group| lists::<FloatType>(group, &[Some(&two), Some(&two[..1])]),
        "a.parquet, row 2: its column `vector` has 1 numbers, and 2 in the first row",
    );
    says(
        &column,
        &|group| lists::<FloatType>(group, &[Some(&[])]),
        "a.parquet, row 1: its column `vector` is an empty list",
    );
    says(
        "optional binary vector (UTF8);",
        &|group| values::<ByteArrayType>(group, &[text("[1, 2]")]),
        "a.parquet, row 1: its column `vector` is text, and must be a list of numbers",
    );
    says(
        &list("vector", "binary element (UTF8)"),
        &|group| lists::<ByteArrayType>(group, &[Some(&[text("1")])]),
        "a.parquet, row 1: its column `vector` has text at 0, and must be a list of numbers",
    );
    says(
        &format!("optional double key; {column}"),
        &|group| {
            values::<DoubleType>(group, &[Some(1.5)]);
            lists::<FloatType>(group, &[Some(&two)]);
        },
        "a.parquet, row 1: its key, in column `key`, is a number with a point, and must be text",
    );
    says(
        &format!("optional int32 id; {}", list("emb", "float element")),
        &|group| {
            values::<Int32Type>(group, &[Some(1)]);
            lists::<FloatType>(group, &[Some(&two)]);
        },
        "it has no column `vector`, but `id`, `emb`: say which one with --vector NAME",
    );
    let bytes = file(&column, &[&|group| lists::<FloatType>(group, &[Some(&two)])]);
    let names = Names { key: Some("id".to_owned()), ..Names::default() };
    let said = read_named("a.parquet", &bytes, &names).unwrap_err();
    assert!(said.contains("no column `id`, but `vector`: say which one with --key NAME"), "{said}");
    for cut in [&bytes[..0], &bytes[..bytes.len() - 9], b"no such file"] {
        let said = read("a.parquet", cut).unwrap_err();
        assert!(said.contains("a.parquet, row 0: it is no file of Parquet"), "{said}");
    }
}

#[test]
fn other_compression_is_said_at_once() {
    let columns = list("vector", "float element");
    let bytes = file(&columns, &[&|group| floats(group, &[&[1.0]])]);
    let mut scratch = tempfile::tempfile().unwrap();
    scratch.write_all(&bytes).unwrap();
    let read = SerializedFileReader::new(scratch).unwrap();
    let of = |compression| {
        let group = read.metadata().row_group(0).clone();
        let column = group.column(0).clone().into_builder().set_compression(compression);
        let columns = vec![column.build().unwrap()];
        let group = group.into_builder().set_column_metadata(columns).build().unwrap();
        let metadata = ParquetMetaData::new(read.metadata().file_metadata().clone(), vec![group]);
        is_compressed_as_known(&metadata, |name| name == "vector")
    };
    assert!(of(Compression::UNCOMPRESSED).is_ok() && of(Compression::SNAPPY).is_ok());
    let Err(Bad::Row(said)) = of(Compression::ZSTD(Default::default())) else {
        panic!("it is taken")
    };
    assert!(said.starts_with("its column `vector` is compressed by ZSTD, and must"), "{said}");
}

proptest! {
    /// A file with some wrong bytes is rows or what is wrong with them.
    #[test]
    fn no_bytes_are_too_strange(
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let columns = format!("optional binary key (UTF8); {}", list("vector", "float element"));
        let mut bytes = file(&columns, &[&|group| {
            values::<ByteArrayType>(group, &[text("a"), text("b"), text("a")]);
            floats(group, &[&[1.0, 2.0], &[3.0, 4.0], &[1.0, 4.0]]);
        }]);
        for (at, byte) in wrong {
            *at.get_mut(&mut bytes) = byte;
        }
        let _ = read("a.parquet", &bytes);
    }
}
