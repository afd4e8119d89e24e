//! Rows of JSON.

use std::io::{BufRead, Read};

use serde_json::Value;

use super::{Bad, Row, key_of};
use crate::args::Names;

/// Bytes of a line, at most.
const MOST_BYTES: u64 = 64 << 20;

/// The row of the next line that is not empty.
pub fn row(number: u64, names: &Names, file: &mut impl BufRead) -> Result<Option<Row>, Bad> {
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
    let (key, vector, payload) = match &value {
        Value::Object(row) => {
            let [key, vector, payload] = [
                (&names.key, "--key", "key"),
                (&names.vector, "--vector", "vector"),
                (&names.payload, "--payload", "payload"),
            ]
            .map(|(said, option, usual)| match said {
                None => Ok(row.get(usual)),
                Some(name) => row.get(name).map(Some).ok_or_else(|| {
                    Bad::Row(format!("it has no `{name}`, which {option} is to be"))
                }),
            });
            (key?, vector?, payload?)
        }
        other => (None, Some(other), None),
    };
    let key = match key {
        None => key_of(number),
        Some(Value::String(key)) => key.clone().into_bytes(),
        Some(Value::Number(key)) => key.to_string().into_bytes(),
        Some(other) => {
            return Err(Bad::Row(format!("its key is {other}, and must be text or a number")));
        }
    };
    let payload = match payload {
        None => Vec::new(),
        Some(Value::String(payload)) => payload.clone().into_bytes(),
        Some(other) => other.to_string().into_bytes(),
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
    Ok(Some(Row { key, numbers: numbers.collect::<Result<_, _>>()?, payload }))
}
