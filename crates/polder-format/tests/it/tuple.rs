//! Properties of the tuple codec.

use std::cmp::Ordering;

use polder_format::tuple::{Element, OwnedElement, decode, encode};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes in which what the codec treats specially is frequent.
fn awkward_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(0xff), Just(1), 0x10u8..0x12, any::<u8>()], 0..6)
}

fn awkward_text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('\u{10ffff}'), any::<char>()], 0..5)
        .prop_map(|chars| chars.into_iter().collect())
}

fn float() -> impl Strategy<Value = f64> {
    let special = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(-5e-324)
    ];
    prop_oneof![special, -4.0..4.0, any::<u64>().prop_map(f64::from_bits)]
        .prop_filter("a number", |number| !number.is_nan())
}

fn element() -> impl Strategy<Value = OwnedElement> {
    prop_oneof![
        Just(OwnedElement::Null),
        awkward_bytes().prop_map(OwnedElement::Bytes),
        awkward_text().prop_map(OwnedElement::Text),
        prop_oneof![-3i64..3, any::<i64>()].prop_map(OwnedElement::Int),
        prop_oneof![0u64..4, any::<u64>()].prop_map(OwnedElement::Uint),
        float().prop_map(OwnedElement::Float),
        any::<bool>().prop_map(OwnedElement::Bool),
    ]
}

fn encoded(tuple: &[OwnedElement]) -> Vec<u8> {
    let elements: Vec<Element<'_>> = tuple.iter().map(OwnedElement::as_element).collect();
    encode(&elements).unwrap()
}

/// If `bytes` decode, then they are what the tuple encodes to (TUPLE-3).
fn decodes_only_what_is_encoded(bytes: &[u8]) {
    if let Ok(tuple) = decode(bytes) {
        assert_eq!(encoded(&tuple), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..Default::default() })]

    #[test]
    fn what_is_encoded_is_decoded(tuple in vec(element(), 0..6)) {
        prop_assert_eq!(decode(&encoded(&tuple)).unwrap(), tuple);
    }

    /// TUPLE-1 and TUPLE-2 say what Rust derives for the variants of an element, and for slices.
    #[test]
    fn bytes_compare_as_tuples_do(
        common in vec(element(), 0..3),
        a in vec(element(), 0..4),
        b in vec(element(), 0..4),
    ) {
        let (a, b) = ([&common[..], &a].concat(), [&common[..], &b].concat());
        prop_assert_eq!(Some(encoded(&a).cmp(&encoded(&b))), a.partial_cmp(&b));
    }

    #[test]
    fn elements_of_one_type_compare_as_they_do(
        bytes in (awkward_bytes(), awkward_bytes()),
        text in (awkward_text(), awkward_text()),
        int in any::<(i64, i64)>(),
        float in (float(), float()),
    ) {
        let order = |a: Element<'_>, b: Element<'_>| {
            // Something behind, so that the end of the first element matters.
            let behind = [Element::Bool(true), Element::Null];
            encode(&[a, behind[0]]).unwrap().cmp(&encode(&[b, behind[1]]).unwrap())
        };
        let expected = |order: Ordering| order.then(Ordering::Greater);
        prop_assert_eq!(
            order(Element::Bytes(&bytes.0), Element::Bytes(&bytes.1)),
            expected(bytes.0.cmp(&bytes.1))
        );
        prop_assert_eq!(
            order(Element::Text(&text.0), Element::Text(&text.1)),
            expected(text.0.cmp(&text.1))
        );
        prop_assert_eq!(order(Element::Int(int.0), Element::Int(int.1)), expected(int.0.cmp(&int.1)));
        let floats = float.0.partial_cmp(&float.1).unwrap();
        prop_assert_eq!(order(Element::Float(float.0), Element::Float(float.1)), expected(floats));
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..40)) {
        decodes_only_what_is_encoded(&bytes);
    }

    #[test]
    fn mutated_tuples_do_not_panic(
        tuple in vec(element(), 1..5),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![Just(0u8), Just(0xff), any::<u8>()],
    ) {
        let bytes = encoded(&tuple);
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] = byte;
        decodes_only_what_is_encoded(&changed);
        decodes_only_what_is_encoded(&bytes[..at.index(bytes.len())]);
        changed.insert(at.index(bytes.len()), byte);
        decodes_only_what_is_encoded(&changed);
    }
}
