use super::*;

/// What lies on disk depends on these.
#[test]
fn the_hash_of_a_key_never_changes() {
    let vectors: [(&[u8], u64); 8] = [
        // The published first output of SplitMix64 for seed 0.
        (b"", 0xE220_A839_7B1D_CDAF),
        (b"\0", 0x5E41_AB08_7439_611E),
        (b"a", 0x5E02_5F9A_DE9E_AF3E),
        (b"abcdefg", 0x715C_B6FC_A288_9B64),
        (b"abcdefgh", 0x804D_4BCF_99E0_46D6),
        (b"abcdefghi", 0xCBE0_B051_2E86_AB3B),
        (b"The quick brown fox jumps over the lazy dog", 0xEEA5_3B42_E23C_3FFB),
        (&[0xff; 32], 0x4E09_106D_DC17_F75C),
    ];
    for (key, hash) in vectors {
        assert_eq!(KeyHash::of(key), KeyHash(hash), "{key:?}");
    }
}

#[test]
fn short_keys_of_one_length_do_not_collide() {
    let mut seen: Vec<u64> = (0..=u16::MAX).map(|i| KeyHash::of(&i.to_le_bytes()).0).collect();
    seen.extend((0..=u16::MAX).map(|i| KeyHash::of(&u64::from(i).to_le_bytes()).0));
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Of numbers in a row, each bit of the hash is set as often as not, and changes with each bit of
/// the key as often as not.
#[test]
fn each_bit_of_the_hash_depends_on_each_of_the_key() {
    const KEYS: u64 = 4000;
    let near_half = |count: u64| (KEYS * 45 / 100..KEYS * 55 / 100).contains(&count);
    for bit in 0..64 {
        let set = |hash: KeyHash| hash.0 >> bit & 1;
        let of = |key: u64| set(KeyHash::of(&key.to_be_bytes()));
        assert!(near_half((0..KEYS).map(of).sum()), "bit {bit}");
        for flipped in 0..64 {
            let changes = |key: u64| of(key) ^ of(key ^ 1 << flipped);
            assert!(near_half((0..KEYS).map(changes).sum()), "bit {bit} by bit {flipped}");
        }
    }
}

#[test]
fn halves_cover_what_their_whole_does() {
    let hash = KeyHash(0xA5C3_0F69_1234_8001);
    assert!(Prefix::ALL.covers(hash) && Prefix::ALL.end().is_none());
    let mut prefix = Prefix::ALL;
    for bits in 0..64 {
        assert_eq!(prefix, Prefix::of(hash, bits));
        let side = prefix.side(hash);
        let (near, far) = (prefix.half(side), prefix.half(side.other()));
        assert!(near.covers(hash) && !far.covers(hash) && prefix.covers(far.first()));
        assert_eq!((near.whole(), far.whole()), (prefix, prefix));
        let (low, high) = (prefix.half(Side::Low), prefix.half(Side::High));
        assert_eq!((low.first(), low.end()), (prefix.first(), Some(high.first())));
        assert_eq!(high.end(), prefix.end());
        prefix = near;
    }
    assert_eq!(prefix, Prefix::only(hash));
    assert_eq!(prefix.end(), Some(KeyHash(hash.0 + 1)));
    assert!(!prefix.covers(KeyHash(hash.0 + 1)));
}
