//! Curves of samples beside exact ones.

use polder_format::{PageId, PageNo, SpaceId};

use super::{MissRatios, Sampler};

/// Page `no` of some table.
fn page(no: u64) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(no).unwrap())
}

/// Exact misses of a least-recently-used pool, for each number of frames at once: distances by a tree of
/// sums over the times of last accesses.
struct Exact {
    last: Vec<u32>,
    sums: Vec<i32>,
    by_distance: Vec<u64>,
    accesses: u64,
}

impl Exact {
    fn new(pages: usize, accesses: usize) -> Exact {
        let (last, sums) = (vec![0; pages], vec![0; accesses + 1]);
        Exact { last, sums, by_distance: vec![0; pages], accesses: 0 }
    }

    fn add(&mut self, time: usize, by: i32) {
        let mut at = time;
        while at < self.sums.len() {
            self.sums[at] += by;
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, time: usize) -> i32 {
        let mut at = time;
        let mut sum = 0;
        while at > 0 {
            sum += self.sums[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }

    fn access(&mut self, page: usize) {
        self.accesses += 1;
        let now = self.accesses as usize;
        let last = std::mem::replace(&mut self.last[page], now as u32) as usize;
        if last > 0 {
            let distance = self.sum(now - 1) - self.sum(last);
            self.by_distance[distance as usize] += 1;
            self.add(last, -1);
        }
        self.add(now, 1);
    }

    fn at(&self, frames: u64) -> f64 {
        let hits: u64 = self.by_distance.iter().take(frames as usize).sum();
        1.0 - hits as f64 / self.accesses as f64
    }
}

/// The mean of what the two differ by, from an eighth of the pool to what the curve tells.
fn mean_error(ratios: &MissRatios, exact: &Exact, frames: u64) -> f64 {
    let sizes: Vec<u64> = (1..=32).map(|eighths| frames * eighths / 8).collect();
    let error = |size: &u64| (ratios.at_frames(*size).unwrap() - exact.at(*size)).abs();
    sizes.iter().map(error).sum::<f64>() / sizes.len() as f64
}

/// Both curves of a stream of accesses, by a pool of so many frames.
fn error_of(frames: u64, pages: usize, accesses: usize, next: impl FnMut() -> usize) -> f64 {
    let sampler = Sampler::new(frames).unwrap();
    let mut exact = Exact::new(pages, accesses);
    let mut next = next;
    for _ in 0..accesses {
        let no = next();
        sampler.hear(page(no as u64 + 2));
        exact.access(no);
    }
    let ratios = sampler.ratios(accesses as u64, &[frames], 4096);
    assert_eq!((ratios.accesses, ratios.dropped), (accesses as u64, 0));
    mean_error(&ratios, &exact, frames)
}

/// Numbers below `pages`, of which number `k` is drawn about as often as 1 / (k + 1) ^ theta says.
fn zipfian(theta: f64, pages: usize, mut random: fastrand::Rng) -> impl FnMut() -> usize {
    let mut sums: Vec<f64> = Vec::with_capacity(pages);
    let mut sum = 0.0;
    for k in 0..pages {
        sum += 1.0 / ((k + 1) as f64).powf(theta);
        sums.push(sum);
    }
    move || sums.partition_point(|below| *below < random.f64() * sum).min(pages - 1)
}

#[test]
fn zipfian_accesses_give_the_curve_that_they_should() {
    for theta in [0.6, 0.99] {
        for frames in [16_384, 65_536] {
            let pages = frames as usize * 5;
            let next = zipfian(theta, pages, fastrand::Rng::with_seed(3));
            let error = error_of(frames, pages, 500_000, next);
            println!("theta {theta}, {frames} frames: {error:.4}");
            assert!(error < 0.02, "theta {theta}, {frames} frames: {error}");
        }
    }
}

#[test]
fn scans_between_them_do_too() {
    let (frames, pages) = (65_536u64, 300_000);
    let mut random = fastrand::Rng::with_seed(5);
    let mut zipf = zipfian(0.9, pages, fastrand::Rng::with_seed(6));
    // A scan of a tenth of the pages now and then, each page of it between some other accesses.
    let mut scan = 0..0;
    let next = || match scan.next().filter(|_| random.u8(..) < 100) {
        Some(page) => page,
        None => {
            if random.u32(..20_000) == 0 {
                let start = random.usize(..pages * 9 / 10);
                scan = start..start + pages / 10;
            }
            zipf()
        }
    };
    let error = error_of(frames, pages, 500_000, next);
    println!("{error:.4}");
    assert!(error < 0.02, "{error}");
}
