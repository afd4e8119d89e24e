//! A field of a page that is not what it should be is found by the check.

use polder_format::{PageKind, PageSize, header_at};
use polder_pool::{AccessHint, Array};
use polder_testkit::Random;
use polder_testkit::pools::disk;

use crate::support::*;

#[test]
fn damage_of_fields_is_found() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(4), 4);
    let mut random = Random::new(1);
    let mut nodes = Vec::new();
    for label in 0..300 {
        nodes.push(insert(&index, label, &vector(&mut random, 4)));
    }
    // Places that are free, so that there are chains.
    for label in (0..300).step_by(4) {
        assert!(index.remove(label, nodes[label as usize]).unwrap());
    }
    let space = index.space();
    // Gives the kind of the page, and what the byte was.
    let change = |page, at: usize, bits: u8| {
        let changed = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, page)?;
            let kind = PageKind(guard.page().u8(header_at::KIND));
            let mut held = attempt.upgrade(guard)?;
            let mut bytes = held.page_mut();
            let was = bytes.as_ref().u8(at);
            bytes.set_u8(at, was ^ bits);
            Ok((kind, was))
        });
        changed.unwrap()
    };
    for page in space.used_pages().unwrap() {
        let (kind, _) = change(page, 0, 0);
        let stride = if kind == PageKind::VAMANA_CODES { 40 } else { 128 };
        let is_live = |at: &usize| change(page, at + 5, 0).1 == 1;
        // The first place with a vector that is found.
        let place = (64..4096 - stride).step_by(stride).find(is_live);
        let (fields, of_place): (&[usize], &[usize]) = match kind {
            // The shape, links, bits, where searches begin, chains, the newest page, how many there are,
            // and some of them.
            PageKind::VAMANA_META => (&[32, 33, 34, 35, 36, 49, 64, 72, 80, 88, 96, 100], &[]),
            // The form, how many are used, the chain, the list; the partner, its state, the label.
            PageKind::VAMANA_CODES => (&[32, 36, 37, 38, 39, 44, 48, 56], &[0, 5, 8]),
            // The same without a list; and the parent, how many children.
            _ => (&[32, 36, 37, 38, 39, 44, 48], &[0, 5, 8, 16, 21]),
        };
        let of_place =
            place.into_iter().flat_map(|place| of_place.iter().map(move |at| place + at));
        for at in fields.iter().copied().chain(of_place) {
            change(page, at, 1);
            let report = index.report();
            let is_found = !report.faults.is_empty() || report.entries != 225;
            assert!(is_found, "{page:?} of {kind:?}, byte {at}");
            change(page, at, 1);
        }
    }
    assert_sound(&index, 225);
}

/// Numbers that are none, and lists that lead round in a circle, end every operation with an error.
#[test]
fn no_damage_makes_an_operation_go_on_for_ever() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(4), 4);
    let mut random = Random::new(1);
    let vectors: Vec<Vec<f32>> = (0..40).map(|_| vector(&mut random, 4)).collect();
    let nodes: Vec<_> =
        (0..).zip(&vectors).map(|(label, vector)| insert(&index, label, vector)).collect();
    let space = index.space();
    let write = |page, at: usize, bytes: &[u8]| {
        let written = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, page)?;
            let mut held = attempt.upgrade(guard)?;
            held.page_mut().write(at, bytes);
            Ok(())
        });
        written.unwrap();
    };
    let pages = space.used_pages().unwrap();
    let kind_of = |page| {
        let kind = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, page)?;
            let kind = PageKind(guard.page().u8(header_at::KIND));
            guard.validate().map(|()| kind)
        });
        kind.unwrap()
    };
    // The distance of the root is no number: new ones are tried as the root, and that ends.
    let first = pages.iter().copied().find(|page| kind_of(*page) == PageKind::VAMANA_META).unwrap();
    write(first, 56, &f32::NAN.to_le_bytes());
    assert!(!index.report().faults.is_empty());
    insert(&index, 100, &vectors[0]);
    // Each link of all nodes leads to one entry.
    for page in pages.into_iter().filter(|page| kind_of(*page) == PageKind::VAMANA_NODES) {
        let mut random = Random::new(page.get());
        for _ in 0..200 {
            let link = nodes[random.index(nodes.len())].to_bits().to_le_bytes();
            write(page, 64 + random.index(4000), &link[..5]);
        }
    }
    for (label, node) in (0..).zip(nodes) {
        // With an error or without.
        let _ = index.remove(label, node);
        let _ = index.insert(200 + label, &vectors[label as usize]);
    }
}
