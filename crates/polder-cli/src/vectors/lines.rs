//! Rows of JSON.

use std::io::{BufRead, Read};

use serde_json::Value;

use super::{Bad, Row};

/// Bytes of a line, at most.
const MOST_BYTES: u64 = 64 << 20;

/// The row of the next line that is not empty.
pub fn row(number: u64, file: &mut impl BufRead) -> Result<Option<Row>, Bad> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = file.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == MOST_BYTES {
            return Err(Bad::Row(
                "it is longer than any row is; its end may be missing".to_owned(),
            ));
        }
        if !line.trim_ascii().is_empty() {
            break;
        }
    }
    let value: Value = serde_json::from_slice(&line)
        .map_err(|error| Bad::Row(format!("it is no JSON: {error}")))?;
    let (label, vector) = match &value {
        Value::Object(row) => (row.get("label"), row.get("vector")),
        other => (None, Some(other)),
    };
    let label = match label {
        None => number,
        Some(label) => label.as_u64().ok_or_else(|| {
            Bad::Row(format!("its label is {label}, and must be a number from 0 on"))
        })?,
    };
    let numbers = vector.and_then(Value::as_array).ok_or_else(|| {
        let what =
            "it must be an array of numbers, or an object with such an array as its `vector`";
        Bad::Row(what.to_owned())
    })?;
    let numbers = numbers.iter().map(|number| match number.as_f64() {
        Some(number) => Ok(number as f32),
        None => Err(Bad::Row(format!("{number} is no number"))),
    });
    Ok(Some(Row { label, numbers: numbers.collect::<Result<_, _>>()? }))
}
