//! End to end: the real binary on real jobs, killed, restarted and judged by its committed output.

mod bad_input;
mod collections;
mod compatibility;
mod damage;
mod disks;
mod drill;
mod exact;
mod grants;
mod incremental;
mod kafka;
mod kafka_field;
mod kafka_headers;
mod kills;
mod kit;
mod languages;
mod memory;
mod operator_state;
mod outside;
mod profile;
mod projects;
mod resume;
mod serve;
mod spill;
mod swap;
mod timers;
mod watermarks;
