use super::*;
use crate::random::stream;

const DRAWS: u64 = 400_000;

/// Fails where a count is further from what is expected than chance allows (5 sigma).
fn assert_share(found: u64, share: f64, what: &str) {
    let expected = share * DRAWS as f64;
    let sigma = (expected * (1.0 - share)).sqrt().max(1.0);
    let off = (found as f64 - expected).abs() / sigma;
    assert!(off < 5.0, "{what}: {found} draws, {expected:.0} expected, {off:.1} sigma off");
}

#[test]
fn zipfian_ranks_have_their_theoretical_frequencies() {
    for theta in [0.5, 0.8, 0.99, 1.0, 1.2, 1.6, 2.0] {
        let count = 1000;
        let zipf = zipf(count, theta);
        let mut random = stream(3, 0);
        let mut found = vec![0u64; count as usize + 1];
        for _ in 0..DRAWS {
            found[zipf.sample(&mut random) as usize] += 1;
        }
        assert_eq!(found[0], 0);
        let sum: f64 = (1..=count).map(|k| (k as f64).powf(-theta)).sum();
        for k in [1, 2, 3, 4, 7, 10, 30, 100, 300, 999, 1000] {
            let share = (k as f64).powf(-theta) / sum;
            assert_share(found[k], share, &format!("theta {theta}, rank {k}"));
        }
        let half = (1..=500).map(|k| (k as f64).powf(-theta)).sum::<f64>() / sum;
        assert_share(found[..=500].iter().sum(), half, &format!("theta {theta}, first half"));
    }
}

#[test]
fn uniform_is_even() {
    let mut chooser = Chooser::new(Dist::Uniform, 0.99, 10);
    let mut random = stream(7, 0);
    let mut found = [0u64; 10];
    for _ in 0..DRAWS {
        found[chooser.record(&mut random, 10) as usize] += 1;
    }
    for count in found {
        assert_share(count, 0.1, "a record of ten");
    }
}

#[test]
fn a_chooser_that_has_grown_is_the_same_as_a_new_one() {
    let [mut grown, mut new] = [10, 5000].map(|count| Chooser::new(Dist::Latest, 0.99, count));
    let (mut a, mut b) = (stream(1, 0), stream(1, 0));
    assert!((0..1000).all(|_| grown.record(&mut a, 5000) == new.record(&mut b, 5000)));
}

#[test]
fn zipfian_records_are_scattered_and_stay_while_the_store_grows() {
    let records = 1_000_000;
    let mut chooser = Chooser::new(Dist::Zipfian, 0.99, records);
    let mut random = stream(4, 0);
    let mut tenths = [0u64; 10];
    for _ in 0..DRAWS {
        let record = chooser.record(&mut random, records);
        tenths[(record * 10 / records) as usize] += 1;
    }
    // The first rank alone has about 6.5% of the draws, so tenths differ, but none is empty.
    assert!(tenths.iter().all(|&n| n > DRAWS / 20), "{tenths:?}");
    let (mut a, mut b) = (stream(5, 0), stream(5, 0));
    let mut other = chooser.clone();
    assert!(
        (0..1000)
            .all(|_| { chooser.record(&mut a, records) == other.record(&mut b, records + 1000) })
    );
}

#[test]
fn latest_prefers_the_last_record_and_follows_growth() {
    let mut chooser = Chooser::new(Dist::Latest, 0.99, 100);
    let mut random = stream(6, 0);
    for records in [100u64, 1000] {
        let mut found = vec![0u64; records as usize];
        for _ in 0..DRAWS {
            found[chooser.record(&mut random, records) as usize] += 1;
        }
        let sum: f64 = (1..=records).map(|k| (k as f64).powf(-0.99)).sum();
        assert_share(found[records as usize - 1], 1.0 / sum, "last record");
        assert_share(found[records as usize - 2], 2f64.powf(-0.99) / sum, "last but one");
        assert_share(found[0], (records as f64).powf(-0.99) / sum, "first record");
    }
}
