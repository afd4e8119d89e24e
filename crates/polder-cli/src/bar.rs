//! Bars of characters, for people.

/// A bar of eighths of a character, of at most `width` characters; what is not nothing can be seen.
pub fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    let mut eighths = (share * (8 * width) as f64).round() as usize;
    if value > 0.0 {
        eighths = eighths.max(1);
    }
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(10.0, 10.0, 16), "█".repeat(16));
        assert_eq!(bar(5.0, 10.0, 16), "█".repeat(8));
        assert_eq!(bar(20.0, 10.0, 16), "█".repeat(16));
        assert_eq!(bar(0.001, 10.0, 16), "▏");
        assert_eq!(bar(0.0, 10.0, 16), "");
        assert_eq!(bar(0.0, 0.0, 16), "");
    }
}
