//! A secondary index: people by their number, and found by their city, in order of the name.
//!
//! A row and its entry in the index change in one batch, so that neither is ever there without the
//! other. The batch says which row it was made from (`expect`): if another thread was faster, all
//! of it is made anew.

use polder::tuple::{Element, OwnedElement, decode, encode};
use polder::{BatchError, Error, Options, Store, Table, WriteBatch};

struct People {
    store: Store,
    /// Number to city and name.
    rows: Table,
    /// City, name and number to nothing: the key says it all.
    by_city: Table,
}

/// A city and a name, as they lie in a row.
fn row(city: &str, name: &str) -> Result<Vec<u8>, Error> {
    Ok(encode(&[Element::Text(city), Element::Text(name)])?)
}

/// The key in the index of a person with this row.
fn index_key(row: &[u8], number: u64) -> Result<Vec<u8>, Error> {
    // A tuple may be extended: the row is the beginning of the key.
    Ok([row, &encode(&[Element::Uint(number)])?].concat())
}

impl People {
    fn open(store: Store) -> Result<People, Error> {
        let (rows, by_city) = (store.open_table("people")?, store.open_table("people by city")?);
        Ok(People { store, rows, by_city })
    }

    /// Gives a person a row, or takes it away, and keeps the index in step.
    fn set(&self, number: u64, new: Option<Vec<u8>>) -> Result<(), Error> {
        let key = number.to_be_bytes();
        loop {
            let old = self.rows.get_versioned(key)?;
            let mut batch = WriteBatch::new();
            batch.expect(&self.rows, key, old.as_ref().map(|(version, _)| *version));
            if let Some((_, old)) = old {
                batch.delete(&self.by_city, index_key(&old, number)?);
            }
            match &new {
                Some(new) => {
                    batch.put(&self.rows, key, new).put(&self.by_city, index_key(new, number)?, "")
                }
                None => batch.delete(&self.rows, key),
            };
            match self.store.apply(batch) {
                Err(BatchError::Unexpected { .. }) => {}
                applied => return Ok(applied?),
            }
        }
    }

    /// Names and numbers of all in a city, in the order of their names.
    fn of_city(&self, city: &str) -> Result<Vec<(String, u64)>, Error> {
        let mut people = Vec::new();
        for entry in self.by_city.prefix(encode(&[Element::Text(city)])?) {
            let (key, _) = entry?;
            match &decode(&key)?[..] {
                [_, OwnedElement::Text(name), OwnedElement::Uint(number)] => {
                    people.push((name.clone(), *number));
                }
                other => eprintln!("not a key of this index: {other:?}"),
            }
        }
        Ok(people)
    }
}

fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("polder-index-{}", std::process::id()));
    let people = People::open(Store::open(Options::new(&path).memory_budget(16 << 20))?)?;

    people.set(1, Some(row("Delft", "Vermeer")?))?;
    people.set(2, Some(row("Delft", "Leeuwenhoek")?))?;
    people.set(3, Some(row("Delfzijl", "Abel")?))?;
    let found = people.of_city("Delft")?;
    assert_eq!(found, [("Leeuwenhoek".to_string(), 2), ("Vermeer".to_string(), 1)]);

    // One moves, one goes; the index has followed.
    people.set(2, Some(row("Delfzijl", "Leeuwenhoek")?))?;
    people.set(1, None)?;
    assert!(people.of_city("Delft")?.is_empty());
    assert_eq!(people.of_city("Delfzijl")?.len(), 2);

    // Several threads move one person about: it is always in one city.
    std::thread::scope(|scope| {
        let move_about = |city| {
            let people = &people;
            scope.spawn(move || (0..50).try_for_each(|_| people.set(3, Some(row(city, "Abel")?))))
        };
        let threads = ["Gouda", "Breda", "Sneek"].map(move_about);
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })?;
    assert_eq!((people.rows.len(), people.by_city.len()), (2, 2));

    let People { store, .. } = people;
    store.close()?;
    std::fs::remove_dir_all(path).expect("the store can be removed");
    println!("each row has its entry in the index");
    Ok(())
}
