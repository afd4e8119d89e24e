//! What a store tells of what it does in the background: nothing, unless it is asked to.

use crate::support::{Run, Store, killed_load, run};

/// Standard error of a command that went well.
fn told(run: Run) -> String {
    assert_eq!(run.code, 0, "{run:?}");
    run.err
}

#[test]
fn events_are_told_to_who_asks() {
    let store = Store::new();
    assert_eq!(told(store.polder("put", ["t", "key", "value"])), "");

    let events = told(store.polder("put", ["t", "key", "value", "-v"]));
    for event in ["store opened", "checkpoint made", "store closed"] {
        assert!(events.contains(event), "{events}");
    }
    assert!(!events.contains("DEBUG"), "{events}");

    let put = |filter| run(store.command("put", ["t", "key", "value"]).env("POLDER_LOG", filter));
    assert_eq!(told(put("warn")), "");
    let events = told(put("polder::checkpointer=info"));
    assert!(events.contains("checkpoint made") && !events.contains("store opened"), "{events}");
    assert!(put("loudly=x").fails(2).contains("POLDER_LOG is `loudly=x`"));
}

#[test]
fn a_recovery_is_an_event() {
    let store = Store::new();
    killed_load(&store, "periodic:1ms");
    let events = told(run(store.command("tables", [""; 0]).env("POLDER_LOG", "warn")));
    assert!(events.contains("recovered from the log"), "{events}");
}
