//! Parts of an operator's own state, which belongs to no key.

use crate::error::CallErrorKind;
use crate::wire::PartLift;

/// Bytes of all parts of one snapshot. They stand in the manifest of every checkpoint.
const MAX_BYTES: usize = 1 << 20;
/// Parts of one snapshot.
const MAX_PARTS: usize = 1_000;

/// Who gets a part at a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartMode {
    /// One of the subtasks: the one that gave it, or, at another parallelism, any.
    Split,
    /// All of them.
    Broadcast,
}

impl PartMode {
    /// Its name in the contract and in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            PartMode::Split => "split",
            PartMode::Broadcast => "broadcast",
        }
    }

    /// The mode of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [PartMode::Split, PartMode::Broadcast].into_iter().find(|mode| mode.name() == name)
    }
}

/// A part of an operator's own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// Who gets it.
    pub mode: PartMode,
    /// Version of the bytes' encoding, chosen by the author.
    pub schema_version: u32,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Checks what a snapshot gave.
pub(crate) fn check(parts: Vec<PartLift>) -> Result<Vec<StatePart>, CallErrorKind> {
    let (count, bytes) = (parts.len(), parts.iter().map(|part| part.bytes.len()).sum::<usize>());
    if count > MAX_PARTS || bytes > MAX_BYTES {
        return Err(CallErrorKind::Malformed(format!(
            "its snapshot has {count} parts and {bytes} bytes, more than {MAX_PARTS} or {MAX_BYTES}: what is large belongs to keys"
        )));
    }
    let check = |(i, part): (usize, PartLift)| {
        let mode = PartMode::from_name(&part.mode).ok_or_else(|| {
            let shown: String = part.mode.chars().take(40).collect();
            CallErrorKind::Malformed(format!(
                "part {i} of its snapshot: there is no mode {shown:?}; this version knows \"split\" and \"broadcast\""
            ))
        })?;
        Ok(StatePart { mode, schema_version: part.schema_version, bytes: part.bytes })
    };
    parts.into_iter().enumerate().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_sizes_are_checked() {
        let part = |mode: &str, bytes| PartLift { mode: mode.into(), schema_version: 2, bytes: vec![0; bytes] };
        let parts = check(vec![part("broadcast", 3), part("split", 0)]).expect("they are well");
        assert_eq!(parts[0], StatePart { mode: PartMode::Broadcast, schema_version: 2, bytes: vec![0; 3] });
        assert_eq!(parts[1].mode, PartMode::Split);
        for (parts, words) in [
            (vec![part("split", 1), part("union", 1)], "part 1 of its snapshot: there is no mode \"union\""),
            (vec![part("split", MAX_BYTES), part("split", 1)], "2 parts and 1048577 bytes"),
            ((0..=MAX_PARTS).map(|_| part("split", 0)).collect(), "1001 parts and 0 bytes"),
        ] {
            let error = check(parts).expect_err("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
