//! Hostile tuples, and the order of those that decode.
#![no_main]

use libfuzzer_sys::fuzz_target;
use polder_format::tuple::{Element, OwnedElement, decode, encode};

fn check(bytes: &[u8]) -> Option<Vec<OwnedElement>> {
    let tuple = decode(bytes).ok()?;
    let elements: Vec<Element<'_>> = tuple.iter().map(OwnedElement::as_element).collect();
    assert_eq!(encode(&elements).as_deref(), Ok(bytes));
    Some(tuple)
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (a, b) = input;
    if let (Some(first), Some(second)) = (check(a), check(b)) {
        assert_eq!(first.partial_cmp(&second), Some(a.cmp(b)));
    }
});
