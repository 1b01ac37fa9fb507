//! What flows through a channel.

use weir_plugin::batch::RecordBatch;
use weir_protocol::CheckpointId;
use weir_protocol::watermark::EventTime;

/// One element of a channel, in order.
#[derive(Clone, Debug)]
pub enum StreamElement {
    /// Records.
    Batch(Batch),
    /// Everything before it belongs to the checkpoint, nothing after it does.
    Barrier(CheckpointId),
    /// The barrier of this checkpoint will not come: it was aborted upstream.
    Cancel(CheckpointId),
    /// What the sender says of its event time from here on; never the final watermark, which `EndOfData` stands for.
    Watermark(EventTime),
    /// Bounded input has ended for good. The channel stays open and goes on carrying barriers.
    EndOfData,
    /// Nothing follows.
    EndOfInput,
}

/// Records and where they came from.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The records.
    pub records: RecordBatch,
    /// The source positions that they came from.
    pub provenance: Provenance,
}

/// A closed range of positions in one split of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceSpan {
    /// Index of the source in the job graph.
    pub source: u16,
    /// Index of the split in the source's enumeration.
    pub split: u32,
    /// Position of the first record.
    pub first: u64,
    /// Position of the last record.
    pub last: u64,
}

/// How positions follow each other inside a batch, which only holds for the batch as the source made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PositionStep {
    /// Unknown: the batch went through an operator or an exchange.
    #[default]
    Unknown,
    /// The next record's position is one more.
    One,
    /// The next record's position is the value's length plus these separator bytes more (lines of a file).
    Bytes {
        /// Length of the line end: 1 for `\n`, 2 for `\r\n`.
        separator: u8,
    },
}

/// Where a batch came from: one span per split, kept per batch and never per record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Sorted by (source, split), one for each.
    pub spans: Vec<SourceSpan>,
    /// Whether single positions can be told.
    pub step: PositionStep,
}

impl Provenance {
    /// Of a batch as a source made it.
    pub fn of_source(span: SourceSpan, step: PositionStep) -> Self {
        Provenance { spans: vec![span], step }
    }

    /// What an operator's output inherits: the spans, without the single positions.
    pub fn derived(&self) -> Self {
        Provenance { spans: self.spans.clone(), step: PositionStep::Unknown }
    }

    /// Widens to a union; spans of the same split become the smallest range that holds both.
    pub fn merge(&mut self, other: &Provenance) {
        self.step = PositionStep::Unknown;
        for span in &other.spans {
            match self.spans.binary_search_by_key(&(span.source, span.split), |s| (s.source, s.split)) {
                Ok(at) => {
                    let own = &mut self.spans[at];
                    own.first = own.first.min(span.first);
                    own.last = own.last.max(span.last);
                }
                Err(at) => self.spans.insert(at, *span),
            }
        }
    }

    /// The positions of record `i` of `records`: exact if the batch is as the source made it, else the batch's range.
    pub fn of_record(&self, records: &RecordBatch, i: usize) -> Vec<SourceSpan> {
        let (PositionStep::One | PositionStep::Bytes { .. }, [span]) = (self.step, &self.spans[..]) else {
            return self.spans.clone();
        };
        let position = match self.step {
            PositionStep::One => span.first + i as u64,
            PositionStep::Bytes { separator } => {
                span.first + (0..i).map(|k| records.value(k).len() as u64 + u64::from(separator)).sum::<u64>()
            }
            PositionStep::Unknown => unreachable!("matched above"),
        };
        vec![SourceSpan { first: position, last: position, ..*span }]
    }
}
