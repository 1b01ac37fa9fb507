//! What a checkpoint keeps of a prepared transaction, and how transactional ids are named.
//!
//! An id is `<prefix>-<generation>-<writer>-<slot>`. The generation is in it, so that a recovery that has stalled fences nobody
//! newer; slots are used again, so that the brokers, which keep an id for a week, keep few.

use serde::{Deserialize, Serialize};
use weir_kafka::TransactionHandle;
use weir_protocol::{Generation, Lineage, TransactionId};

/// Version of the committable's bytes.
pub(super) const VERSION: u32 = 1;

/// The bytes of a committable, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreparedTransaction {
    /// Its id.
    pub(super) transactional_id: String,
    /// The producer that wrote it, which names this one transaction.
    pub(super) producer_id: i64,
    /// See there.
    pub(super) producer_epoch: i16,
    /// When its first record went out, by the coordinator's clock, ms since the Unix epoch: for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start_ms: Option<u64>,
    /// How long it lives from then on, ms: for people.
    pub(super) timeout_ms: u64,
}

impl PreparedTransaction {
    /// Reads a committable's bytes.
    pub(super) fn parse(version: u32, bytes: &[u8]) -> Result<Self, String> {
        if version != VERSION {
            return Err(format!("its committable has version {version}, and this weir knows version {VERSION} only"));
        }
        serde_json::from_slice(bytes).map_err(|error| format!("its committable can't be read: {error}"))
    }

    /// What the coordinator wants to hear.
    pub(super) fn handle(&self) -> TransactionHandle {
        TransactionHandle {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            epoch: self.producer_epoch,
        }
    }
}

/// A transactional id, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotId {
    /// The attempt that uses it.
    pub(super) generation: Generation,
    /// The writer.
    pub(super) writer: u32,
    /// Which of the writer's.
    pub(super) slot: u32,
}

impl SlotId {
    /// The id.
    pub(super) fn name(self, prefix: &str) -> String {
        let SlotId { generation, writer, slot } = self;
        format!("{prefix}-{}-{writer}-{slot}", generation.0)
    }

    /// Takes an id apart; none if it is not one of this prefix. Another prefix may begin with ours.
    pub(super) fn parse(id: &str, prefix: &str) -> Option<Self> {
        let mut parts = id.strip_prefix(prefix)?.strip_prefix('-')?.splitn(3, '-');
        let mut number = || -> Option<u32> {
            let text = parts.next()?;
            let is_plain = text == "0" || !text.starts_with('0');
            (is_plain && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
        };
        Some(SlotId { generation: Generation(number()?), writer: number()?, slot: number()? })
    }

    /// As the identity of what may be open under it: which transaction of its writer that is, nobody can say.
    pub(super) fn as_transaction(self, lineage: Lineage, sink: &str) -> TransactionId {
        TransactionId {
            lineage,
            generation: self.generation,
            sink: sink.to_owned(),
            writer: self.writer,
            number: u64::MAX - u64::from(self.slot),
        }
    }

    /// Back from [`Self::as_transaction`]; none for the identity of a transaction that was written.
    pub(super) fn of_transaction(id: &TransactionId) -> Option<Self> {
        let slot = u32::try_from(u64::MAX - id.number).ok()?;
        Some(SlotId { generation: id.generation, writer: id.writer, slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_apart_as_they_were_put_together() {
        let id = SlotId { generation: Generation(3), writer: 0, slot: 12 };
        assert_eq!(id.name("weir-a-b"), "weir-a-b-3-0-12");
        assert_eq!(SlotId::parse("weir-a-b-3-0-12", "weir-a-b"), Some(id));
        // Another sink's, another writing, another client's.
        for foreign in ["weir-a-b-c-3-0-12", "weir-a-b-3-0", "weir-a-b-03-0-1", "weir-a-b-3-0-1-2", "weir-a-b", "weir-a-b-3-+1-2"]
        {
            assert_eq!(SlotId::parse(foreign, "weir-a-b"), None, "{foreign}");
        }
        let transaction = id.as_transaction(Lineage(7), "out");
        assert_eq!(SlotId::of_transaction(&transaction), Some(id));
        assert_eq!(SlotId::of_transaction(&TransactionId { number: 17, ..transaction }), None);
    }
}
