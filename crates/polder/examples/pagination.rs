//! Pages of a list, forwards and backwards, as a web service gives them out: each page comes with
//! tokens for the one before and the one behind it.
//!
//! A token is a key, and no number of a page: so a page begins where the last one ended, also if
//! entries come and go in between, and finding it costs one descent however far down it is.

use std::ops::Bound;

use polder::{Entry, Options, Store, StoreError, Table};

/// From where, and in which direction. What a service would encode into a link.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Behind(Vec<u8>),
    Before(Vec<u8>),
}

#[derive(Debug)]
struct Page {
    entries: Vec<Entry>,
    previous: Option<Token>,
    next: Option<Token>,
}

/// The page that a token names; without one, the first.
fn page(table: &Table, token: Option<&Token>, size: usize) -> Result<Page, StoreError> {
    // One more than is shown tells whether there are more.
    let mut entries: Vec<Entry> = match token {
        None => table.iter().take(size + 1).collect::<Result<_, _>>()?,
        Some(Token::Behind(key)) => {
            let behind = table.range((Bound::Excluded(key), Bound::Unbounded));
            behind.take(size + 1).collect::<Result<_, _>>()?
        }
        Some(Token::Before(key)) => {
            table.range(..key).rev().take(size + 1).collect::<Result<_, _>>()?
        }
    };
    let more = entries.len() > size;
    entries.truncate(size);
    let (before, behind) = match token {
        None => (false, more),
        Some(Token::Behind(_)) => (true, more),
        Some(Token::Before(_)) => {
            entries.reverse();
            (more, true)
        }
    };
    let (first, last) = (entries.first(), entries.last());
    let previous = first.filter(|_| before).map(|(key, _)| Token::Before(key.clone()));
    let next = last.filter(|_| behind).map(|(key, _)| Token::Behind(key.clone()));
    Ok(Page { entries, previous, next })
}

/// The numbers of the articles in a page.
fn numbers(page: &Page) -> Vec<u64> {
    let number = |key: &[u8]| key.try_into().map(u64::from_be_bytes).expect("a key of 8 bytes");
    page.entries.iter().map(|(key, _)| number(key)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("polder-pages-{}", std::process::id()));
    let store = Store::open(Options::new(&path).memory_budget(16 << 20))?;
    let articles = store.create_table("articles")?;
    // Big-endian: so the order of the bytes is that of the numbers.
    articles.bulk_load((1..=25u64).map(|n| (n.to_be_bytes(), format!("article {n}"))))?;

    let first = page(&articles, None, 10)?;
    assert_eq!(numbers(&first), (1..=10).collect::<Vec<_>>());
    assert_eq!(first.previous, None);
    let second = page(&articles, first.next.as_ref(), 10)?;
    assert_eq!(numbers(&second), (11..=20).collect::<Vec<_>>());
    let third = page(&articles, second.next.as_ref(), 10)?;
    assert_eq!(numbers(&third), (21..=25).collect::<Vec<_>>());
    assert_eq!(third.next, None);

    // And back.
    let back = page(&articles, third.previous.as_ref(), 10)?;
    assert_eq!(numbers(&back), numbers(&second));
    let begin = page(&articles, back.previous.as_ref(), 10)?;
    assert_eq!((numbers(&begin), begin.previous), (numbers(&first), None));

    // Entries come and go, the one of the token among them: nothing is shown twice or left out.
    for gone in 5..=10u64 {
        articles.delete(gone.to_be_bytes())?;
    }
    articles.put(0u64.to_be_bytes(), "a late one")?;
    let again = page(&articles, first.next.as_ref(), 10)?;
    assert_eq!(numbers(&again), numbers(&second));

    store.close()?;
    std::fs::remove_dir_all(path)?;
    println!("three pages, forwards and backwards");
    Ok(())
}
