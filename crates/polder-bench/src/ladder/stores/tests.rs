use super::super::setup::testing::run;
use super::*;

fn ran(over_time: &[f64]) -> Ran {
    let over_time = over_time.to_vec();
    Ran { per_s: 0.0, pages_read: 0.0, conflicts: 0.0, interval_s: 0.1, over_time }
}

#[test]
fn a_ramp_ends_near_what_it_settles_at() {
    let up = ran(&[0.0, 5.0, 10.0, 89.0, 91.0, 95.0, 130.0, 100.0, 99.0, 101.0]);
    assert_eq!(up.ramp_up_s(), Some(0.5));
    assert_eq!(up.lowest_and_median(), Some((0.0, 93.0)));
    assert_eq!(ran(&[]).ramp_up_s(), None);
    let mut measured = Measured::default();
    up.push_over_time("transactions over time", &mut measured);
    let places: Vec<f64> = measured.figures.iter().map(|figure| figure.at).collect();
    assert_eq!(places[..3], [0.1, 0.2, 0.3]);
}

#[test]
fn short_runs_have_short_intervals() {
    assert_eq!(interval(20.0, 0.5), Duration::from_millis(500));
    assert_eq!(interval(1.0, 0.5), Duration::from_millis(100));
    assert_eq!(interval(1e-6, 0.5), Duration::from_millis(1));
}

#[test]
fn copies_begin_alike_whatever_a_run_does() {
    run(|setup| {
        let log_limit = Some(ample_log(1.0));
        let loaded = Loaded::find(setup, 1, log_limit).unwrap();
        for _ in 0..2 {
            let files = loaded.copy(setup).unwrap();
            let store = files.open(setup, loaded.budget(2.0) + LEAST_GROWTH, false).unwrap();
            let orders = || store.store.table("orders").unwrap().len();
            let before = orders();
            assert_eq!(before, 300);
            store.touch().unwrap();
            let faults = store.store.stats().pool.faults;
            let until = AtomicBool::new(false);
            let ran = store.run_for(2, 0.2, 0.05, Some(&until)).unwrap();
            assert!(orders() > before && ran.per_s > 0.0);
            assert_eq!(ran.over_time.len(), 10);
            assert_eq!(store.store.stats().pool.faults, faults, "not everything was touched");
            store.check_resident().unwrap();
            store.store.checkpoint().unwrap();
            assert!(store.check_resident().is_err());
        }
        assert_eq!(Loaded::find(setup, 7, log_limit).unwrap().warehouses, 1);
    });
}

#[test]
fn a_store_runs_the_mix_that_it_is_told() {
    run(|setup| {
        let loaded = Loaded::find(setup, 1, Some(ample_log(1.0))).unwrap();
        let budget = loaded.budget(2.0) + LEAST_GROWTH;
        let mut store = loaded.copy(setup).unwrap().open(setup, budget, false).unwrap();
        let orders = |store: &TpccStore<'_>| store.store.table("orders").unwrap().len();
        for (mix, inserts) in [(0, false), (100, true)] {
            store.plan.mix = Mix::NewOrders(mix);
            let before = orders(&store);
            let ran = store.run_for(2, 0.1, 0.1, None).unwrap();
            assert!(ran.per_s > 0.0);
            assert_eq!(orders(&store) > before, inserts);
        }
    });
}

#[test]
fn somebody_can_end_a_run() {
    run(|setup| {
        let loaded = Loaded::find(setup, 1, None).unwrap();
        let files = loaded.copy(setup).unwrap();
        let store = files.open(setup, 0, false).unwrap();
        let until = AtomicBool::new(true);
        let ran = store.run_for(2, 600.0, 0.5, Some(&until)).unwrap();
        assert!(ran.over_time.is_empty(), "{ran:?}");
    });
}
