//! The directory of a store: whose it is, and the lock that keeps it to one process.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use polder_pool::device::{Device, FileDevice, FileLock, OpenKind};

use crate::error::OpenError;
use crate::file::{Lies, look};
use crate::options::OpenMode;

pub(crate) const DATA: &str = "data";
const LOCK: &str = "lock";
pub(crate) const LOG: &str = "log";
/// How long the last writes of a process that was killed may take. None come after its lock is free but
/// those that the kernel had already.
const LAST_WRITES: Duration = Duration::from_secs(30);

/// A locked directory. The lock goes with it, also when the process dies.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Of its files, whose last writes may outlive a process that was killed.
    files: Vec<FileLock>,
    _lock: Lock,
}

impl Directory {
    /// Locks the directory, making it if need be and allowed. Tells whether a store must be made
    /// in it.
    pub(crate) fn lock(path: &Path, mode: OpenMode) -> Result<(Directory, bool), OpenError> {
        let error = |what| move |source| OpenError::Io { what, path: path.to_path_buf(), source };
        if !path.exists() {
            if mode == OpenMode::Open {
                return Err(OpenError::NotFound { path: path.to_path_buf() });
            }
            fs::create_dir_all(path).map_err(error("make the directory"))?;
            sync_directory(path.parent()).map_err(error("sync the directory of"))?;
        }
        if !has_store(path)? {
            check_empty(path).map_err(error("read the directory"))??;
            if mode == OpenMode::Open {
                return Err(OpenError::NotFound { path: path.to_path_buf() });
            }
        }
        let lock = take_lock(path)?;
        // Somebody else may have made the store before we had the lock.
        let has_store = has_store(path)?;
        if has_store && mode == OpenMode::Create {
            return Err(OpenError::Exists { path: path.to_path_buf() });
        }
        Ok((Directory { path: path.to_path_buf(), files: Vec::new(), _lock: lock }, !has_store))
    }

    pub(crate) fn data_file(&self) -> PathBuf {
        self.path.join(DATA)
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Opens one of its files, or makes it, when all writes of those who had it before are done.
    pub(crate) fn open(&mut self, path: &Path) -> io::Result<Arc<FileDevice>> {
        let kind = if path.exists() { OpenKind::Existing } else { OpenKind::Create };
        let device = FileDevice::open(path, kind)?;
        self.files.push(device.lock(LAST_WRITES)?);
        Ok(Arc::new(device))
    }

    /// Makes the entry of a new file durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync_directory(Some(&self.path))
    }
}

fn sync_directory(path: Option<&Path>) -> io::Result<()> {
    match path.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => File::open(path)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Whether there is a store, or what must not be overwritten. One that could not be made to its end is
/// none. What is left of one is an error.
fn has_store(path: &Path) -> Result<bool, OpenError> {
    let [data, log] = [open_to_read(path, DATA)?, open_to_read(path, LOG)?];
    let [data, log] = [&data, &log].map(|file| file.as_ref().map(|file| file as &dyn Device));
    let lies = look(data, log);
    match lies.map_err(|source| OpenError::Io { what: "read", path: path.to_path_buf(), source })? {
        Lies::Nothing => Ok(false),
        Lies::Something => Ok(true),
        Lies::Remains(found) => Err(OpenError::Remains { path: path.to_path_buf(), found }),
    }
}

/// One of the files, never to be written, if it is there.
pub(crate) fn open_to_read(path: &Path, name: &str) -> Result<Option<FileDevice>, OpenError> {
    match FileDevice::open(path.join(name), OpenKind::ReadOnly) {
        Ok(device) => Ok(Some(device)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(OpenError::Io { what: "open", path: path.join(name), source }),
    }
}

/// A directory without a store may hold our lock file and the beginnings of our others, and nothing
/// else.
fn check_empty(path: &Path) -> io::Result<Result<(), OpenError>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != DATA && name != LOG {
            let reason = format!("it holds `{}` and no store", name.display());
            return Ok(Err(OpenError::Foreign { path: path.to_path_buf(), reason }));
        }
    }
    Ok(Ok(()))
}

/// A locked file. It is unlocked by name: a child that another thread starts has the file open too
/// until it runs its program, so that closing it here would not end the lock.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock goes with the last one who has the file open, if this fails.
        let _ = self.0.unlock();
    }
}

fn take_lock(path: &Path) -> Result<Lock, OpenError> {
    let error = |what, source| OpenError::Io { what, path: path.join(LOCK), source };
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.join(LOCK))
        .map_err(|e| error("open", e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked(path, file)),
        Err(TryLockError::Error(e)) => return Err(error("lock", e)),
    }
    let lock = Lock(file);
    // Who holds it is for the messages of others. On a full device they say less, and the store can
    // be opened to be read and to remove things.
    let _ = write_name(&lock.0);
    Ok(lock)
}

/// Writes who this is over what the lock file says, which needs no new block where one is there.
fn write_name(mut file: &File) -> io::Result<()> {
    let name = this_process();
    file.rewind()?;
    let written = file.write_all(name.as_bytes());
    // The name of somebody else is worse than none.
    file.set_len(if written.is_ok() { name.len() as u64 } else { 0 })?;
    written
}

/// Locks a directory that is only read: nothing in it is written. `None`: it has no lock file, so
/// that nobody holds it.
pub(crate) fn lock_to_read(path: &Path) -> Result<Option<Lock>, OpenError> {
    let error = |what, source| OpenError::Io { what, path: path.join(LOCK), source };
    let file = match File::open(path.join(LOCK)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| error("open", e))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Err(locked(path, file)),
        Err(TryLockError::Error(e)) => Err(error("lock", e)),
    }
}

/// Somebody else holds the lock file.
fn locked(path: &Path, mut file: File) -> OpenError {
    let mut holder = String::new();
    // Who holds it is for the message; without it the message says less.
    let _ = file.read_to_string(&mut holder);
    // Behind the first line there may be the end of a longer name.
    let holder = holder.lines().next().unwrap_or_default().trim();
    let process = if holder.is_empty() { "another process" } else { holder }.to_string();
    OpenError::Locked { path: path.to_path_buf(), process }
}

/// What others are told of who holds the store.
fn this_process() -> String {
    let name = std::env::current_exe()
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let id = std::process::id();
    match name {
        Some(name) => format!("process {id} ({name})\n"),
        None => format!("process {id}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_though_a_child_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        for lock in [take_lock, |path: &Path| lock_to_read(path).map(Option::unwrap)] {
            let held = lock(dir.path()).unwrap();
            // As a child has it, until it runs its program.
            let _inherited = held.0.try_clone().unwrap();
            assert!(matches!(take_lock(dir.path()), Err(OpenError::Locked { .. })));
            drop(held);
            take_lock(dir.path()).unwrap();
        }
    }
}
