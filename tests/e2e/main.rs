//! End to end: the real binary on real jobs, killed, restarted and judged by its committed output.

mod bad_input;
mod damage;
mod disks;
mod exact;
mod incremental;
mod kafka;
mod kills;
mod memory;
mod profile;
mod resume;
mod spill;
