//! Runs the binary and looks at what it says.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// More than a pipe and all that `polder import` reads ahead can hold: once it is written, the
/// other side has begun to load.
pub const MORE_THAN_READ_AHEAD: usize = 2 << 20;

/// How long anything may take before a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store in a directory of its own.
pub struct Store {
    pub dir: TempDir,
}

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Store {
    /// A new one.
    pub fn new() -> Store {
        let store = Store { dir: tempfile::tempdir().unwrap() };
        store.polder("create", ["--budget", "8MiB"]).ok();
        store
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// A file beside the store.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `polder COMMAND STORE ARGS..`, ready to start.
    pub fn command(
        &self,
        command: &str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut polder = polder();
        polder.arg(command).arg(self.path()).args(args);
        polder
    }

    /// Runs it.
    pub fn polder(&self, command: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        run(&mut self.command(command, args))
    }

    /// Runs it with this standard input.
    pub fn feed(
        &self,
        command: &str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: &[u8],
    ) -> Run {
        let mut child = spawn(self.command(command, args).stdin(Stdio::piped()));
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            // A command that stops early does not read all.
            let _ = stdin.write_all(&input);
        });
        let run = finish(child);
        feeder.join().unwrap();
        run
    }

    /// Loads lines.
    pub fn load_lines(&self, table: &str, lines: &str) {
        let args = ["--table", table, "--format", "lines", "-"];
        self.feed("import", args, lines.as_bytes()).ok();
    }
}

impl Run {
    /// Must have gone well; gives standard output.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Must have failed with this code, and with one sentence at the end that begins with the
    /// program's name, or an object for programs (or, for a wrong command line, with its usage).
    /// Gives standard error.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let last = self.err.lines().last().unwrap_or_default();
        let json = serde_json::from_str::<serde_json::Value>(last);
        let is_error = |said: serde_json::Value| said["error"]["exit_code"] == code;
        let is_said = last.starts_with("polder: ") || json.is_ok_and(is_error);
        assert!(is_said || code == 2, "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self.err
    }

    /// Must have gone well and printed JSON.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

/// The binary.
pub fn polder() -> Command {
    Command::new(env!("CARGO_BIN_EXE_polder"))
}

pub fn run(command: &mut Command) -> Run {
    finish(spawn(command.stdin(Stdio::null())))
}

/// Starts it with pipes for what it says.
pub fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for it, for a while.
pub fn finish(child: Child) -> Run {
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        signal(id, "KILL");
        panic!("a command did not end")
    });
    Run::from(output.unwrap())
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code().expect("a signal ended the command"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Sends a signal to a process that a test has started.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {process}")).status();
    assert!(status.unwrap().success());
}

/// An import from standard input that has begun and waits for more. The table is there, so that rows
/// go in one by one.
pub struct Waiting {
    pub child: Child,
    pub process: u32,
    /// Whole lines written to it: the numbers from zero on, with leading zeros.
    pub lines: u64,
    stdin: std::process::ChildStdin,
}

impl Waiting {
    pub fn on(store: &Store) -> Waiting {
        Waiting::with(store, &[])
    }

    /// With more arguments.
    pub fn with(store: &Store, more: &[&str]) -> Waiting {
        store.polder("put", ["t", "00000000", ""]).ok();
        let args = ["--table", "t", "--format", "lines", "-", "--json"];
        let mut child = spawn(store.command("import", args).args(more).stdin(Stdio::piped()));
        let mut stdin = child.stdin.take().unwrap();
        let mut text = String::new();
        let mut lines = 0;
        while text.len() < MORE_THAN_READ_AHEAD {
            text += &format!("{lines:08}\n");
            lines += 1;
        }
        stdin.write_all(text.as_bytes()).unwrap();
        Waiting { process: child.id(), child, lines, stdin }
    }

    /// Waits for it to end while its input stays open.
    pub fn finish(self) -> Run {
        let run = finish(self.child);
        drop(self.stdin);
        run
    }

    /// Ends its input.
    pub fn end(self) -> Run {
        drop(self.stdin);
        finish(self.child)
    }
}

/// A load of [`Waiting`]'s lines that is killed when some of them are durable for sure.
pub fn killed_load(store: &Store, durability: &str) {
    let load = Waiting::with(store, &["--durability", durability]);
    let log = store.path().join("log");
    let before = modified(&log);
    let begun = std::time::Instant::now();
    while modified(&log) == before {
        assert!(begun.elapsed() < PATIENCE, "nothing is written to the log");
        std::thread::sleep(Duration::from_millis(10));
    }
    // What is logged is synced within a second, or within that period.
    let millis = if durability == "periodic:1ms" { 300 } else { 1500 };
    std::thread::sleep(Duration::from_millis(millis));
    signal(load.process, "KILL");
    let mut child = load.child;
    assert!(child.wait().unwrap().code().is_none());
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().unwrap().modified().unwrap()
}
