//! A collection of vectors beside a table, changed together: `cargo run -p polder --example collection`.
//!
//! Books are in a table, and their sentences in a collection. A sentence's vector is made here by counting
//! letters; elsewhere a model makes it.

use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
use polder::{Options, Query, Store, WriteBatch};

const LETTERS: usize = 26;

/// How often each letter occurs.
fn letters(text: &str) -> [f32; LETTERS] {
    let mut counts = [0.0; LETTERS];
    for letter in text.bytes().filter(u8::is_ascii_alphabetic) {
        counts[usize::from(letter.to_ascii_lowercase() - b'a')] += 1.0;
    }
    counts
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(Options::new(directory.path().join("library")))?;
    let shape =
        VectorShape { element: ElementKind::F32, dimensions: LETTERS, metric: Metric::Cosine };
    let sentences = store.create_collection("sentences", HnswOptions::new(shape))?;
    let books = store.create_table("books")?;

    let library = [
        ("Moby-Dick", "Call me Ishmael"),
        ("Emma", "Emma Woodhouse, handsome, clever, and rich"),
        ("Kim", "He sat, in defiance of municipal orders, astride the gun"),
        ("Ulysses", "Stately, plump Buck Mulligan came from the stairhead"),
    ];
    for (title, sentence) in library {
        // Both are there, or none of them, also after a crash.
        let mut batch = WriteBatch::new();
        batch.put(&books, title, sentence.len().to_string());
        batch.insert_vector(&sentences, title, &letters(sentence), sentence);
        store.apply(batch)?;
    }

    let query = letters("My name is Ishmael: call me that");
    for hit in sentences.search(&query, &Query::new(2))?.hits {
        let (title, sentence) = (hit.key.escape_ascii(), hit.payload.escape_ascii());
        println!("{:.3}  {title}: {sentence}", hit.distance);
    }
    let is_long = |_title: &[u8], sentence: &[u8]| sentence.len() > 20;
    let found = sentences.search(&query, &Query::new(1).filter(&is_long))?;
    println!("of the longer ones: {}", found.hits[0].key.escape_ascii());

    sentences.remove("Emma")?;
    assert_eq!((books.len(), sentences.len()), (4, 3));
    store.close()?;
    Ok(())
}
