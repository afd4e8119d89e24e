//! The directory of a store: whose it is, and the lock that keeps it to one process.

use std::fmt;
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
/// The list of the pages that were in memory.
pub(crate) const RESIDENT: &str = "resident";
/// A list that is being written.
pub(crate) const RESIDENT_NEW: &str = "resident.new";
/// The socket by which other processes ask for figures.
pub(crate) const STATS: &str = "stats";
/// How long the last writes of a process that was killed may take. None come after its lock is
/// free but those that the kernel had already.
const LAST_WRITES: Duration = Duration::from_secs(30);
/// The same where there is no lock file: then the process that has the other files locked is
/// likely alive.
const NO_LOCK_FILE: Duration = Duration::from_secs(1);

/// What keeps a directory locked as long as it is there.
pub(crate) type Hold = Arc<dyn fmt::Debug + Send + Sync>;

/// A locked directory. The lock goes with it, also when the process dies.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Of its files, whose last writes may outlive a process that was killed.
    files: Vec<FileLock>,
    /// How long those are waited for.
    patience: Duration,
    _lock: Lock,
}

impl Directory {
    /// Locks the directory, making it if need be and allowed. Tells whether a store must be made
    /// in it.
    pub(crate) fn lock(path: &Path, mode: OpenMode) -> Result<(Directory, bool), OpenError> {
        let error = |what| move |source| OpenError::Io { what, path: path.to_path_buf(), source };
        if !path.try_exists().map_err(error("look for"))? {
            if mode == OpenMode::Open {
                return Err(OpenError::NotFound { path: path.to_path_buf() });
            }
            make_directories(path, &mut sync_directory).map_err(error("make the directory"))?;
        }
        if !has_store(path)? {
            check_empty(path).map_err(error("read the directory"))??;
            if mode == OpenMode::Open {
                return Err(OpenError::NotFound { path: path.to_path_buf() });
            }
        }
        let patience = patience(path);
        let lock = take_lock(path)?;
        // Another process may have made the store before this one had the lock.
        let has_store = has_store(path)?;
        if has_store && mode == OpenMode::Create {
            return Err(OpenError::Exists { path: path.to_path_buf() });
        }
        let path = path.to_path_buf();
        Ok((Directory { path, files: Vec::new(), patience, _lock: lock }, !has_store))
    }

    /// Opens one of its files, or makes it, when all writes of the processes that had it before
    /// are done.
    pub(crate) fn open(&mut self, name: &str) -> Result<Arc<FileDevice>, OpenError> {
        let path = self.path.join(name);
        let device = match FileDevice::open(&path, OpenKind::Existing) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                FileDevice::open(&path, OpenKind::Create)
            }
            device => device,
        };
        let device = device.map_err(|source| OpenError::Io { what: "open", path, source })?;
        self.files.push(lock_file(device.lock(self.patience), &self.path)?);
        Ok(Arc::new(device))
    }

    /// Whether there is a file of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, OpenError> {
        let path = self.path.join(name);
        path.try_exists().map_err(|source| OpenError::Io { what: "look for", path, source })
    }

    /// Makes the entries of new files durable.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        let error = |source| OpenError::Io { what: "sync", path: self.path.clone(), source };
        sync_directory(&self.path).map_err(error)
    }
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let here = path.as_os_str().is_empty();
    File::open(if here { Path::new(".") } else { path })?.sync_all()
}

/// Makes a directory and those above it that are missing, each durable in the one above. `sync` is
/// called with the one above.
fn make_directories(path: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            // Another process was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            made => made?,
        }
        sync(path.parent().unwrap_or(Path::new("")))?;
    }
    Ok(())
}

/// How long to wait for a process that has the files of a directory locked, but not its lock file.
fn patience(path: &Path) -> Duration {
    if path.join(LOCK).exists() { LAST_WRITES } else { NO_LOCK_FILE }
}

/// What came of locking one of the files of the directory `path`: a second sign of a process that
/// uses them, if it has lost its lock file.
fn lock_file(locked: io::Result<FileLock>, path: &Path) -> Result<FileLock, OpenError> {
    locked.map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => {
            let process = "another process, or its last writes are not done".to_string();
            OpenError::Locked { path: path.to_path_buf(), process }
        }
        _ => OpenError::Io { what: "lock the files of", path: path.to_path_buf(), source },
    })
}

/// Whether there is a store, or what must not be overwritten. One that could not be made to its
/// end is none. What is left of one is an error.
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
fn open_to_read(path: &Path, name: &str) -> Result<Option<FileDevice>, OpenError> {
    match FileDevice::open(path.join(name), OpenKind::ReadOnly) {
        Ok(device) => Ok(Some(device)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(OpenError::Io { what: "open", path: path.join(name), source }),
    }
}

/// A directory without a store may hold our lock file, the beginnings of our others, and a socket or
/// a list that an earlier store has left, and nothing else.
fn check_empty(path: &Path) -> io::Result<Result<(), OpenError>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if [LOCK, DATA, LOG, STATS, RESIDENT, RESIDENT_NEW].iter().all(|own| name != *own) {
            let reason = format!("it holds `{}` and no store", name.display());
            return Ok(Err(OpenError::Foreign { path: path.to_path_buf(), reason }));
        }
    }
    Ok(Ok(()))
}

/// A locked file. It is unlocked by name: a child that another thread starts has the file open too
/// until it runs its program, so that closing it here would not end the lock.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock goes with the last process that has the file open, if this fails.
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
        Err(TryLockError::WouldBlock) if file.try_lock_shared().is_ok() => {
            // Those that share it only read, and have written no name.
            drop(Lock(file));
            let process = "a process that has it open to read".to_string();
            return Err(OpenError::Locked { path: path.to_path_buf(), process });
        }
        Err(TryLockError::WouldBlock) => return Err(locked(path, file)),
        Err(TryLockError::Error(e)) => return Err(error("lock", e)),
    }
    let lock = Lock(file);
    // The holder's name is for the messages of others. On a full device they say less, and the
    // store can be opened to be read and to remove things.
    let _ = write_name(&lock.0);
    Ok(lock)
}

/// Writes the name of this process over what the lock file says, which needs no new block where
/// one is there.
fn write_name(mut file: &File) -> io::Result<()> {
    let name = this_process();
    file.rewind()?;
    let written = file.write_all(name.as_bytes());
    // The name of another process is worse than none.
    file.set_len(if written.is_ok() { name.len() as u64 } else { 0 })?;
    written
}

/// A directory that is only read: nothing in it is written, by this process or another, while this
/// is there. Others may read it, too.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    /// Its data file and its log, as far as they are there.
    pub(crate) files: [Option<Arc<FileDevice>>; 2],
    _file_locks: Vec<FileLock>,
    /// `None`: it has no lock file.
    _lock: Option<Lock>,
}

impl ReadOnly {
    /// The same of a directory in which there must be a store.
    pub(crate) fn lock_store(path: &Path) -> Result<ReadOnly, OpenError> {
        let error = |what| move |source| OpenError::Io { what, path: path.to_path_buf(), source };
        let is_there = path.try_exists().map_err(error("look for"))?;
        if !is_there || !has_store(path)? {
            if is_there {
                check_empty(path).map_err(error("read the directory"))??;
            }
            return Err(OpenError::NotFound { path: path.to_path_buf() });
        }
        ReadOnly::lock(path)
    }

    pub(crate) fn lock(path: &Path) -> Result<ReadOnly, OpenError> {
        let patience = patience(path);
        let lock = lock_to_read(path)?;
        let (mut files, mut file_locks) = ([None, None], Vec::new());
        for (file, name) in files.iter_mut().zip([DATA, LOG]) {
            if let Some(device) = open_to_read(path, name)? {
                match device.lock_shared(patience) {
                    Err(error) if is_without_locks(&error) => {}
                    locked => file_locks.push(lock_file(locked, path)?),
                }
                *file = Some(Arc::new(device));
            }
        }
        Ok(ReadOnly { files, _file_locks: file_locks, _lock: lock })
    }
}

/// Shares the lock file with others that read, if there is one.
fn lock_to_read(path: &Path) -> Result<Option<Lock>, OpenError> {
    let error = |what, source| OpenError::Io { what, path: path.join(LOCK), source };
    let file = match File::open(path.join(LOCK)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|e| error("open", e))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Err(locked(path, file)),
        Err(TryLockError::Error(e)) if is_without_locks(&e) => Ok(None),
        Err(TryLockError::Error(e)) => Err(error("lock", e)),
    }
}

/// Whether a file system knows no locks. Then nobody can open a store there to write.
fn is_without_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(libc::ENOLCK)
}

/// Another process holds the lock file.
fn locked(path: &Path, mut file: File) -> OpenError {
    let mut holder = String::new();
    // The holder's name is for the message; without it the message says less.
    let _ = file.read_to_string(&mut holder);
    // Behind the first line there may be the end of a longer name.
    let holder = holder.lines().next().unwrap_or_default().trim();
    let process = if holder.is_empty() { "another process" } else { holder }.to_string();
    OpenError::Locked { path: path.to_path_buf(), process }
}

/// What others are told of the process that holds the store.
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

    /// Each is durable in the one above it, the outermost first.
    #[test]
    fn every_directory_that_is_made_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        fs::create_dir(&there).unwrap();
        let mut synced = Vec::new();
        let mut sync = |path: &Path| {
            synced.push(path.to_path_buf());
            sync_directory(path)
        };
        make_directories(&there.join("a/b/c"), &mut sync).unwrap();
        assert!(there.join("a/b/c").is_dir());
        assert_eq!(synced, [there.clone(), there.join("a"), there.join("a/b")]);
    }

    #[test]
    fn who_reads_shares_the_lock_and_who_writes_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let is_held = |text: &str| match take_lock(dir.path()) {
            Err(OpenError::Locked { process, .. }) => assert!(process.contains(text), "{process}"),
            other => panic!("{other:?}"),
        };
        let writer = take_lock(dir.path()).unwrap();
        is_held(&format!("process {}", std::process::id()));
        assert!(matches!(lock_to_read(dir.path()), Err(OpenError::Locked { .. })));
        drop(writer);
        let readers = [(); 2].map(|()| lock_to_read(dir.path()).unwrap().unwrap());
        is_held("open to read");
        drop(readers);
        take_lock(dir.path()).unwrap();
    }

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
