//! Children that are killed: each is this very program, runs one test that is none of its own, and tells by a
//! pipe which steps of its threads are acknowledged.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What tells the child how many steps each of its threads has behind it.
const BEGIN: &str = "POLDER_TEST_KILL_BEGIN";

/// In the child: the step with which each thread goes on. A thread that panics ends all. `None` where this is
/// no child.
pub fn begun() -> Option<Vec<u64>> {
    let begin = std::env::var(BEGIN).ok()?;
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        tell(info);
        std::process::abort();
    }));
    Some(begin.split(',').map(|n| n.parse().unwrap()).collect())
}

/// In the child: so many steps of a thread are acknowledged.
pub fn tell(thread: u64, steps: u64) {
    // In one piece, or not at all.
    let line = format!("\n#{thread} {steps}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Runs a test as a child, whose threads have so many steps behind them, and kills it so long after its first
/// word: there is something to lose then. Gives how many steps are acknowledged.
pub fn kill(test: &str, told: &[(&str, &OsStr)], steps: &[u64], life: Duration) -> Vec<u64> {
    kill_when(test, told, steps, |_| true, life)
}

/// The same, so long after `is_time` is true of the steps that are acknowledged.
pub fn kill_when(
    test: &str,
    told: &[(&str, &OsStr)],
    steps: &[u64],
    is_time: impl Fn(&[u64]) -> bool,
    life: Duration,
) -> Vec<u64> {
    let begin = steps.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs(told.iter().copied())
        .env(BEGIN, begin)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, said) = mpsc::channel::<(usize, u64)>();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let word = line.strip_prefix('#').and_then(|line| line.split_once(' '));
            // The last line may be cut off, if it was written in two pieces: then it says less.
            if let Some((Ok(thread), Ok(steps))) = word.map(|(t, n)| (t.parse(), n.parse())) {
                let _ = sender.send((thread, steps));
            }
        }
    });
    let mut acknowledged = steps.to_vec();
    let mut acknowledge = |(thread, steps): (usize, u64)| {
        acknowledged[thread] = acknowledged[thread].max(steps);
        is_time(&acknowledged)
    };
    loop {
        let Ok(word) = said.recv() else {
            panic!("the child has ended by itself: {}", child.wait().unwrap());
        };
        if acknowledge(word) {
            break;
        }
    }
    thread::sleep(life);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the child has ended by itself");
    for word in said {
        acknowledge(word);
    }
    acknowledged
}

/// A copy of a store, to be looked at: the next child has to recover the store as it was left.
pub fn copy_of(store: &Path) -> PathBuf {
    let copy = store.with_extension("copy");
    fs::create_dir_all(&copy).unwrap();
    for name in ["data", "log"] {
        fs::copy(store.join(name), copy.join(name)).unwrap();
    }
    copy
}
