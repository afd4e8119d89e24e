//! Numbers for people: sizes in powers of 1024, thousands apart, durations.

use std::time::Duration;

use bytesize::ByteSize;
use indicatif::HumanCount;

/// A size: `64 MiB`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    ByteSize::b(bytes).to_string().replace(".0 ", " ")
}

/// A count with its thousands apart: `348,454`.
pub fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// So many of something: `1 row`, `348,454 rows`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A part of all: `12.50%`.
pub fn percent(part: f64) -> String {
    format!("{:.2}%", 100.0 * part)
}

/// How many in a second; zero if there was no time.
pub fn per_second(n: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}

/// A duration: `0.8 s`, `2 min 5 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 100 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_written() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(348_454), "348,454");
        assert_eq!(plural(1, "row", "rows"), "1 row");
        assert_eq!(duration(Duration::from_millis(800)), "0.8 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
    }
}
