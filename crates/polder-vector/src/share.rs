//! Work that several threads share.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use polder_pool::lock;

/// Has so many threads, the caller's among them, do the work of each number below `count`, in about their
/// order. Each thread has a state of its own; gives these. The caller's thread asks `go_on` before each
/// number that it takes; `None` if that has returned false.
///
/// # Errors
/// That of the work with the lowest number of those that failed; few with higher ones are done then.
pub(crate) fn share<S: Send, E: Send>(
    count: usize,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> Result<(), E> + Sync,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Vec<S>>, E> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let take = |go_on: &mut dyn FnMut(usize) -> bool| -> S {
        let mut state = state();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return state;
            }
            if !go_on(number) {
                next.store(count, Relaxed);
            } else if let Err(error) = work(&mut state, number) {
                next.store(count, Relaxed);
                let mut failed = lock(&failed);
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, error));
                }
            }
        }
    };
    let mut is_stopped = false;
    let states = thread::scope(|scope| {
        let others = 1..threads.min(count);
        let take = &take;
        // Where no thread starts, the others do its part.
        let spawn =
            |_| thread::Builder::new().spawn_scoped(scope, move || take(&mut |_| true)).ok();
        let others: Vec<_> = others.filter_map(spawn).collect();
        let mut states = vec![take(&mut |number| {
            is_stopped = !go_on(number);
            !is_stopped
        })];
        for other in others {
            match other.join() {
                Ok(state) => states.push(state),
                Err(panic) => resume_unwind(panic),
            }
        }
        states
    });
    match lock(&failed).take() {
        Some((_, error)) => Err(error),
        None => Ok((!is_stopped).then_some(states)),
    }
}

/// What each of so many threads makes of the same work. Short work: the caller's thread waits, as a thread that
/// a busy one starts may begin milliseconds late, queued behind it while another processor idles. Where no
/// thread starts, or one is enough, it is the caller's that works.
pub(crate) fn in_threads<R: Send>(threads: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, &work).ok();
        let others = if threads > 1 { threads } else { 0 };
        let started: Vec<_> = (0..others).filter_map(spawn).collect();
        if started.is_empty() {
            return vec![work()];
        }
        let results = started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.collect()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn each_number_is_done_once() {
        for (count, threads) in [(0, 3), (1, 3), (1000, 1), (1000, 4)] {
            let push = |done: &mut Vec<usize>, number| -> Result<(), Infallible> {
                done.push(number);
                Ok(())
            };
            let Ok(states) = share(count, threads, Vec::new, push, &mut |_| true);
            let mut done: Vec<usize> = states.unwrap().into_iter().flatten().collect();
            done.sort_unstable();
            assert!(done.into_iter().eq(0..count));
        }
    }

    #[test]
    fn the_first_error_is_told_and_a_stop_is() {
        let fail = |(): &mut (), number| if number >= 40 { Err(number) } else { Ok(()) };
        assert_eq!(share(1000, 4, || (), fail, &mut |_| true).unwrap_err(), 40);
        assert!(share(30, 1, || (), fail, &mut |_| false).unwrap().is_none());
    }

    #[test]
    fn so_many_threads_work() {
        let caller = thread::current().id();
        assert_eq!(in_threads(1, || thread::current().id()), [caller]);
        let three: HashSet<_> = in_threads(3, || thread::current().id()).into_iter().collect();
        assert!(three.len() == 3 && !three.contains(&caller));
    }
}
