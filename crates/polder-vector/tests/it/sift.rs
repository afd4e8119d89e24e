//! Real vectors with known answers.

use polder_format::PageSize;
use polder_pool::Array;
use polder_testkit::found::data;
use polder_testkit::pools::disk;
use polder_vector::HnswOptions;

use crate::support::*;

/// Rows of a number of 4 bytes, which says how many elements follow, of so many bytes each.
fn rows(bytes: &[u8], element: usize) -> Vec<Vec<[u8; 4]>> {
    let (mut rows, mut rest) = (Vec::new(), bytes);
    while let Some((count, behind)) = rest.split_first_chunk::<4>() {
        let (row, behind) = behind.split_at(u32::from_le_bytes(*count) as usize * element);
        let number = |bytes: &[u8]| {
            let mut number = [0; 4];
            number[..bytes.len()].copy_from_slice(bytes);
            number
        };
        rows.push(row.chunks_exact(element).map(number).collect());
        rest = behind;
    }
    rows
}

#[test]
fn sift() {
    let file =
        |name: &str| data(format!("vectors/{name}")).map(|path| std::fs::read(path).unwrap());
    let (Some(base), Some(queries), Some(truth)) = (
        file("sift15k_base.bvecs"),
        file("siftsmall_query.fvecs"),
        file("sift15k_groundtruth.ivecs"),
    ) else {
        return;
    };
    let base: Vec<Vec<f32>> =
        rows(&base, 1).iter().map(|row| row.iter().map(|b| f32::from(b[0])).collect()).collect();
    let queries: Vec<Vec<f32>> = rows(&queries, 4)
        .iter()
        .map(|row| row.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        .collect();
    let truth: Vec<Vec<u64>> = rows(&truth, 4)
        .iter()
        .map(|row| row.iter().map(|bytes| u32::from_le_bytes(*bytes).into()).collect())
        .collect();
    assert_eq!((base.len(), queries.len(), truth.len()), (15_000, 100, 100));

    let disk = disk();
    let options = HnswOptions { links: 32, insert_width: 300, ..HnswOptions::new(l2(128)) };
    let (_pool, index) = new_index::<Array>(&disk, PageSize::MIN, &options, 40);
    std::thread::scope(|scope| {
        let (base, index) = (&base, &index);
        for t in 0..2 {
            scope.spawn(move || {
                for (label, vector) in base.iter().enumerate().skip(t).step_by(2) {
                    index.insert(label as u64, vector).unwrap();
                }
            });
        }
    });
    assert_sound(&index, base.len());
    let mut found = 0;
    for (query, truth) in queries.iter().zip(&truth) {
        assert_eq!(labels(&search_exact(&index, query, 100)), *truth);
        found += hits(&search(&index, query, 10, 100), &truth[..10]);
    }
    assert!(found >= 990, "{found} of 1000");
}
