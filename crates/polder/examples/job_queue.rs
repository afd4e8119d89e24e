//! A queue of jobs for several workers, which survives a crash.
//!
//! A worker leases a job for some time; if it dies, the lease runs out and the next one takes the
//! job. So each job is done at least once, and it leaves the queue once: whoever finishes it must
//! still hold the lease.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use polder::{BatchError, Error, Options, Store, Table, WriteBatch};

struct Queue {
    store: Store,
    /// When the job may be taken, in microseconds, and its number, to what is to be done. In order:
    /// the first one is due first. A lease is a job that is due later.
    jobs: Table,
    done: Table,
}

struct Lease {
    key: Vec<u8>,
    job: Vec<u8>,
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn key(due_us: u64, number: &[u8]) -> Vec<u8> {
    [&due_us.to_be_bytes(), number].concat()
}

impl Queue {
    fn open(store: Store) -> Result<Queue, Error> {
        let (jobs, done) = (store.open_table("jobs")?, store.open_table("done")?);
        Ok(Queue { store, jobs, done })
    }

    fn push(&self, number: u64, job: &str) -> Result<(), Error> {
        self.jobs.put(key(now_us(), &number.to_be_bytes()), job)?;
        Ok(())
    }

    /// The first job that is due, for so long; none if none is.
    fn lease(&self, time: Duration) -> Result<Option<Lease>, Error> {
        loop {
            let now = now_us();
            let Some((due, job)) = self.jobs.range(..key(now, &[])).next().transpose()? else {
                return Ok(None);
            };
            let later = key(now.saturating_add(time.as_micros() as u64), &due[8..]);
            // Another worker may have taken it by now: only if it is still there.
            let Some(version) = self.jobs.version(&due)? else { continue };
            let mut batch = WriteBatch::new();
            batch.expect(&self.jobs, &due, Some(version)).delete(&self.jobs, &due);
            batch.put(&self.jobs, &later, &job);
            match self.store.apply(batch) {
                Ok(()) => return Ok(Some(Lease { key: later, job })),
                Err(BatchError::Unexpected { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the job off the queue. False if the lease had run out and another worker has it.
    fn finish(&self, lease: Lease, result: &str) -> Result<bool, Error> {
        let Some(version) = self.jobs.version(&lease.key)? else { return Ok(false) };
        let mut batch = WriteBatch::new();
        batch.expect(&self.jobs, &lease.key, Some(version)).delete(&self.jobs, &lease.key);
        batch.put(&self.done, &lease.key[8..], result);
        match self.store.apply(batch) {
            Err(BatchError::Unexpected { .. }) => Ok(false),
            applied => Ok(applied.map(|()| true)?),
        }
    }
}

fn main() -> Result<(), Error> {
    const JOBS: u64 = 100;
    let path = std::env::temp_dir().join(format!("polder-jobs-{}", std::process::id()));
    let options = Options::new(&path).memory_budget(16 << 20);
    let queue = Queue::open(Store::open(options.clone())?)?;
    (0..JOBS).try_for_each(|number| queue.push(number, &format!("job {number}")))?;

    // A worker that is slow, or dead: its lease runs out at once.
    let lost = queue.lease(Duration::ZERO)?.expect("a job is due");
    // The program ends here and comes back; the queue is as it was.
    let Queue { store, .. } = queue;
    store.close()?;
    let queue = Queue::open(Store::open(options)?)?;
    assert_eq!(queue.jobs.len(), JOBS);

    let finished = std::thread::scope(|scope| {
        let work = |_| {
            let queue = &queue;
            scope.spawn(move || -> Result<u64, Error> {
                let mut finished = 0;
                while let Some(lease) = queue.lease(Duration::from_secs(60))? {
                    let result = String::from_utf8_lossy(&lease.job).to_uppercase();
                    finished += u64::from(queue.finish(lease, &result)?);
                }
                Ok(finished)
            })
        };
        let workers: Vec<_> = (0..4).map(work).collect();
        let counts = workers.into_iter().map(|worker| worker.join().expect("a worker panicked"));
        counts.sum::<Result<u64, Error>>()
    })?;
    assert_eq!(finished, JOBS);
    assert_eq!((queue.jobs.len(), queue.done.len()), (0, JOBS));
    assert_eq!(queue.done.get(7u64.to_be_bytes())?, Some(b"JOB 7".to_vec()));
    // The slow one comes back too late.
    assert!(!queue.finish(lost, "late")?);

    let Queue { store, .. } = queue;
    store.close()?;
    std::fs::remove_dir_all(path).expect("the store can be removed");
    println!("{JOBS} jobs, each done once");
    Ok(())
}
