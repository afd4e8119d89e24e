//! The name of an open table. It can be changed while others hold what it was.

use std::sync::OnceLock;

/// A name, and the one that came after it.
///
/// A renamed table keeps its old names as long as it is open: whoever asked for the name has a
/// reference to one of them.
#[derive(Debug)]
pub(crate) struct Name {
    text: String,
    next: OnceLock<Box<Name>>,
}

impl Name {
    pub(crate) fn new(text: &str) -> Name {
        Name { text: text.to_string(), next: OnceLock::new() }
    }

    /// The name now.
    pub(crate) fn get(&self) -> &str {
        &self.last().text
    }

    /// Changes the name. Callers hold a lock that keeps others from doing the same.
    pub(crate) fn set(&self, text: &str) {
        self.last().next.get_or_init(|| Box::new(Name::new(text)));
    }

    fn last(&self) -> &Name {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts_and_the_others_stay() {
        let name = Name::new("a");
        let first = name.get();
        name.set("b");
        name.set("a");
        name.set("c");
        assert_eq!((first, name.get()), ("a", "c"));
    }
}
