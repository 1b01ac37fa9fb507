//! Subtasks: one OS thread each, running a chain of nodes.
