//! How often something is looked at, as it is typed.

use std::time::Duration;

/// The shortest time between two looks: to gather the figures takes the process some work.
const SHORTEST: Duration = Duration::from_millis(100);

/// Reads a time between two looks.
pub fn parse_every(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match time < SHORTEST {
        true => Err(format!("the shortest is {}", humantime::format_duration(SHORTEST))),
        false => Ok(time),
    }
}
