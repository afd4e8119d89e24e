use super::*;

fn filled() -> PageBuf {
    let mut buf = PageBuf::new(PageSize::MIN);
    for (i, byte) in buf.bytes_mut().iter_mut().enumerate() {
        *byte = (i * 7 + i / 256) as u8;
    }
    buf
}

#[test]
fn moves_agree_with_slices() {
    for len in (0..70).chain([500, 511, 512, 700, 3000]) {
        for (from, to) in [(100, 200), (100, 103), (103, 100), (100, 116), (116, 100), (39, 39)] {
            let (mut ours, mut model) = (filled(), filled().bytes().to_vec());
            ours.page_mut().copy_within(from, to, len);
            model.copy_within(from..from + len, to);
            // Behind the header, where the lines are noted that changed (BYTES-5).
            assert_eq!(ours.bytes()[32..], model[32..], "{len} bytes from {from} to {to}");

            let mut out = vec![0; len];
            assert_eq!(ours.page().copy_to(from, &mut out), len);
            assert_eq!(out, model[from..from + len]);
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            ours.page_mut().write(to, &bytes);
            model[to..to + len].copy_from_slice(&bytes);
            ours.page_mut().zero(from, len / 2);
            model[from..from + len / 2].fill(0);
            assert_eq!(ours.bytes()[32..], model[32..]);
        }
    }
}

#[test]
fn comparison_agrees_with_slices() {
    let buf = filled();
    for len in 0..30 {
        for other in [0usize, 1, 7, 8, 9, 15, 16, 17, 29] {
            for change in [None, Some(0), Some(3), Some(8), Some(12)] {
                let mut bytes = buf.bytes()[50..50 + other].to_vec();
                if let Some(byte) = change.and_then(|at| bytes.get_mut(at)) {
                    *byte = byte.wrapping_add(100);
                }
                let expected = buf.bytes()[50..50 + len].cmp(&bytes);
                assert_eq!(buf.page().compare(50, len, &bytes), expected);
            }
        }
    }
}

#[test]
fn reads_stay_in_the_page_and_numbers_are_little_endian() {
    let mut buf = filled();
    let page = buf.page();
    assert_eq!(page.u64(usize::MAX), page.u64(4088));
    assert_eq!(page.u16(5), page.u16(4));
    assert_eq!(page.copy_to(4090, &mut [0; 20]), 6);
    let mut out = Vec::new();
    page.append_to(4000, 1000, &mut out);
    assert_eq!(out, buf.bytes()[4000..]);
    buf.page_mut().write_u64(13, 0x0102_0304_0506_0708);
    assert_eq!(buf.bytes()[13], 8);
    assert_eq!(buf.page().unaligned_u64(13), 0x0102_0304_0506_0708);
    assert_eq!(buf.page().unaligned_u16(13), 0x0708);
    assert_eq!(buf.page().big_endian(13, 2), 0x0807 << 48);
    assert_eq!(buf.page().big_endian(13, 0), 0);
}

/// `BYTES-5`: whatever a write changes lies in the lines that it notes, and it notes no others.
#[test]
fn writes_note_the_lines_that_they_touch() {
    for size in [PageSize::MIN, PageSize::new(65536).unwrap()] {
        let (bytes, line) = (size.bytes(), size.bytes() / Lines::COUNT);
        let (mut buf, mut other) = (PageBuf::new(size), PageBuf::new(size));
        other.bytes_mut().fill(0xAB);
        let mut check = |offset: usize, len: usize, write: &dyn Fn(&mut PageMut<'_>)| {
            write(&mut buf.page_mut());
            // SAFETY: the buffer is ours alone.
            let found = unsafe { buf.page().take_changed_lines() };
            let touched = (offset / line..=(offset + len - 1) / line).map(|i| 1 << i);
            assert_eq!(found, Lines(touched.sum()), "{len} bytes at {offset} of {bytes}");
            assert_eq!(buf.page().u64(header_at::CHANGED_LINES), 0);
        };
        check(bytes - 1, 1, &|page| page.set_u8(bytes - 1, 1));
        check(line - 2, 2, &|page| page.set_u16(line - 2, 1));
        check(line, 4, &|page| page.set_u32(line, 1));
        check(bytes - 8, 8, &|page| page.set_u64(bytes - 8, 1));
        for (offset, len) in [(line - 1, 2), (100, 1), (40, bytes - 40), (line, 2 * line)] {
            check(offset, len, &|page| page.write(offset, &vec![7; len]));
            check(offset, len, &|page| page.zero(offset, len));
            check(offset, len, &|page| page.copy_from(other.page(), bytes - len, offset, len));
            check(offset, len, &|page| page.copy_within(bytes - len, offset, len));
        }
        check(0, bytes, &|page| page.zero(0, bytes));
        // Nothing is written.
        buf.page_mut().write(bytes - 1, &[]);
        buf.page_mut().copy_within(40, 50, 0);
        buf.page_mut().zero(bytes, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { buf.page().take_changed_lines() }, Lines(0));
        // A page that moves takes them with it.
        other.page_mut().set_u64(bytes - 8, 5);
        buf.page_mut().move_from(other.page());
        assert_eq!(buf.bytes(), other.bytes());
    }
}
