use super::*;
use crate::random::Random;

#[test]
fn agrees_with_a_vector() {
    const SIZE: usize = 5 * CHUNK_BYTES as usize;
    let mut random = Random::new(3);
    let (mut image, mut model) = (Image::default(), vec![0u8; SIZE]);
    let mut taken = vec![false; SIZE / BLOCK_BYTES as usize];
    for step in 0..3000 {
        let from = random.index(SIZE);
        let len = random.index((SIZE - from).min(100_000) + 1);
        let (run, to) = (from as u64..(from + len) as u64, from + len);
        let touched = from / 4096..if len == 0 { from / 4096 } else { to.div_ceil(4096) };
        let before = image.clone();
        match random.below(5) {
            0 | 1 => {
                let missing = taken[touched.clone()].iter().filter(|&&taken| !taken).count();
                assert_eq!(image.unallocated_bytes(run), missing as u64 * BLOCK_BYTES);
                random.fill(&mut model[from..to]);
                image.write(from as u64, &model[from..to]);
                taken[touched].fill(true);
            }
            2 => {
                image.punch(run);
                model[from..to].fill(0);
                let whole = from.div_ceil(4096)..to / 4096;
                if !whole.is_empty() {
                    taken[whole].fill(false);
                }
            }
            3 if step % 20 == 0 => {
                image.truncate(from as u64);
                assert_eq!(image.len(), from as u64);
                model[from..].fill(0);
                taken[from.div_ceil(4096)..].fill(false);
            }
            _ => {
                image.allocate(run);
                taken[touched].fill(true);
            }
        }
        let mut out = vec![1; SIZE];
        image.read(0, &mut out);
        assert!(out == model, "step {step}");
        let allocated = taken.iter().filter(|&&taken| taken).count() as u64;
        assert_eq!(image.allocated_bytes(), allocated * BLOCK_BYTES, "step {step}");
        drop(before);
    }
}

#[test]
fn copies_do_not_see_each_other_and_holes_cost_nothing() {
    let mut image = Image::default();
    image.write(1 << 40, b"far");
    image.allocate(1 << 30..(1 << 30) + (64 << 20));
    assert_eq!(image.len(), (1 << 40) + 3);
    let copy = image.clone();
    image.write(1 << 40, b"FAR");
    let mut out = [0; 3];
    copy.read(1 << 40, &mut out);
    assert_eq!(&out, b"far");
    image.truncate(0);
    assert_eq!((image.allocated_bytes(), image.chunks.len()), (0, 0));
}
