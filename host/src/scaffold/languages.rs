//! How each language builds a plugin: its own tool, as its users know it.

pub(super) mod c;
pub(super) mod go;
pub(super) mod javascript;
pub(super) mod python;
pub(super) mod rust;

/// A language that projects are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Go,
    JavaScript,
    Python,
    C,
}

impl Language {
    /// As its SDK's folder is called.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Go => "go",
            Language::JavaScript => "js",
            Language::Python => "python",
            Language::C => "c",
        }
    }
}
