//! When a write is durable, as it is typed.

use std::time::Duration;

use polder::Durability;

/// Reads `sync`, `none` or `periodic:10ms`.
pub fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => return Ok(Durability::Sync),
        "none" => return Ok(Durability::None),
        _ => {}
    }
    text.strip_prefix("periodic:")
        .and_then(parse_duration)
        .map(Durability::Periodic)
        .ok_or_else(|| "it is sync, none, or periodic with a time, such as periodic:10ms".into())
}

/// A whole number and a unit.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_and_written_again() {
        for text in ["sync", "none", "periodic:10ms", "periodic:3s"] {
            assert_eq!(parse_durability(text).unwrap().to_string(), text);
        }
        let period = Duration::from_micros(250);
        assert_eq!(parse_durability("periodic:250us"), Ok(Durability::Periodic(period)));
        for wrong in ["", "Sync", "periodic", "periodic:", "periodic:10", "periodic:ms", "10ms"] {
            assert!(parse_durability(wrong).is_err(), "{wrong}");
        }
    }
}
