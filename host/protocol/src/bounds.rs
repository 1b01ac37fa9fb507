//! Every bound of the machines, each with what happens when it is hit.

/// Aborted checkpoints that an aligner remembers because their barriers are still on the way. Hit: the oldest is forgotten,
/// so that its barrier is aligned in vain and its acknowledgement comes late.
pub const REMEMBERED_ABORTS: usize = 64;

/// Ended checkpoints that the coordinator remembers, to tell a late acknowledgement from a duplicate. Hit: the oldest is
/// forgotten; an acknowledgement of it is `Unknown`, and what it uploaded is released.
pub const REMEMBERED_CHECKPOINTS: usize = 64;

/// Checkpoints under way at a time, whatever the job file asks for. Hit: no new one is triggered.
pub const CONCURRENT_CHECKPOINTS: usize = 16;

/// Files that one subtask may name in one acknowledgement. Hit: the checkpoint is aborted (`OverBound`).
pub const FILES_PER_ACK: usize = 1 << 16;

/// Committables that one subtask may name in one acknowledgement, riding ones included. Hit: the checkpoint is aborted
/// (`OverBound`), and the job fails over once that has happened too often in a row.
pub const COMMITTABLES_PER_ACK: usize = 1 << 12;
