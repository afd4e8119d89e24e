//! Results on standard output: lines, JSON, and tables with aligned columns.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::failure::Failure;

/// Standard output, buffered. What it is told must be followed by [`Output::finish`].
pub struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    /// The only writer of standard output while it lives.
    pub fn new() -> Output {
        Output(BufWriter::with_capacity(64 << 10, io::stdout().lock()))
    }

    /// A line.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_all(bytes).map_err(Failure::output)
    }

    /// Writes out what is buffered, and says whether that went well.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::output)
    }
}

/// Prints a line (or several).
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = Output::new();
    out.line(text)?;
    out.finish()
}

/// Prints a value for programs, on a line.
pub fn print_json(value: &Value) -> Result<(), Failure> {
    print(&value.to_string())
}

/// On which side a column has its edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows with aligned columns.
pub struct Columns {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Columns with these sides and no rows.
    pub fn new(sides: &[Side]) -> Columns {
        Columns { sides: sides.to_vec(), rows: Vec::new() }
    }

    /// One more row, of as many cells as there are columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// All rows as lines, columns two blanks apart.
    pub fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row
                .iter()
                .zip(&self.sides)
                .zip(&widths)
                .map(|((cell, side), width)| match side {
                    Side::Left => format!("{cell:<width$}"),
                    Side::Right => format!("{cell:>width$}"),
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let mut columns = Columns::new(&[Side::Left, Side::Right]);
        columns.row(["Städte".into(), "9".into()]);
        columns.row(["a".into(), "1,000".into()]);
        assert_eq!(columns.lines(), ["Städte      9", "a       1,000"]);
    }
}
