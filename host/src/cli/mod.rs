//! The `weir` command: the only place that prints and that knows exit codes.
