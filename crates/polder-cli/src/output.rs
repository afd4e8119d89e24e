//! Results on standard output: lines, JSON, and tables with aligned columns.

use std::io::{self, BufWriter, StdoutLock, Write};

use comfy_table::{CellAlignment, Table, presets};
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
    table: Table,
}

impl Columns {
    /// Columns with these sides and no rows.
    pub fn new(sides: &[Side]) -> Columns {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        Columns { sides: sides.to_vec(), table }
    }

    /// One more row, of as many cells as there are columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.table.add_row(cells);
    }

    /// All rows as lines, columns two blanks apart.
    pub fn lines(mut self) -> Vec<String> {
        for (column, side) in self.table.column_iter_mut().zip(&self.sides) {
            column.set_padding((0, 2)).set_cell_alignment(match side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
        self.table.lines().map(|line| line.trim_end().to_owned()).collect()
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
