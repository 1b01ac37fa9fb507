//! Backends of every kind and size against one suite, a seeded oracle, and what they promise about their files.

mod collections;
mod conformance;
mod random;
mod rig;
mod snapshot_files;
