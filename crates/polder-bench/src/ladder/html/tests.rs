use super::super::criteria::judge;
use super::super::results::Skipped;
use super::super::results::testing::empty;
use super::super::writes::{Counted, SharedWrites};
use super::*;

fn shown(results: &Results) -> String {
    page(results, &judge(results))
}

/// Each tag that is opened is closed, in order.
pub(super) fn assert_balanced(html: &str) {
    const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    for (at, _) in html.match_indices('<') {
        let tag = &html[at + 1..at + html[at..].find('>').unwrap()];
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        match tag {
            _ if VOID.contains(&name) || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "at {at}"),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn a_page_without_figures_is_a_page() {
    let html = shown(&empty());
    assert_balanced(&html);
    assert!(html.contains("not measured"));
    assert!(!html.contains("http"), "a link to elsewhere");
}

#[test]
fn shared_writes_are_shown_and_judged_where_they_were_counted() {
    let counted = |translation: &str, updates| Counted {
        translation: translation.to_owned(),
        hold: "optimistic".to_owned(),
        a_lookup: Some(Writes { stores: 0.0, updates, by_neighbourhood: 0.0 }),
    };
    let refused = Counted { hold: "group".to_owned(), a_lookup: None, ..counted("<direct>", 0.0) };
    let of = |vm| {
        let sides = vec![
            counted("array", 0.0),
            counted("predictive", 0.0),
            counted("vm", vm),
            refused.clone(),
        ];
        let writes = Some(SharedWrites { threads: 4, keys: 20_000, sides });
        shown(&Results { writes, ..empty() })
    };
    assert_balanced(&of(0.0));
    assert!(of(0.0).contains("✓ pass, counted") && of(0.0).contains("&lt;direct&gt;"));
    assert!(of(0.5).contains("✗ fail, counted"));
    assert!(!shown(&empty()).contains("Writes to shared cache lines"));
}

#[test]
fn what_fits_into_the_cache_says_so() {
    let mut results = empty()
        .with(("scan", "random", "array"), 0.0, &[3.0])
        .with(("scan", "random", "hash"), 0.0, &[1.0])
        .with(("scan", "random", "open"), 0.0, &[2.0])
        .with(("scan", "touched bytes", "array"), 0.0, &[1e6]);
    assert!(shown(&results).contains("✓ pass, not surely"));
    results.machine.cache_bytes = Some(480 << 20);
    let html = shown(&results);
    assert_balanced(&html);
    assert!(html.contains("a cache of 480.0 MiB"));
    assert!(html.contains("✓ pass, not surely; 976.6 KiB beside a cache of 480.0 MiB"));
}

#[test]
fn what_happens_in_time_is_shown_of_one_round() {
    let metric = ("ramp-up", "transactions over time", "vm");
    let mut results = empty().with(metric, 0.1, &[8.0, 1.0, 1.0]).with(metric, 0.2, &[4.0]);
    results.skipped = vec![Skipped {
        part: "tpcc-growing".to_owned(),
        side: "direct, swapped".to_owned(),
        why: "no <swap>".to_owned(),
    }];
    let html = shown(&results);
    assert_balanced(&html);
    assert!(html.contains("direct, swapped: no &lt;swap&gt;"));
    let way = html.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    // The first round's, from full height to half of it.
    let heights: Vec<&str> = way.split(' ').map(|p| p.split(',').nth(1).unwrap()).collect();
    assert_eq!(heights.len(), 2);
    let ground = 240.0 - 26.0;
    let [high, half] = [0, 1].map(|i| ground - heights[i].parse::<f64>().unwrap());
    assert!((high / half - 2.0).abs() < 0.01, "{way}");
}

#[test]
fn metrics_of_one_side_have_a_line_each() {
    let steps = ["rest", "translation", "pin", "latch"];
    let results = steps
        .iter()
        .fold(empty(), |results, step| results.with(("breakdown", step, "hash"), 1.0, &[2e-7]));
    let html = shown(&results);
    for (i, step) in steps.iter().enumerate() {
        assert_eq!(html.matches(&format!("<td>{step}</td>")).count(), 1, "{step}");
        let line = format!("<polyline class=\"line\" style=\"stroke:var(--c{});", i + 1);
        assert_eq!(html.matches(&line).count(), 1, "{step}");
    }
}

#[test]
fn plots_show_medians_and_their_intervals() {
    let mut results = empty()
        .with(("scan", "sequential", "array"), 0.0, &[3e6, 2e6, 4e6])
        .with(("lookup", "uniform", "hash"), 1.0, &[1e6])
        .with(("lookup", "uniform", "hash"), 2.0, &[f64::NAN])
        .with(("tpcc-mixes-larger", "pages read, <b>&", "hash, copy"), 1.0, &[5.0]);
    results.complete = false;
    let html = shown(&results);
    assert_balanced(&html);
    assert!(html.contains("3 M (2 M to 4 M)"), "{html}");
    assert!(html.contains("&lt;b&gt;&amp;") && !html.contains("<b>&"));
    assert!(html.contains("Interrupted"));
    assert!(!html.contains("NaN") && !html.contains("inf"));
}
