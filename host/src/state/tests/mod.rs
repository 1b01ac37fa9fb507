//! Both backends against one suite, a seeded oracle, and what only the RocksDB backend promises about its files.

mod conformance;
mod random;
mod rig;
mod rocks_files;
