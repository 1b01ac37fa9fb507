//! Embeds what `weir new` copies: the SDKs, their templates and the contract, as they lie in the repository.
//!
//! A language is a folder `sdk/<language>` with `templates/<kind>`. The folders are walked at each change in them, so that no list of
//! files can go stale.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What builds and tests leave behind.
const LEFT_BEHIND: [&str; 7] = ["target", "build", "dist", "out", "node_modules", "__pycache__", "venv"];

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let root = root.canonicalize().expect("the repository");
    for watched in ["sdk", "wit"] {
        writeln!(io::stdout(), "cargo:rerun-if-changed={}", root.join(watched).display()).expect("cargo listens");
    }
    let mut code = String::new();
    writeln!(code, "pub(super) static WIT: &[File] = &[{}];", files(&root.join("wit"), &[])).expect("a string takes all");
    code.push_str("pub(super) static LANGUAGES: &[Language] = &[\n");
    for language in folders(&root.join("sdk")) {
        let folder = root.join("sdk").join(&language);
        let kinds = folders(&folder.join("templates"));
        if kinds.is_empty() {
            continue;
        }
        writeln!(code, "Language {{ name: {language:?}, sdk: &[{}], templates: &[", files(&folder, &["templates"]))
            .expect("a string takes all");
        for kind in kinds {
            let template = files(&folder.join("templates").join(&kind), &[]);
            writeln!(code, "Template {{ kind: {kind:?}, files: &[{template}] }},").expect("a string takes all");
        }
        code.push_str("] },\n");
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("embedded.rs"), code).expect("the build folder can be written");
}

/// Names of the folders in a folder, in order; none if there is no such folder.
fn folders(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("listed"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("names in the repository are text"))
        .collect();
    names.sort();
    names
}

/// Every file below a folder, as Rust; but not what lies in its folders of these names.
fn files(folder: &Path, without: &[&str]) -> String {
    let mut found = Vec::new();
    walk(folder, folder, without, &mut found);
    found.sort();
    let file = |(path, absolute): (String, PathBuf)| format!("File {{ path: {path:?}, bytes: include_bytes!({absolute:?}) }}, ");
    found.into_iter().map(file).collect()
}

fn walk(root: &Path, folder: &Path, without: &[&str], found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        let name = path.file_name().expect("a name").to_str().expect("names in the repository are text").to_owned();
        // Of the dot names only those that a template may want.
        let is_hidden = name.starts_with('.') && ![".gitignore", ".cargo"].contains(&name.as_str());
        if is_hidden || LEFT_BEHIND.contains(&name.as_str()) || name.ends_with(".egg-info") || name.ends_with(".pyc") {
            continue;
        }
        if !path.is_dir() {
            let relative = path.strip_prefix(root).expect("below it").to_str().expect("text").to_owned();
            found.push((relative, path));
        } else if folder != root || !without.contains(&name.as_str()) {
            walk(root, &path, without, found);
        }
    }
}
