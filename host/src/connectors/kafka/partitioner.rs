//! Which partition a record goes to: as Kafka's Java clients choose it, so that other producers' records of a key lie beside ours.

/// MurmurHash2 (Austin Appleby, public domain) with the seed and the byte order of Kafka's `Utils.murmur2`.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let (words, rest) = key.as_chunks::<4>();
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Spreads records over the partitions of a topic.
#[derive(Debug, Default)]
pub(super) struct Partitioner {
    /// Where records without a key go now: each batch to one partition, the next to the next, so that batches stay whole.
    turn: u32,
}

impl Partitioner {
    /// Called before each batch.
    pub(super) fn next_batch(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// The partition of a record; `key`: none is null, which is not the empty key.
    #[inline]
    pub(super) fn of(&self, key: Option<&[u8]>, partitions: u32) -> i32 {
        let hash = key.map_or(self.turn, |key| murmur2(key) & 0x7fff_ffff);
        (hash % partitions) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        // From Apache Kafka's own UtilsTest.testMurmur2.
        let cases: [(&str, i32); 7] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
            ("", 275_646_681),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn records_without_a_key_take_turns_by_batch() {
        let mut partitioner = Partitioner::default();
        let mut seen = Vec::new();
        for _ in 0..4 {
            partitioner.next_batch();
            assert_eq!(partitioner.of(None, 4), partitioner.of(None, 4));
            seen.push(partitioner.of(None, 4));
            assert_eq!(partitioner.of(Some(b""), 4), 275_646_681 % 4, "the empty key is a key");
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
