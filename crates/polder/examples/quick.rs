//! The program of the README.

use polder::{Change, Options, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 64 MiB of memory, however much data there will be.
    let store = Store::open(Options::new("cities.polder").memory_budget(64 << 20))?;
    let cities = store.open_table("cities")?;

    cities.put("nl/utrecht", "Utrecht")?;
    cities.put("nl/amsterdam", "Amsterdam")?;
    cities.put("be/gent", "Gent")?;
    // Reads, changes and writes one key as one step.
    cities.update_with("be/gent", |name| match name {
        Some(name) => Change::Insert([name, b" (Ghent)"].concat()),
        None => Change::Keep,
    })?;
    assert_eq!(cities.get("be/gent")?, Some(b"Gent (Ghent)".to_vec()));

    for city in cities.prefix("nl/") {
        let (key, name) = city?;
        println!("{} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&name));
    }
    store.close()?;
    Ok(())
}
