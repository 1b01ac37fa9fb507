//! `weir new` and `weir build`: a plugin's project, from nothing to a component.

mod build;
mod componentize;
mod create;
mod embedded;
mod languages;
mod toolchain;

pub use build::{Built, build};
pub use componentize::componentize_file;
pub use create::{Created, New, create};
