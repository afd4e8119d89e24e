//! How a command can end other than well, what is said then, and the exit code of each end.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;

use polder::{LiveError, OpenError, OptionsError, SalvageError, StoreError};
use serde_json::json;
use thiserror::Error;

/// Why a command did not do all that it was asked.
#[derive(Debug, Error)]
pub enum Failure {
    /// There is no such key, or no such table in an export; the sentence says so.
    #[error("{0}")]
    NotFound(String),

    /// Damage was found; the output of the command has said what.
    #[error("{0}")]
    Damaged(String),

    /// What was saved may not be all.
    #[error("{0}")]
    Loss(String),

    /// The command line does not make sense.
    #[error("{0}")]
    Usage(String),

    /// The options of the store do not make sense.
    #[error(transparent)]
    Options(#[from] OptionsError),

    /// A line of the input cannot be imported.
    #[error("{input}, line {line}: {why}")]
    BadInput { input: String, line: u64, why: String },

    /// A row of a file of vectors is none.
    #[error("{input}, row {row}: {why}")]
    BadVector { input: String, row: u64, why: String },

    /// A vector could not be inserted.
    #[error("{input}, row {row} could not be inserted")]
    Vector { input: String, row: u64, source: Box<StoreError> },

    /// The store refused a row for a reason that is not the row's.
    #[error("{input}, line {line} could not be imported")]
    Row { input: String, line: u64, source: Box<StoreError> },

    /// An import ended early, and this is what there is of it.
    #[error("{source}. {kept}")]
    Partial { kept: String, source: Box<Failure> },

    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),

    /// Another process holds the store, which would be asked otherwise.
    #[error("{source}. Its statistics are shown by `polder stat --live`")]
    Held { source: OpenError },

    /// The process that holds the store cannot be asked.
    #[error(transparent)]
    Live(#[from] LiveError),

    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// Nothing could be salvaged, or the new store could not be written.
    #[error(transparent)]
    Salvage(#[from] SalvageError),

    /// Something outside of the store could not be read or written.
    #[error("{what}")]
    Io { what: String, source: io::Error },

    /// Somebody wants the command to end.
    #[error("stopped; the store was closed")]
    Interrupted,

    /// The reader of the output has enough of it.
    #[error("nobody reads the output")]
    ReaderGone,
}

impl Failure {
    /// A failure to do `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }

    /// A failure to write results.
    pub fn output(source: io::Error) -> Failure {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Io { what: "cannot write to standard output".into(), source },
        }
    }

    /// Whether the command was ended from outside and nothing went wrong.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Failure::Interrupted | Failure::ReaderGone)
    }

    /// What programs know it by, what they may do about it, and its exit code. The README lists the
    /// kinds, the help text the codes.
    fn describe(&self) -> (&'static str, Option<&'static str>, u8) {
        match self {
            Failure::NotFound(_) => ("not_found", None, 1),
            Failure::Damaged(_) => ("damaged", Some(SALVAGE), 1),
            Failure::Loss(_) => ("loss", None, 1),
            Failure::Usage(_) | Failure::Options(_) => ("usage", None, 2),
            Failure::BadInput { .. } => {
                ("bad_input", Some("correct it, or skip such rows with --skip-bad"), 2)
            }
            Failure::BadVector { .. } => ("bad_input", None, 2),
            Failure::Row { source, .. } | Failure::Vector { source, .. } => of_store(source),
            Failure::Partial { source, .. } => source.describe(),
            Failure::Open(error) => of_opening(error),
            Failure::Held { .. } => ("locked", Some("`polder stat --live` shows its figures"), 3),
            Failure::Live(_) => ("not_live", None, 3),
            Failure::Store(error) => of_store(error),
            Failure::Salvage(SalvageError::SameDirectory) => ("usage", None, 2),
            Failure::Salvage(SalvageError::Write(error)) => of_store(error),
            Failure::Salvage(_) => ("salvage", None, 3),
            Failure::Io { .. } => ("io", None, 4),
            Failure::Interrupted => ("interrupted", None, 130),
            Failure::ReaderGone => ("interrupted", None, 0),
        }
    }

    /// The line of the input that it is about.
    fn line(&self) -> Option<(&str, u64)> {
        match self {
            Failure::BadInput { input, line, .. } | Failure::Row { input, line, .. } => {
                Some((input, *line))
            }
            Failure::BadVector { input, row, .. } | Failure::Vector { input, row, .. } => {
                Some((input, *row))
            }
            Failure::Partial { source, .. } => source.line(),
            _ => None,
        }
    }

    /// Says on standard error what went wrong: in one sentence with its causes, or for programs.
    pub fn report(&self, json: bool) -> ExitCode {
        let (kind, hint, code) = self.describe();
        let message = sentence(self);
        if matches!(self, Failure::ReaderGone) {
        } else if json {
            let mut error =
                json!({ "kind": kind, "message": message, "hint": hint, "exit_code": code });
            if let Some((input, line)) = self.line() {
                (error["input"], error["line"]) = (json!(input), json!(line));
            }
            eprintln!("{}", json!({ "error": error }));
        } else {
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            eprintln!("polder: {message}{hint}");
        }
        ExitCode::from(code)
    }
}

const SALVAGE: &str =
    "`polder check --deep` tells more, and `polder salvage` saves what can be read";

fn of_store(error: &StoreError) -> (&'static str, Option<&'static str>, u8) {
    match error {
        StoreError::NoSuchTable { .. } => {
            ("no_such_table", Some("`polder tables` lists those that there are"), 1)
        }
        StoreError::TableExists { .. } => ("table_exists", None, 2),
        StoreError::TableName { .. } => ("table_name", None, 2),
        StoreError::KeyTooLong { .. } => ("key_too_long", None, 2),
        StoreError::ValueTooLong { .. } => ("value_too_long", None, 2),
        StoreError::Structure { .. } => ("refused", None, 2),
        StoreError::Full { .. } => ("disk_full", None, 4),
        StoreError::PoolExhausted { .. } => {
            ("memory_exhausted", Some("give it more memory with --budget"), 4)
        }
        StoreError::NotDurable { .. } => ("not_durable", None, 4),
        StoreError::Corrupt { .. } => ("corrupt", Some(SALVAGE), 4),
        _ => ("store", None, 4),
    }
}

fn of_opening(error: &OpenError) -> (&'static str, Option<&'static str>, u8) {
    match error {
        OpenError::NotFound { .. } => ("no_store", None, 3),
        OpenError::Exists { .. } => ("store_exists", None, 3),
        OpenError::Locked { .. } => ("locked", None, 3),
        OpenError::Foreign { .. } => ("not_a_store", None, 3),
        OpenError::Newer { .. } => ("newer_version", Some("use a newer polder"), 3),
        OpenError::Remains { .. }
        | OpenError::NoLog { .. }
        | OpenError::Log { .. }
        | OpenError::Damaged { .. } => ("store_damaged", None, 3),
        _ => ("open", None, 3),
    }
}

static JSON: OnceLock<bool> = OnceLock::new();

/// Chooses, once, whether notes are for programs too.
pub fn set_json(json: bool) {
    JSON.get_or_init(|| json);
}

/// Whether they are.
fn is_json() -> bool {
    JSON.get().is_some_and(|json| *json)
}

/// Says on standard error what is worth knowing and no failure.
pub fn note(line: &str) {
    if is_json() {
        eprintln!("{}", json!({ "note": line }));
    } else {
        eprintln!("{line}");
    }
}

/// The end of a command line that cannot be understood, or asks for help.
pub fn of_command_line(error: &clap::Error) -> ExitCode {
    let json = error.use_stderr() && std::env::args_os().any(|argument| argument == "--json");
    if json {
        let text = error.to_string();
        // Behind the first paragraph there is the usage, which is for people.
        let text = text.split("\n\n").next().unwrap_or_default();
        let text = text.strip_prefix("error: ").unwrap_or(text);
        return Failure::Usage(text.lines().map(str::trim).collect::<Vec<_>>().join(" "))
            .report(json);
    }
    // There is nobody to tell that it could not be printed.
    let _ = error.print();
    ExitCode::from(error.exit_code() as u8)
}

/// An error and its causes; a cause that the sentence tells already is left out.
pub fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{}: {more}", text.trim_end_matches('.'));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_once() {
        let disk = || io::Error::other("the disk is wet");
        let failure = Failure::io("cannot read words.txt")(disk());
        assert_eq!(sentence(&failure), "cannot read words.txt: the disk is wet");
        let failure = Failure::io("cannot read words.txt: the disk is wet")(disk());
        assert_eq!(sentence(&failure), "cannot read words.txt: the disk is wet");
    }
}
