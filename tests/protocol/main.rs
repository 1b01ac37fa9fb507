//! Exhaustive models over the shipped machines of `weir-protocol`, in parts that each finish.

mod align_model;
mod freeze_model;
mod job_model;
mod swap_model;
