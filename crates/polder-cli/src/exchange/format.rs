//! Which format.

use clap::ValueEnum;

/// How entries stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tab-separated columns.
    Tsv,
    /// A JSON object a line.
    Jsonl,
}

/// What a file to be imported holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// What an export or a scan has written: tab-separated columns.
    Tsv,
    /// What an export or a scan has written: a JSON object a line.
    Jsonl,
    /// A line is a key; its value is empty.
    Lines,
    /// A row of columns with tabs between them: one column is the key, the whole row the value.
    Rows,
}
