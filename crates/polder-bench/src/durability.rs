//! What a write that has returned has been promised, as text: `sync`, `periodic:10ms`, `none`.
//! For serde's `with` as well.

use std::time::Duration;

use polder::Durability;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Reads it.
pub(crate) fn parse(text: &str) -> Result<Durability, String> {
    match text.split_once(':') {
        None if text == "sync" => Ok(Durability::Sync),
        None if text == "none" => Ok(Durability::None),
        Some(("periodic", period)) => match humantime::parse_duration(period) {
            Ok(Duration::ZERO) => Err("a period of zero is sync".to_owned()),
            Ok(period) => Ok(Durability::Periodic(period)),
            Err(why) => Err(format!("{period:?}: {why}")),
        },
        _ => Err(format!("{text:?} is none of sync, periodic:TIME (as 10ms) and none")),
    }
}

pub(crate) fn serialize<S: Serializer>(of: &Durability, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(of)
}

pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Durability, D::Error> {
    parse(&String::deserialize(from)?).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durabilities_are_read_and_written() {
        let periodic = |us| Durability::Periodic(Duration::from_micros(us));
        for (text, durability) in [
            ("sync", Durability::Sync),
            ("none", Durability::None),
            ("periodic:10ms", periodic(10_000)),
            ("periodic:1.5ms", periodic(1_500)),
            ("periodic:250µs", periodic(250)),
            ("periodic:2s", periodic(2_000_000)),
        ] {
            assert_eq!(parse(text), Ok(durability));
            assert_eq!(durability.to_string(), text);
            let json = serialize(&durability, serde_json::value::Serializer).unwrap();
            assert_eq!(json, text);
            assert_eq!(deserialize(json).unwrap(), durability);
        }
        assert_eq!(parse("periodic:250us"), Ok(periodic(250)));
        for text in ["", "Sync", "sync:1ms", "periodic", "periodic:", "periodic:10", "periodic:0s"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
