use super::*;

fn near(times: &Times, now: u32, expected: f32) {
    let worth = times.worth(Round(now), ()).unwrap();
    assert!((worth - expected).abs() < 1e-6, "worth {worth} at {now}, expected {expected}");
}

#[test]
fn a_page_is_worth_its_greatest_frequency() {
    let times = Times::default();
    assert_eq!(times.worth(Round(1), ()), None);
    times.used(Round(1));
    assert_eq!(times.worth(Round(1), ()), None, "an access that came late");
    times.begin(Round(10), false);
    near(&times, 10, 0.1);
    near(&times, 19, 0.01);
    (0..3).for_each(|_| times.used(Round(20)));
    near(&times, 24, 2.0 / 15.0);
    times.used(Round(23));
    near(&times, 24, 2.0 / 5.0);
    near(&times, 109, 3.0 / 100.0);
    times.named(Round(23));
    near(&times, 109, 4.0 / 100.0);
    times.end();
    assert_eq!(times.worth(Round(24), ()), None);
}

/// What a page with these writes is worth at `now` beside one without, by this weight.
fn extra(written: &[u32], now: u32, write_weight: f32) -> f32 {
    let (history, times) = (History::default(), Times::default());
    history.begin(Round(1), false);
    times.begin(Round(1), false);
    written.iter().for_each(|round| history.written(Round(*round)));
    history.worth(Round(now), write_weight).unwrap() - times.worth(Round(now), ()).unwrap()
}

#[test]
fn writes_are_worth_their_greatest_frequency_by_their_weight() {
    let near = |found: f32, expected: f32| {
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    };
    near(extra(&[], 10, 4.0), 0.0);
    // The last one is damped, like that of accesses.
    near(extra(&[10], 19, 1.0), 0.1 / 10.0);
    near(extra(&[10, 10, 10], 19, 1.0), 0.1 / 10.0);
    near(extra(&[10, 15], 19, 1.0), 2.0 / 10.0);
    near(extra(&[10, 15], 19, 4.0), 4.0 * 2.0 / 10.0);
    near(extra(&[10, 15], 19, 0.0), 0.0);
    // Four are known: the fifth one drops the first.
    near(extra(&[2, 102, 202, 302], 1001, 1.0), 4.0 / 1000.0);
    near(extra(&[2, 102, 202, 302, 402], 1001, 1.0), 4.0 / 900.0);
}

#[test]
fn writes_go_with_their_page() {
    let (one, other) = (History::default(), History::default());
    one.written(Round(7));
    assert_eq!(one.worth(Round(7), 1.0), None, "a page is there from its admission on");
    one.begin(Round(8), false);
    let clean = one.worth(Round(9), 1.0).unwrap();
    one.written(Round(8));
    let written = one.worth(Round(9), 1.0).unwrap();
    assert!(written > clean, "{written} {clean}");
    one.move_to(&other);
    assert_eq!((one.worth(Round(9), 1.0), other.worth(Round(9), 1.0)), (None, Some(written)));
    other.end();
    other.begin(Round(8), false);
    assert_eq!(other.worth(Round(9), 1.0), Some(clean), "the next page was not written");
}

#[test]
fn a_write_is_no_access() {
    let history = History::default();
    history.begin(Round(1), false);
    history.written(Round(5));
    let clean = Times::default();
    clean.begin(Round(1), false);
    assert_eq!(history.worth(Round(9), 0.0), clean.worth(Round(9), ()));
}

#[test]
fn eight_accesses_are_known_and_the_ninth_drops_the_first() {
    let times = Times::default();
    times.begin(Round(1), false);
    (2..=8).for_each(|round| times.used(Round(round * 100)));
    near(&times, 10_000, 8.0 / 10_000.0);
    times.used(Round(9_000));
    near(&times, 10_000, 8.0 / (10_000.0 - 199.0));
    let moved = Times::default();
    times.move_to(&moved);
    near(&moved, 10_000, 8.0 / (10_000.0 - 199.0));
    assert_eq!(times.worth(Round(10_000), ()), None);
    // The next page in the frame begins anew.
    moved.end();
    moved.begin(Round(10_000), false);
    (1..=3).for_each(|i| moved.used(Round(10_000 + i)));
    near(&moved, 60_000, 4.0 / 50_001.0);
}

#[test]
fn time_comes_round() {
    let times = Times::default();
    times.begin(Round(TIMES - 5), false);
    times.used(Round(TIMES - 1));
    near(&times, TIMES + 4, 2.0 / 10.0);
    times.begin(Round(5), true);
    assert!(times.worth(Round(5), ()).unwrap() < 1e-5, "a scan's page");
}
