use super::*;

#[test]
fn fast_operations_are_sampled_and_weighted() {
    let never = Interrupt::silent();
    let stop = Stop::new(&never);
    let mut meter = Meter::start(None, Timing::Sampled, &stop);
    for _ in 0..1600 {
        meter.time(|| ());
    }
    assert!(!meter.is_over());
    let Reading { ops, latencies, .. } = meter.finish();
    // The last operations may still wait for their sample; each before is stood for.
    assert_eq!(ops, 1600);
    assert!((ops - SPARSE + 1..=ops).contains(&latencies.len()));
}

#[test]
fn slow_operations_are_timed_each_and_the_limit_ends_the_phase() {
    let never = Interrupt::silent();
    let stop = Stop::new(&never);
    let mut meter = Meter::start(Some(Duration::from_millis(30)), Timing::Sampled, &stop);
    while !meter.is_over() {
        meter.time(|| std::thread::sleep(Duration::from_micros(200)));
    }
    let elapsed = meter.started().elapsed();
    assert!(elapsed >= Duration::from_millis(30));
    let Reading { ops, latencies, .. } = meter.finish();
    assert_eq!(latencies.len(), ops);
    assert!(latencies.min() >= 200_000);
}

#[test]
fn an_error_elsewhere_ends_the_phase() {
    let never = Interrupt::silent();
    let stop = Stop::new(&never);
    stop.set();
    let mut meter = Meter::start(None, Timing::Sampled, &stop);
    for _ in 0..SPARSE {
        meter.time(|| ());
    }
    assert!(meter.is_over());
    let mut meter = Meter::start(None, Timing::Sampled, &stop);
    (0..ENTRIES_PER_LOOK).for_each(|_| meter.count());
    assert!(meter.is_over());
}

/// An open loop of a thousand operations a second, whose first takes this long.
fn stalled(stall: Duration, limit: Duration) -> Reading {
    let never = Interrupt::silent();
    let stop = Stop::new(&never);
    let timing = Timing::Open(Schedule::new(1000.0, 0, 1));
    let mut meter = Meter::start(Some(limit), timing, &stop);
    let mut stall = Some(stall);
    while !meter.is_over() {
        meter.time(|| stall.take().map(std::thread::sleep));
    }
    let started = meter.started();
    let reading = meter.finish();
    assert!(started.elapsed() >= limit);
    reading
}

#[test]
fn in_an_open_loop_a_stall_counts_against_those_that_it_kept_waiting() {
    let reading = stalled(Duration::from_millis(200), Duration::from_millis(400));
    // All have their place in the histogram; a busy machine may keep the last from beginning.
    assert_eq!(reading.latencies.len(), 400);
    assert!((300..=400).contains(&reading.ops), "{}", reading.ops);
    // Those due in the first 100 ms waited for at least another 100.
    let waited = reading.latencies.count_between(100_000_000, u64::MAX);
    assert!(waited >= 100, "{waited}");
    assert!(reading.latencies.max() >= 199_000_000);
    // In a closed loop the stall would be one operation of many.
    let mut never = Some(Duration::from_millis(200));
    let silent = Interrupt::silent();
    let stop = Stop::new(&silent);
    let limit = Some(Duration::from_millis(210));
    let mut meter = Meter::start(limit, Timing::Each, &stop);
    while !meter.is_over() {
        meter.time(|| never.take().map(std::thread::sleep));
    }
    let closed = meter.finish();
    assert_eq!(closed.latencies.len(), closed.ops);
    assert_eq!(closed.latencies.count_between(199_000_000, u64::MAX), 1);
}

#[test]
fn operations_that_never_began_have_waited_as_well() {
    let reading = stalled(Duration::from_millis(100), Duration::from_millis(50));
    assert_eq!(reading.ops, 1);
    assert_eq!(reading.latencies.len(), 50);
    assert!(reading.latencies.min() >= 49_000_000);
}

#[test]
fn without_a_stall_an_open_loop_keeps_its_rate() {
    let reading = stalled(Duration::ZERO, Duration::from_millis(100));
    assert_eq!(reading.latencies.len(), 100);
    assert!(reading.ops >= 50, "{}", reading.ops);
}
