//! Keys, groups and their grouping.

use super::*;
use std::collections::BTreeMap;

#[test]
fn a_grouping_numbers_keys_by_first_sight_and_finds_them() {
    let mut grouping = KeyGrouping::new();
    let mut seed = 11u64;
    // Reused for every batch, as on the hot path: what an earlier one left must not show.
    for round in 0..300u64 {
        let mut batch = RecordBatch::new();
        let mut expected = BTreeMap::new();
        let mut key_of = Vec::new();
        for _ in 0..seed % 200 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            let key = format!("{}", (seed >> 33) % 50);
            batch.push(key.as_bytes(), b"v", 0);
            let next = expected.len() as u32;
            key_of.extend(expected.entry(key.into_bytes()).or_insert(next).to_le_bytes());
        }
        // With the hashes that an exchange leaves, and without.
        let batch = if round % 2 == 0 { batch.split_by_key(1).remove(0) } else { batch };
        grouping.group(&batch);
        assert_eq!(grouping.key_of, key_of, "round {round}");
        let keys = grouping.keys(&batch);
        assert_eq!(keys.len(), expected.len());
        for (key, &distinct) in &expected {
            assert_eq!(keys.key(distinct as usize), key);
            assert_eq!(keys.hashes[distinct as usize], key_hash(key));
            assert_eq!(grouping.find(&batch, key), Some(distinct));
        }
        for foreign in 50..150 {
            assert_eq!(grouping.find(&batch, foreign.to_string().as_bytes()), None);
        }
        seed = seed.wrapping_add(round * 7 + 1);
    }
}

#[test]
fn every_group_has_one_owner_and_ranges_are_contiguous() {
    for parallelism in [1, 2, 3, 7, 64, 1000] {
        let owners: Vec<u32> = (0..KEY_GROUPS as u16).map(|group| subtask_of_group(group, parallelism)).collect();
        assert!(owners.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] - pair[0] <= 1));
        assert_eq!((owners[0], owners[owners.len() - 1]), (0, parallelism - 1));
        let mut sizes = BTreeMap::<u32, u32>::new();
        owners.iter().for_each(|owner| *sizes.entry(*owner).or_default() += 1);
        let (least, most) = (sizes.values().min(), sizes.values().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{sizes:?}");
    }
    assert_eq!(key_group(u64::MAX), KEY_GROUPS as u16 - 1);
}
