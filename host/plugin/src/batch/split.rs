//! A batch spread over the subtasks that own its keys.

use super::{RecordBatch, u32_at};
use crate::state::{key_group, key_hash, subtask_of_group};

impl RecordBatch {
    /// The records of each subtask at this parallelism, in order, with all that they have and the hashes that tell the subtask.
    /// Blocks of `aux` that belong to no record are not passed on.
    pub fn split_by_key(&self, parallelism: u32) -> Vec<RecordBatch> {
        let share = self.len() / parallelism as usize + self.len() / 16 + 16;
        let bytes = self.data.len() / parallelism as usize + self.data.len() / 16 + 256;
        let part = || RecordBatch { hashes: Vec::with_capacity(share), ..Self::with_capacity(share, bytes) };
        let mut parts: Vec<RecordBatch> = (0..parallelism).map(|_| part()).collect();
        let (times, _) = self.times.as_chunks::<8>();
        for (offsets, time) in self.index.windows(12).step_by(8).zip(times) {
            let [start, key_end, end] = [0, 1, 2].map(|i| u32_at(offsets, i) as usize);
            let record = &self.data[start..end];
            let hash = key_hash(&record[..key_end - start]);
            let part = &mut parts[subtask_of_group(key_group(hash), parallelism) as usize];
            // A part is no longer than the whole, whose offsets fit.
            let before = part.data.len();
            let ends = (before + key_end - start) as u64 | ((before + end - start) as u64) << 32;
            part.data.extend_from_slice(record);
            part.index.extend_from_slice(&ends.to_le_bytes());
            part.times.extend_from_slice(time);
            part.hashes.push(hash);
            part.count += 1;
        }
        if self.meta.is_some() {
            self.split_meta(&mut parts);
        }
        parts
    }

    /// Gives the records of `parts` what they have here beside their columns.
    fn split_meta(&self, parts: &mut [RecordBatch]) {
        let parallelism = parts.len() as u32;
        let mut next = vec![0; parts.len()];
        for i in 0..self.len() {
            // Hashed once more, rather than kept for batches that do not need it.
            let owner = subtask_of_group(key_group(key_hash(self.key(i))), parallelism) as usize;
            parts[owner].copy_meta(next[owner], self, i);
            next[owner] += 1;
        }
    }
}
