//! Numbers of bytes and of things, and times, as people write them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use bytesize::ByteSize;

/// Reads a number of bytes: `4096`, `64KiB`, `1.5GiB`; `64MB` is a power of 1000.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    text.trim().parse().map(|size: ByteSize| size.as_u64())
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

/// Reads a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    within(parse_number, 1..=1024)(text)
}

/// Reads a number of seconds, which is not 0, and at most a day.
pub(crate) fn parse_some_seconds(text: &str) -> Result<f64, String> {
    within(parse_number, 1e-9..=86_400.0)(text)
}

/// Reads a plain number.
pub(crate) fn parse_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no such number"))
}

/// Reads as `parse` does what lies within these bounds.
pub(crate) fn within<T: PartialOrd + Display + Clone>(
    parse: fn(&str) -> Result<T, String>,
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match parse(text)? {
        value if bounds.contains(&value) => Ok(value),
        _ => Err(format!("a number from {} to {}", bounds.start(), bounds.end())),
    }
}

/// Writes a number of bytes for people.
pub(crate) fn show_bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
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
        assert_eq!(parse_bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("64MB"), Ok(64_000_000));
        assert!(parse_bytes("MiB").is_err());
        assert!(parse_bytes("64 quarts").is_err());
    }

    #[test]
    fn counts_are_read_with_their_factors() {
        assert_eq!(parse_count("10_000"), Ok(10_000));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert!(parse_count("ten").is_err());
        assert!(parse_count("99999999999999999999").is_err());
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(show_bytes(512), "512 B");
        assert_eq!(show_bytes(3 << 29), "1.5 GiB");
        assert_eq!(show_count(1_234_567.0), "1.235 M");
        assert_eq!(show_ns(1500.0), "1.50 us");
    }
}
