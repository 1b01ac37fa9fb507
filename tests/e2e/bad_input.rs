//! Bad input of every kind gets a message that says what, where and what next, and nothing is lost by it.

mod broken_lines;
mod files;
mod hostile_records;
mod refused;
