use super::*;
use crate::engine::built_in;

fn find(name: &str) -> Result<Named, BenchError> {
    Named::find(&built_in(), name)
}

#[cfg(feature = "translations")]
#[test]
fn names_say_policies_and_ways_in_any_order() {
    for replacement in ReplacementKind::ALL.iter().copied() {
        let name = format!("polder:array+{replacement}");
        let named = find(&name).unwrap();
        assert_eq!((named.replacement(), named.hold()), (replacement, ReadMode::Optimistic));
        assert_eq!(named.to_string(), name);
    }
    for hold in ReadMode::ALL {
        let named = find(&format!("polder:simd+{hold}+cooling:20")).unwrap();
        assert_eq!(named.replacement(), ReplacementKind::Cooling { percent: 20 });
        assert_eq!(named.hold(), *hold);
        assert_eq!(named.to_string(), format!("polder:simd+cooling:20+{hold}"));
    }
    for name in ["polder:array+group:4", "polder:simd+copy:1", "polder:vm+lru+group:512"] {
        assert_eq!(find(name).unwrap().to_string(), name);
    }
    let (four, all) = (find("polder:array+group:4"), find("polder:array+group"));
    assert!(!four.unwrap().is_same(&all.unwrap()));
    assert_eq!(find("device").unwrap().to_string(), "device");
}

#[cfg(feature = "translations")]
#[test]
fn names_say_how_many_keys_a_call_looks_up() {
    let many = |name: &str| find(name).map(|named| (named.many(), named.to_string())).unwrap();
    assert_eq!(many("polder:array"), (1, "polder:array".to_owned()));
    assert_eq!(many("polder:array+many"), (MANY, "polder:array+many".to_owned()));
    assert_eq!(many("polder:array+many:7+lru"), (7, "polder:array+lru+many:7".to_owned()));
    assert_eq!(many("polder:vm+many:1024").1, "polder:vm+many");
    assert!(!find("polder:array").unwrap().is_same(&find("polder:array+many").unwrap()));
}

#[test]
fn names_say_how_many_terminals_a_thread_serves() {
    let tasks = |name: &str| find(name).map(|named| (named.tasks(), named.to_string())).unwrap();
    assert_eq!(tasks("polder:array"), (None, "polder:array".to_owned()));
    assert_eq!(tasks("polder:array+tasks:8+lru").1, "polder:array+lru+tasks:8");
    assert_eq!(tasks("polder:array+tasks:1").0, Some(1));
    assert!(!find("polder:array").unwrap().is_same(&find("polder:array+tasks:1").unwrap()));
    for wrong in ["device+tasks:8", "polder:array+tasks:0", "polder:array+tasks"] {
        assert!(find(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_same_is_the_same_by_any_name() {
    assert!(find("polder:array").unwrap().is_same(&find("polder:array+s3-fifo").unwrap()));
    assert!(!find("polder:array").unwrap().is_same(&find("polder:array+lru").unwrap()));
    assert!(!find("polder:array").unwrap().is_same(&find("device").unwrap()));
}

#[cfg(feature = "translations")]
#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let why = |name: &str| match find(name) {
        Err(BenchError::Options(why)) => why,
        other => panic!("{name}: {other:?}"),
    };
    let unknown = why("polder:array+arc");
    assert!(unknown.contains("hyperbolic") && unknown.contains("optimistic"), "{unknown}");
    assert!(why("polder:array+").contains("hyperbolic"));
    assert!(why("polder:array+cooling:95").contains("90"));
    assert_eq!(why("polder:array+lru+2q"), "polder:array+lru+2q: it cannot be both lru and 2q");
    assert!(why("polder:array+core+core").contains("both core and core"));
    assert!(why("device+lru").contains("device is not Polder"));
    assert!(why("device+shared").contains("device is not Polder"));
    assert!(why("polder:direct+clock").contains("never evicts"));
    assert!(why("polder:vm-huge+lru").contains("never evicts"));
    assert!(find("polder:direct+shared").is_ok());
    assert!(why("polder:predictive+group").contains("shared"));
    assert!(why("polder:predictive+group:4").contains("shared"));
    assert!(why("polder:vm+copy:4").contains("copy:4"));
    assert!(why("polder:array+group:0").contains("1 to 512"));
    for wrong in ["many:0", "many:x", "many:"] {
        assert!(why(&format!("polder:array+{wrong}")).contains("1 to"), "{wrong}");
    }
    assert!(why("polder:array+many+many:3").contains("both many and many:3"));
    assert!(why("device+many").contains("many and tasks are for Polder"));
    assert!(unknown.contains("many:KEYS"), "{unknown}");
    assert!(why("nobody+lru").contains("no engine \"nobody\"; there are: polder:"));
}

#[test]
fn names_say_how_much_memory_of_which_kind() {
    let tiers = find("polder:array+lru+fast:0.5+slow:2@300+dr:0.1").unwrap();
    assert_eq!(tiers.to_string(), "polder:array+lru+fast:0.5+slow:2@300+dr:0.1");
    assert!(!tiers.is_same(&find("polder:array+lru").unwrap()));
    let refused = |name: &str| find(name).unwrap_err().to_string();
    assert!(refused("device+fast:2").contains("for Polder"));
    assert!(refused("polder:array+slow:0").contains("slow:0"));
    assert!(refused("polder:array+nonsense").contains("slow:CACHES@NANOSECONDS"));
    if cfg!(feature = "translations") {
        assert!(refused("polder:direct+slow:1").contains("frame"));
        assert_eq!(find("polder:direct+fast:2").unwrap().to_string(), "polder:direct+fast:2");
    }
}

#[test]
fn tiers_are_written_as_they_were_read() {
    for text in
        ["+fast:2", "+slow:1@300", "+fast:0.5+slow:1+slow:4@1000+dr:0.1+rw:1+mrc", "+mrc", ""]
    {
        let name = format!("polder:array{text}");
        assert_eq!(find(&name).unwrap().to_string(), name);
    }
    for word in ["fast:0", "slow:x", "slow:1@-3", "dr:1.1", "rw:NaN", "fast:1e9", "rr:"] {
        let refused = find(&format!("polder:array+{word}")).unwrap_err().to_string();
        assert!(refused.contains(&format!(": {word}: ")), "{refused}");
    }
    assert!(find("polder:array+slow:1+slow:1+slow:1").is_ok());
    for twice in ["slow:1+slow:1+slow:1+slow:1", "mrc+mrc", "dw:0+dw:1", "fast:1+fast:2"] {
        let refused = find(&format!("polder:array+{twice}")).unwrap_err().to_string();
        assert!(refused.contains("cannot be both"), "{refused}");
    }
}

#[test]
fn sizes_are_in_caches() {
    let named = find("polder:array+fast:0.5+slow:2").unwrap();
    let of = |cache| named.of(Options::new("x"), cache);
    assert!(of(64 << 20).validate().is_ok());
    assert!(of(1 << 20).validate().is_err(), "the first tier is too small");
}
