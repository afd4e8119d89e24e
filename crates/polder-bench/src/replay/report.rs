//! What a replay prints: a table for each trace and size, or a JSON line for each row.

use serde::Serialize;

/// One policy at one size on one trace; the JSON line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Replayed {
    pub(crate) trace: String,
    pub(crate) policy: String,
    /// Of `frames` and `bytes` one is null.
    pub(crate) frames: Option<u32>,
    pub(crate) bytes: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) hit_percent: f64,
    pub(crate) misses: u64,
    /// Dirty pages that went, each of which is written to the device. Those that are dirty at the
    /// end are not among them.
    pub(crate) writes: u64,
    /// Hits of which the policy heard; 0 for the references, which know the trace.
    pub(crate) heard: u64,
    /// Of the whole replay, the simulation's own share included.
    pub(crate) ns_per_request: f64,
    /// What a paper says.
    pub(crate) paper_percent: Option<f64>,
    /// Of the curve that a sample gives: the mean of what its miss ratios differ by from those of exact
    /// LRU, at sizes from an eighth of this one to four times it.
    pub(crate) curve_error: Option<f64>,
}

/// The rows of one trace at one size, for people. `title` says which.
pub(crate) fn table(title: &str, rows: &[Replayed]) -> String {
    let has_paper = rows.iter().any(|row| row.paper_percent.is_some());
    let mut titles = vec!["policy", "hits", "hit ratio", "misses", "writes", "heard", "ns/request"];
    titles.extend(has_paper.then_some("paper"));
    let cells = rows.iter().map(|row| {
        let heard = 100.0 * row.heard as f64 / row.requests.max(1) as f64;
        vec![
            row.policy.clone(),
            row.hits.to_string(),
            format!("{:.3}%", row.hit_percent),
            row.misses.to_string(),
            row.writes.to_string(),
            format!("{heard:.3}%"),
            format!("{:.1}", row.ns_per_request),
            row.paper_percent.map_or(String::new(), |percent| format!("{percent:.1}%")),
        ]
    });
    let requests = rows.first().map_or(0, |row| row.requests);
    let mut text = format!("{title}, {requests} requests\n{}", crate::table::table(&titles, cells));
    for (row, error) in rows.iter().filter_map(|row| Some((row, row.curve_error?))) {
        text += &format!("The curve of {} is {:.3}% off on average.\n", row.policy, 100.0 * error);
    }
    text
}
