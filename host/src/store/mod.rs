//! Checkpoint storage: immutable state files, the job's log, plugins.

pub mod manifest;
