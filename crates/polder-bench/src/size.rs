//! Numbers of bytes, of things and of seconds, as people write them.

use std::time::Duration;

/// Reads a number of bytes: `4096`, `64KiB`, `1.5GiB`; also `64K`, `64M`, `1G`, `1T`, all powers
/// of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => {
            return Err(format!("{unit:?} is no unit; there are KiB, MiB, GiB and TiB"));
        }
    };
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes >= u64::MAX as f64 { Err(format!("{text} is too much")) } else { Ok(bytes as u64) }
}

/// Reads a number of things: `10000000`, `10_000_000`, `10k`, `10M`, `1G`, all powers of 1000.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|&c| c != '_').collect();
    let (number, factor) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1_000),
        Some((at, 'm' | 'M')) => (&plain[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&plain[..at], 1_000_000_000),
        _ => (plain.as_str(), 1),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no whole number"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too much"))
}

/// Reads a time: `250us`, `10ms`, `1.5s`, at most a day.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const DAY_SECONDS: f64 = 86_400.0;
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let parts_of_a_second = match unit {
        "us" | "µs" => 1e6,
        "ms" => 1e3,
        "s" => 1.0,
        _ => return Err(format!("{text:?} does not end with us, ms or s")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    match number / parts_of_a_second {
        seconds if seconds <= DAY_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{text} is more than a day")),
    }
}

/// Writes a number of bytes for people.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{number:.1} {}", units[unit]) }
}

/// Writes a rate or a count for people.
pub(crate) fn show_count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.3} M", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.1}"),
    }
}

/// Writes nanoseconds for people.
pub(crate) fn show_ns(ns: f64) -> String {
    match ns {
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", n / 1e6),
        n if n >= 1e3 => format!("{:.2} us", n / 1e3),
        n => format!("{n:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64KiB"), Ok(64 << 10));
        assert_eq!(parse_bytes("64 mib"), Ok(64 << 20));
        assert_eq!(parse_bytes("1.5G"), Ok(3 << 29));
        assert!(parse_bytes("64MB").is_err());
        assert!(parse_bytes("MiB").is_err());
        assert!(parse_bytes("99999999TiB").is_err());
    }

    #[test]
    fn counts_are_read_with_their_factors() {
        assert_eq!(parse_count("10_000"), Ok(10_000));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert!(parse_count("ten").is_err());
        assert!(parse_count("99999999999999999999").is_err());
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert_eq!(parse_duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        for text in ["10", "ms", "-1s", "1h", "1.2.3s", "90000s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(show_bytes(512), "512 B");
        assert_eq!(show_bytes(3 << 29), "1.5 GiB");
        assert_eq!(show_count(1_234_567.0), "1.235 M");
        assert_eq!(show_ns(1500.0), "1.50 us");
    }
}
