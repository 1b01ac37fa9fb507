//! Every bound of this crate, in one place.

use std::time::Duration;

/// Bytes of one answer at most. The largest is a listing of all transactions of a cluster whose brokers can't filter by id:
/// about 100 bytes each.
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Bytes of one answer before the broker has proven who it is, or we have.
pub(crate) const MAX_GREETING_BYTES: usize = 1 << 20;

/// Kafka refuses to store fewer; a server that asks for fewer is out for a hash that is cheap to break.
pub(crate) const MIN_SCRAM_ITERATIONS: u32 = 4_096;

/// Kafka itself refuses more than 16,384. This many take about a second of one core.
pub(crate) const MAX_SCRAM_ITERATIONS: u32 = 1_000_000;

/// Coordinators that are remembered; beyond, all are asked for again.
pub(crate) const MAX_KNOWN_COORDINATORS: usize = 10_000;

/// Connections kept open: one for each broker of a cluster, and some for addresses that it had before.
pub(crate) const MAX_CONNECTIONS: usize = 1_000;

/// A connection that was not used for so long is not used again. Brokers close theirs after 10 minutes, what lies between
/// sooner, and a request on a closed connection is one that nobody can tell the fate of.
pub(crate) const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// Transactional ids asked for in one request.
pub(crate) const IDS_PER_REQUEST: usize = 500;

/// Bytes of a transactional id: what the older encodings can carry.
pub(crate) const MAX_ID_BYTES: usize = 32_767;

/// Wait after the first setback.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Longest wait between two attempts.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The transaction timeout that fencing sets. The fenced id opens no transaction by it, so it need not be long; no broker's
/// `transaction.max.timeout.ms` is lower.
pub(crate) const FENCING_TIMEOUT_MS: i32 = 1_000;
