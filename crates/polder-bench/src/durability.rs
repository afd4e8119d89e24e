//! What a write that has returned has been promised.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use humantime::parse_duration;
use serde::{Deserialize, Serialize};

/// How long a write may be lost after its call has returned, should the machine lose power.
///
/// As text, on the command line and in JSON: `sync`, `periodic:10ms`, `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Durability {
    /// Not at all: the call returns when the device has it.
    Sync,
    /// For this long.
    Periodic(Duration),
    /// Until the store is settled.
    None,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Sync => f.write_str("sync"),
            Durability::Periodic(period) => write!(f, "periodic:{period:?}"),
            Durability::None => f.write_str("none"),
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        match text.split_once(':') {
            None if text == "sync" => Ok(Durability::Sync),
            None if text == "none" => Ok(Durability::None),
            Some(("periodic", period)) => {
                match parse_duration(period).map_err(|why| format!("{period:?}: {why}"))? {
                    Duration::ZERO => Err("a period of zero is sync".to_owned()),
                    period => Ok(Durability::Periodic(period)),
                }
            }
            _ => Err(format!("{text:?} is none of sync, periodic:TIME (as 10ms) and none")),
        }
    }
}

impl From<Durability> for String {
    fn from(durability: Durability) -> String {
        durability.to_string()
    }
}

impl TryFrom<String> for Durability {
    type Error = String;

    fn try_from(text: String) -> Result<Durability, String> {
        text.parse()
    }
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
            assert_eq!(text.parse(), Ok(durability));
            assert_eq!(durability.to_string(), text);
            let json = serde_json::to_string(&durability).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Durability>(&json).unwrap(), durability);
        }
        assert_eq!("periodic:250us".parse(), Ok(periodic(250)));
        for text in ["", "Sync", "sync:1ms", "periodic", "periodic:", "periodic:10", "periodic:0s"]
        {
            assert!(text.parse::<Durability>().is_err(), "{text:?}");
        }
    }
}
