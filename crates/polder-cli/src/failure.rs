//! How a command can end other than well, and the exit code of each end.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use polder::{OpenError, OptionsError, SalvageError, StoreError};
use thiserror::Error;

/// Why a command did not do all that it was asked.
#[derive(Debug, Error)]
pub enum Failure {
    /// There is no such key; the sentence says so.
    #[error("{0}")]
    NotFound(String),

    /// Damage was found; the output of the command has said what.
    #[error("{0}")]
    Damaged(String),

    /// The command line does not make sense.
    #[error("{0}")]
    Usage(String),

    /// The options of the store do not make sense.
    #[error(transparent)]
    Options(#[from] OptionsError),

    /// A row of the input cannot be loaded.
    #[error(
        "{input}, line {line}: {why}. {kept}; correct the row, or skip such rows with --skip-bad"
    )]
    BadRow { input: String, line: u64, why: String, kept: String },

    /// The store refused a row for a reason that is not the row's.
    #[error("{input}, line {line} could not be loaded. {kept}")]
    Row { input: String, line: u64, kept: String, source: Box<StoreError> },

    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),

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

    /// The exit code that scripts see; the help text lists them.
    fn code(&self) -> u8 {
        match self {
            Failure::ReaderGone => 0,
            Failure::NotFound(_) | Failure::Damaged(_) => 1,
            Failure::Usage(_) | Failure::Options(_) | Failure::BadRow { .. } => 2,
            Failure::Open(_) => 3,
            Failure::Row { source, .. } => store_code(source),
            Failure::Store(source) => store_code(source),
            Failure::Salvage(SalvageError::SameDirectory) => 2,
            Failure::Salvage(SalvageError::Write(source)) => store_code(source),
            Failure::Salvage(_) => 3,
            Failure::Io { .. } => 4,
            Failure::Interrupted => 130,
        }
    }

    /// Says on standard error what went wrong, in one sentence with its causes.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Failure::ReaderGone) {
            eprintln!("polder: {}", sentence(self));
        }
        ExitCode::from(self.code())
    }
}

fn store_code(error: &StoreError) -> u8 {
    match error {
        StoreError::NoSuchTable { .. } => 1,
        StoreError::KeyTooLong { .. } | StoreError::ValueTooLong { .. } => 2,
        _ => 4,
    }
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
