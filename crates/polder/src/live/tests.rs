use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::directory::STATS;

/// Documents of so many bytes.
struct Long(usize, AtomicUsize);

impl Document for Long {
    fn document(self: Arc<Self>) -> String {
        self.1.fetch_add(1, Ordering::SeqCst);
        "x".repeat(self.0 - 1) + "\n"
    }
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), "").unwrap();
    dir
}

fn serve_long(dir: &Path, bytes: usize) -> (Live, Arc<Long>) {
    let source = Arc::new(Long(bytes, AtomicUsize::new(0)));
    let weak: Weak<dyn Document> = Arc::downgrade(&source) as Weak<dyn Document>;
    (Live::start(dir, weak).unwrap(), source)
}

/// More than a socket takes at a time.
#[test]
fn long_documents_arrive_whole() {
    let dir = directory();
    let (live, _source) = serve_long(dir.path(), 3 << 20);
    for _ in 0..3 {
        assert_eq!(live_stats(dir.path()).unwrap().len(), 3 << 20);
    }
    drop(live);
    assert!(matches!(live_stats(dir.path()), Err(LiveError::Nobody { .. })));
    assert!(!dir.path().join(STATS).exists());
}

/// A client that does not read its document keeps others waiting for its time, and the end not at
/// all.
#[test]
fn a_client_that_never_reads_holds_nobody_up() {
    let dir = directory();
    let (live, source) = serve_long(dir.path(), 3 << 20);
    let silent = UnixStream::connect(dir.path().join(STATS)).unwrap();
    let begun = Instant::now();
    assert_eq!(live_stats(dir.path()).unwrap().len(), 3 << 20);
    assert!(begun.elapsed() >= ANSWER / 2, "the first client was not waited for");
    // What it was not given by then it does not get.
    let mut some = Vec::new();
    let _ = (&silent).read_to_end(&mut some);
    assert!(some.len() < 3 << 20, "{}", some.len());
    let _again = UnixStream::connect(dir.path().join(STATS)).unwrap();
    while source.1.load(Ordering::SeqCst) < 3 {
        thread::yield_now();
    }
    let begun = Instant::now();
    drop(live);
    assert!(begun.elapsed() < ANSWER / 2, "{:?}", begun.elapsed());
}

#[test]
fn what_is_in_the_way_of_a_socket_stays() {
    let dir = directory();
    std::fs::write(dir.path().join(STATS), "mine").unwrap();
    let source: Weak<dyn Document> = Weak::<Long>::new();
    let error = Live::start(dir.path(), source.clone()).unwrap_err();
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(std::fs::read(dir.path().join(STATS)).unwrap(), b"mine");
    std::fs::remove_file(dir.path().join(STATS)).unwrap();
    // A socket that nobody listens to.
    drop(UnixListener::bind(dir.path().join(STATS)).unwrap());
    assert!(matches!(live_stats(dir.path()), Err(LiveError::Nobody { .. })));
    drop(Live::start(dir.path(), source).unwrap());
    assert!(!dir.path().join(STATS).exists());
}
