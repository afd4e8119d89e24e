//! Numbers for people: sizes in powers of 1024, thousands apart, durations.

use std::time::Duration;

const BINARY: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Reads a size such as `64MiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err("a size is a whole number and a unit, such as 4096, 4KiB or 64MiB".into()),
    };
    let number: u64 =
        number.parse().map_err(|_| "a size begins with a whole number, as 64MiB does")?;
    number.checked_mul(factor).ok_or_else(|| "that is more than any machine has".into())
}

/// A size: `64 MiB`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    let mut unit = 0;
    while unit + 1 < BINARY.len() && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    let size = 1u64 << (10 * unit);
    if bytes.is_multiple_of(size) {
        format!("{} {}", bytes / size, BINARY[unit])
    } else {
        format!("{:.1} {}", bytes as f64 / size as f64, BINARY[unit])
    }
}

/// A count with its thousands apart: `348,454`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something: `1 row`, `348,454 rows`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
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
    fn sizes_are_read() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("64 mib"), Ok(64 << 20));
        assert_eq!(parse_bytes("1MB"), Ok(1_000_000));
        for wrong in
            ["", "MiB", "-4", "4.5MiB", "4 potatoes", "99999999TiB", "99999999999999999999"]
        {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_counts_are_written() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(348_454), "348,454");
        assert_eq!(plural(1, "row", "rows"), "1 row");
        assert_eq!(duration(Duration::from_millis(800)), "0.8 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
    }
}
