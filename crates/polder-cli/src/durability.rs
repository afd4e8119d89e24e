//! When a write is durable, as it is typed.

use polder::Durability;

/// Reads `sync`, `none` or `periodic:10ms`.
pub fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => return Ok(Durability::Sync),
        "none" => return Ok(Durability::None),
        _ => {}
    }
    text.strip_prefix("periodic:")
        .and_then(|period| humantime::parse_duration(period).ok())
        .map(Durability::Periodic)
        .ok_or_else(|| "it is sync, none, or periodic with a time, such as periodic:10ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_and_written_again() {
        for text in ["sync", "none", "periodic:10ms", "periodic:3s"] {
            assert_eq!(parse_durability(text).unwrap().to_string(), text);
        }
        let period = std::time::Duration::from_micros(250);
        assert_eq!(parse_durability("periodic:250us"), Ok(Durability::Periodic(period)));
        for wrong in ["", "Sync", "periodic", "periodic:", "periodic:10", "periodic:ms", "10ms"] {
            assert!(parse_durability(wrong).is_err(), "{wrong}");
        }
    }
}
