//! Rows of columns (<https://parquet.apache.org/docs/file-format/>). Pages of columns are read as rows need
//! them, so that memory does not grow with the file.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row as Record};
use parquet::schema::types::Type;
use serde_json::Value;

use super::{Bad, Format, MOST_NUMBERS, Row, key_of};
use crate::args::Names;

/// Rows of which the numbers are decoded at once.
const BATCH: usize = 32;
const UNREADABLE: &str = "its columns cannot be read";

/// Which columns have what, and their rows.
pub struct Columns {
    rows: RowIter<'static>,
    vector: String,
    key: Option<String>,
    /// Without it all columns that are no other.
    payload: Option<String>,
    /// Numbers of the first vector.
    dimensions: Option<usize>,
}

/// What the file holds, and how many rows.
pub fn begin(file: &File, names: &Names) -> Result<(Format, Option<u64>), Bad> {
    let file = file.try_clone()?;
    let file = caught("it is no file of Parquet", || SerializedFileReader::new(file))?;
    let metadata = file.metadata();
    let schema = metadata.file_metadata().schema();
    let there: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let find = |said: &Option<String>, usual: &str, option: &str| match said.as_deref() {
        None => Ok(there.contains(&usual).then(|| usual.to_owned())),
        Some(name) if there.contains(&name) => Ok(Some(name.to_owned())),
        Some(name) => Err(missing(name, option, &there)),
    };
    let vector = find(&names.vector, "vector", "--vector")?
        .ok_or_else(|| missing("vector", "--vector", &there))?;
    let key = find(&names.key, "key", "--key")?;
    let payload = find(&names.payload, "payload", "--payload")?;

    let is_read = |name: &str| match &payload {
        None => true,
        Some(payload) => name == payload || name == vector || key.as_deref() == Some(name),
    };
    is_compressed_as_known(metadata, is_read)?;
    let fields = schema.get_fields().iter().filter(|field| is_read(field.name())).cloned();
    let wanted = Type::group_type_builder(schema.name()).with_fields(fields.collect()).build();
    let count = u64::try_from(metadata.file_metadata().num_rows()).ok();
    let rows =
        caught(UNREADABLE, || RowIter::from_file_into(Box::new(file)).project(Some(wanted?)))?
            .with_batch_size(BATCH);
    let columns = Columns { rows, vector, key, payload, dimensions: None };
    Ok((Format::Parquet(Box::new(columns)), count))
}

/// What reading gives. The crate panics over some damage, which it tells on the way; it is not asked again then.
fn caught<T>(what: &str, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Bad> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| Bad::Row(format!("{what}: {error}"))),
        Err(_) => Err(Bad::Row(format!("{what}: it is damaged"))),
    }
}

fn missing(name: &str, option: &str, there: &[&str]) -> Bad {
    let there = there.join("`, `");
    Bad::Row(format!("it has no column `{name}`, but `{there}`: say which one with {option} NAME"))
}

/// What is compressed in other ways would be found out only where it is read.
fn is_compressed_as_known(
    metadata: &ParquetMetaData,
    is_read: impl Fn(&str) -> bool,
) -> Result<(), Bad> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let name = column.column_path().parts().first().map_or("", String::as_str);
        let compression = column.compression();
        if is_read(name) && !matches!(compression, Compression::UNCOMPRESSED | Compression::SNAPPY)
        {
            // Without the level, which it tells in brackets.
            let compression = compression.to_string();
            let compression = compression.split('(').next().unwrap_or_default();
            return Err(Bad::Row(format!(
                "its column `{name}` is compressed by {compression}, and must be by Snappy or not at all: \
                 write the file so"
            )));
        }
    }
    Ok(())
}

impl Columns {
    /// The next row.
    pub fn row(&mut self, number: u64) -> Result<Option<Row>, Bad> {
        let record = caught(UNREADABLE, || self.rows.next().transpose())?;
        let Some(record) = record else { return Ok(None) };
        let numbers = self.numbers(value(&record, &self.vector)?)?;
        let key = match &self.key {
            None => key_of(number),
            Some(name) => key_in(name, value(&record, name)?)?,
        };
        let payload = match &self.payload {
            Some(name) => bytes(value(&record, name)?),
            None => self.others(&record),
        };
        Ok(Some(Row { key, numbers, payload }))
    }

    /// The numbers of a vector, as many as all have.
    fn numbers(&mut self, field: &Field) -> Result<Vec<f32>, Bad> {
        let bad = |why: String| Bad::Row(format!("its column `{}` {why}", self.vector));
        let must = "must be a list of numbers";
        let Field::ListInternal(list) = field else {
            return Err(bad(format!("is {}, and {must}", what(field))));
        };
        let (count, most) = (list.len(), MOST_NUMBERS);
        if count > most {
            return Err(bad(format!("has {count} numbers, and {most} are the most")));
        }
        let number = |(at, field): (usize, &Field)| match field {
            Field::Float(number) => Ok(*number),
            Field::Double(number) => Ok(*number as f32),
            Field::Float16(number) => Ok(number.to_f32()),
            whole => {
                let number = whole.to_json_value().as_f64().map(|number| number as f32);
                number.ok_or_else(|| bad(format!("has {} at {at}, and {must}", what(whole))))
            }
        };
        let numbers =
            list.elements().iter().enumerate().map(number).collect::<Result<Vec<_>, _>>()?;
        let dimensions = self.dimensions.unwrap_or(numbers.len());
        if numbers.is_empty() {
            return Err(bad(format!("is an empty list, and {must}")));
        }
        if numbers.len() != dimensions {
            let count = numbers.len();
            return Err(bad(format!(
                "has {count} numbers, and {dimensions} in the first row: all must have as many"
            )));
        }
        self.dimensions = Some(dimensions);
        Ok(numbers)
    }

    /// All that is neither vector nor key, as JSON; nothing, if there is no such column.
    fn others(&self, record: &Record) -> Vec<u8> {
        let is_other = |name: &&String| **name != self.vector && Some(*name) != self.key.as_ref();
        let others = record.get_column_iter().filter(|(name, _)| is_other(name));
        let others: serde_json::Map<String, Value> =
            others.map(|(name, field)| (name.clone(), field.to_json_value())).collect();
        if others.is_empty() { Vec::new() } else { Value::Object(others).to_string().into_bytes() }
    }
}

fn value<'a>(record: &'a Record, name: &str) -> Result<&'a Field, Bad> {
    let mut columns = record.get_column_iter();
    let found = columns.find(|(column, _)| *column == name).map(|(_, field)| field);
    found.ok_or_else(|| Bad::Row(format!("it has no column `{name}`")))
}

/// The key that a column has.
fn key_in(name: &str, field: &Field) -> Result<Vec<u8>, Bad> {
    let what = what(field);
    if !matches!(what, "text" | "bytes" | "a whole number") {
        let must = "must be text, bytes or a whole number";
        return Err(Bad::Row(format!("its key, in column `{name}`, is {what}, and {must}")));
    }
    Ok(bytes(field))
}

/// Text and bytes as they are, null as nothing, and others as JSON.
fn bytes(field: &Field) -> Vec<u8> {
    match field {
        Field::Null => Vec::new(),
        Field::Str(text) => text.clone().into_bytes(),
        Field::Bytes(bytes) => bytes.data().to_vec(),
        other => other.to_json_value().to_string().into_bytes(),
    }
}

/// What a value is, in an error.
fn what(field: &Field) -> &'static str {
    match field {
        Field::Null => "null",
        Field::Bool(_) => "a boolean",
        Field::Str(_) => "text",
        Field::Bytes(_) => "bytes",
        Field::Group(_) => "a group of columns",
        Field::ListInternal(_) => "a list",
        Field::MapInternal(_) => "a map",
        Field::Float16(_) | Field::Float(_) | Field::Double(_) | Field::Decimal(_) => {
            "a number with a point"
        }
        Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => "a time",
        _ => "a whole number",
    }
}

#[cfg(test)]
mod tests;
