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

/// Questions in a row to the storage that brought a claimant or publisher no further. Hit: it gives up, and the process fails
/// over; what became of its entry is found out by the next claim. With the driver's waits a disk that stays full is an error
/// after ten seconds.
pub const LOG_TRIES: u32 = 8;

/// Claims that one start makes because others came in between. Hit: the start fails.
pub const CLAIM_ROUNDS: u32 = 16;

/// Earlier claims that a claim remembers. Hit: the oldest is forgotten, so that a checkpoint that lands more than that many
/// claims late, in an emptied slot, is offered to `--from`.
pub const CLAIMS_REMEMBERED: usize = 4096;

/// Transactions that one writer has prepared and not seen committed. Hit: the task fails.
pub const LEDGER_TRANSACTIONS: usize = 1 << 12;

/// Builds of one operator that are remembered because they have failed on probation. Hit: one of them is forgotten.
pub const REFUSED_BUILDS: usize = 64;

/// Sets of one backend that are frozen and not ingested. Hit: the backend waits for its store writer.
pub const FROZEN_SETS: usize = 8;
