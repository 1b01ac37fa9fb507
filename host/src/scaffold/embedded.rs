//! The SDKs, their templates and the contract, as this build of Weir carries them.

/// A file with its path below the folder that it belongs to.
pub(super) struct File {
    pub path: &'static str,
    pub bytes: &'static [u8],
}

/// One kind of plugin in one language: a project with placeholders.
pub(super) struct Template {
    pub kind: &'static str,
    pub files: &'static [File],
}

/// One language: its SDK, and its templates.
pub(super) struct Language {
    pub name: &'static str,
    pub sdk: &'static [File],
    pub templates: &'static [Template],
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The workspace's manifest, from which the Rust SDK's takes versions.
pub(super) static WORKSPACE: &str = include_str!("../../../Cargo.toml");
