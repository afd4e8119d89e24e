//! A system that gives no thread, or little memory: a command works without, or says so.

use std::process::Command;

use polder_testkit::effort::is_long;

use crate::support::{Run, Store, killed_load, polder, run};

/// So large a stack no thread gets.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");

#[test]
fn without_threads_it_is_said_what_is_missing() {
    let store = Store::new();
    killed_load(&store, "none");
    let no_threads = |command: &str, args: &[&str]| {
        let (name, value) = NO_THREADS;
        run(store.command(command, args).env(name, value))
    };
    let new = store.dir.path().join("new");
    let load = ["--table", "t", "--format", "lines", "-"];
    for run in [
        no_threads("put", &["t", "k", "v"]),
        no_threads("drop", &["t"]),
        no_threads("import", &load),
        no_threads("salvage", &[new.to_str().unwrap()]),
    ] {
        // The log was replayed by the command that opened it, and the store itself needs threads.
        assert!(run.fails(3).contains("cannot start a thread for the store"));
    }
    // To read it does not.
    no_threads("tables", &[]).ok();
    no_threads("check", &["--deep"]).ok();
    no_threads("log", &["--limit", "1"]).ok();
    let (name, value) = NO_THREADS;
    let all = store.dir.path().join("fresh");
    run(polder().arg("create").arg(&all).env(name, value)).fails(3);
    run(polder().arg("create").arg(&all)).ok();
    store.polder("tables", [""; 0]).ok();
}

/// With so many KiB of addresses.
fn within(kib: u32, command: &Command) -> Run {
    let mut limited = Command::new("sh");
    let limit = format!("ulimit -v {kib} && exec \"$@\"");
    limited.args(["-c", &limit, "polder"]).arg(command.get_program()).args(command.get_args());
    run(&mut limited)
}

/// A store is opened, or it is said that memory or a thread is missing. Nothing ends by a signal.
#[test]
fn little_memory_is_an_error() {
    let store = Store::new();
    killed_load(&store, "periodic:1ms");
    let names = ["data", "log"];
    let crashed = names.map(|name| std::fs::read(store.path().join(name)).unwrap());
    let (mut worked, mut refused) = (0, 0);
    let step = if is_long() { 20_000 } else { 60_000 };
    for kib in (40_000..400_000).step_by(step) {
        for (name, bytes) in names.iter().zip(&crashed) {
            std::fs::write(store.path().join(name), bytes).unwrap();
        }
        let run = within(kib, &store.command("tables", [""; 0]));
        match run.code {
            0 => worked += 1,
            _ => {
                let text = run.fails(3);
                let known = ["cannot start a thread", "address space", "bytes of memory"];
                assert!(known.iter().any(|known| text.contains(known)), "{kib}: {text}");
                refused += 1;
            }
        }
        let run = within(kib, &store.command("stat", ["--budget", "1GiB"]));
        assert!(run.fails(3).contains("ulimit -v"), "{kib}");
    }
    assert!(worked > 0, "{refused} refused");
}
