//! Which index a collection has, for those who look at it.

use polder_vector::IndexOptions;
use serde_json::{Value, json};

/// What it is, and what it was made with, by names.
pub fn fields(options: IndexOptions) -> Vec<(&'static str, Value)> {
    match options {
        IndexOptions::Hnsw(options) => vec![
            ("index", json!("hnsw")),
            ("links", json!(options.links)),
            ("insert_width", json!(options.insert_width)),
        ],
        IndexOptions::Vamana(options) => vec![
            ("index", json!("vamana")),
            ("links", json!(options.links)),
            ("insert_width", json!(options.insert_width)),
            ("code_bits", json!(options.code_bits)),
        ],
        IndexOptions::Ivf(options) => {
            vec![("index", json!("ivf")), ("lists", json!(options.lists))]
        }
        // No collection has another one.
        _ => Vec::new(),
    }
}
