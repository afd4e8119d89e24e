//! Asking a process that has a store open for its figures.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::Place;

/// How long a process may keep silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there are no figures of a live store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is no socket in the directory, or nobody listens to it.
    #[error(
        "no process shows figures of a store in {}: none has it open to write, or it was told not to, or there can be no sockets",
        path.display()
    )]
    Nobody {
        /// The directory.
        path: PathBuf,
    },
    /// The system refused, or the process does not answer.
    #[error("cannot ask for the figures of the store in {}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The figures of the store in the directory `path` as the process that has it open has them now: a
/// JSON document, as [`Store::stats_json`](crate::Store::stats_json) gives it there. Neither the
/// store's files nor its lock are touched.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("store");
/// use polder::{Options, Store};
/// let store = Store::open(Options::new(&path).memory_budget(16 << 20))?;
/// // In another process, as a rule.
/// let document = polder::live_stats(&path)?;
/// assert!(document.starts_with(r#"{"version":1,"#));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`LiveError`].
pub fn live_stats(path: impl AsRef<Path>) -> Result<String, LiveError> {
    let path = path.as_ref();
    ask(path).map_err(|source| {
        let path = path.to_path_buf();
        match source.kind() {
            // The first two: nobody is there; the others: nobody is any more.
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => LiveError::Nobody { path },
            _ => LiveError::Io { path, source },
        }
    })
}

fn ask(directory: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(Place::open(directory)?.socket())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut document = String::new();
    stream.read_to_string(&mut document)?;
    match document.ends_with('\n') {
        true => Ok(document),
        // The store was closed meanwhile.
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
