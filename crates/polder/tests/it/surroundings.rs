//! What the system may lack: file descriptors, the right to write, direct I/O. A store works
//! without, or says what is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use polder::{OpenError, Store};
use polder_testkit::found;

use crate::mount::Mount;
use crate::support::*;

const PATH: &str = "POLDER_TEST_FEW_FILES_STORE";

/// Opens, writes and closes a store.
fn use_store(path: &Path) -> Result<(), OpenError> {
    let store = Store::open(tight(path))?;
    let table = store.open_table("t").unwrap();
    for i in 0..50u64 {
        table.put(i.to_be_bytes(), [1; 3000]).unwrap();
    }
    assert_sound(&store);
    drop(table);
    store.close().unwrap();
    Ok(())
}

/// Not a test of its own: what the children of the next one do.
#[test]
fn child_with_few_files() {
    let Some(path) = std::env::var_os(PATH) else { return };
    match use_store(Path::new(&path)) {
        Ok(()) => println!("\nit works"),
        Err(error) => println!("\nrefused: {}", full_text(&error)),
    }
}

#[test]
fn too_few_file_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let mut refused = 0;
    let mut worked = false;
    for files in 3..16 {
        let path = dir.path().join(files.to_string());
        // A store that is there, and one that must be made.
        for is_new in [true, false] {
            let child = Command::new("sh")
                .args(["-c", "ulimit -n $0 && exec \"$@\"", &files.to_string()])
                .arg(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "surroundings::child_with_few_files",
                    "--nocapture",
                    "--test-threads=1",
                ])
                .env(PATH, &path)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout).into_owned();
            let noise = String::from_utf8_lossy(&child.stderr).into_owned();
            assert!(!noise.contains("panicked"), "{files}: {noise}");
            if let Some(refusal) = said.lines().find(|line| line.starts_with("refused: ")) {
                assert!(refusal.contains("Too many open files"), "{files}: {refusal}");
                assert!(refusal.contains(&path.display().to_string()), "{files}: {refusal}");
                refused += 1;
                assert!(!worked, "more files, and it does not work: {refusal}");
            } else if said.contains("it works") {
                worked = true;
            } else {
                // The test's own harness needs some.
                assert!(files < 8, "{files}: {said} {noise}");
            }
            // What was begun is no obstacle once there are enough.
            if is_new {
                use_store(&path).unwrap();
            }
        }
    }
    assert!(worked && refused > 0, "worked: {worked}, refused: {refused}");
}

#[test]
fn a_file_system_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(dir.path(), "32M") else { return };
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    use_store(&old).unwrap();
    let before = fs::read(old.join("data")).unwrap();
    mount.make_read_only();
    for path in [&old, &new] {
        let error = Store::open(tight(path)).unwrap_err();
        assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
        let text = full_text(&error);
        assert!(text.contains("Read-only file system"), "{text}");
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
    assert_eq!(fs::read(old.join("data")).unwrap(), before);
}

#[test]
fn a_directory_that_may_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shut");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(path.join("probe"), "").is_ok() {
        found::skip("this process may write everywhere");
        return;
    }
    for path in [path.clone(), path.join("within")] {
        let error = Store::open(tight(&path)).unwrap_err();
        let text = full_text(&error);
        assert!(text.contains("Permission denied"), "{text}");
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
}

/// Memory file systems know no direct I/O, or did not for long.
#[test]
fn a_file_system_without_direct_io() {
    let memory = Path::new("/dev/shm");
    let Ok(dir) = tempfile::tempdir_in(memory) else {
        found::skip(format_args!("{} cannot be written", memory.display()));
        return;
    };
    let path = dir.path().join("store");
    use_store(&path).unwrap();
    use_store(&path).unwrap();
    let store = Store::open(tight(&path)).unwrap();
    assert_eq!(store.table("t").unwrap().len(), 50);
}
