//! Identities that every machine and every file format shares. None of them is ever used again for another thing (C5).

use std::fmt;
use std::str::FromStr;

/// One attempt of a job. Raised by every start and every failover; drawn by a claim in the job's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Identity of a checkpoint: generation × 2³² + sequence, shown `3-17`. Sequences start at 1 in each generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(u64);

impl CheckpointId {
    /// The id of `sequence` in `generation`.
    pub const fn new(generation: Generation, sequence: u32) -> Self {
        CheckpointId(((generation.0 as u64) << 32) | sequence as u64)
    }

    /// The attempt that triggered it.
    pub const fn generation(self) -> Generation {
        Generation((self.0 >> 32) as u32)
    }

    /// Its number in that attempt, from 1.
    pub const fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// As one number, for formats that have no better.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The id after this one in the same generation.
    pub const fn next(self) -> Self {
        CheckpointId(self.0 + 1)
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation(), self.sequence())
    }
}

/// A text is not a checkpoint id or transaction id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIdError(pub String);

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for CheckpointId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let fail = || ParseIdError(format!("'{text}' is not a checkpoint id such as 3-17"));
        let (generation, sequence) = text.split_once('-').ok_or_else(fail)?;
        Ok(CheckpointId::new(Generation(generation.parse().map_err(|_| fail())?), sequence.parse().map_err(|_| fail())?))
    }
}

/// Index of a subtask in the execution graph, dense over all stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubtaskIndex(pub u32);

/// Index of an input channel of one subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u16);

/// A history of a job without a fork: drawn at the first start and at `--fresh`. Shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lineage(pub u128);

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Lineage {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.len() == 32)
            .map(Lineage)
            .ok_or_else(|| ParseIdError(format!("'{text}' is not a lineage of 32 hexadecimal digits")))
    }
}

/// Identity of one transaction of one sink writer. It stands in the name of everything that exists outside, so that what
/// is found there can be told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The history that it belongs to.
    pub lineage: Lineage,
    /// The attempt that opened it.
    pub generation: Generation,
    /// Name of the sink in the job file, `[a-z][a-z0-9-]*`.
    pub sink: String,
    /// Subtask of the writer.
    pub writer: u32,
    /// Number of the transaction in this writer and generation, from 1.
    pub number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}.{}", self.lineage, self.generation, self.sink, self.writer, self.number)
    }
}

impl FromStr for TransactionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let fail = || ParseIdError(format!("'{text}' is not a transaction id"));
        let parts: Vec<&str> = text.split('.').collect();
        let [lineage, generation, sink, writer, number] = parts[..] else { return Err(fail()) };
        Ok(TransactionId {
            lineage: lineage.parse()?,
            generation: Generation(generation.parse().map_err(|_| fail())?),
            sink: sink.to_owned(),
            writer: writer.parse().map_err(|_| fail())?,
            number: number.parse().map_err(|_| fail())?,
        })
    }
}
