//! Rust: cargo, for `wasm32-unknown-unknown`. The same two toolchains do that build Weir's own guests (scripts/guest-toolchain.sh):
//! rustup's with the target's standard library, else Debian's, with which cargo builds the standard library itself.

use crate::graph::Problem;
use crate::scaffold::build::Project;
use crate::scaffold::componentize::componentize_file;
use crate::scaffold::toolchain::{Step, Tools};
use serde_json::Value;
use std::path::{Path, PathBuf};

const TARGET: &str = "wasm32-unknown-unknown";

const INSTALL: &str = "rustup target add wasm32-unknown-unknown; without rustup: https://rustup.rs, or on Debian apt-get install \
                       rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22";

/// Linkers for Wasm, by any of their names.
const LINKERS: [&str; 3] = ["rust-lld", "wasm-ld-22", "wasm-ld"];

pub(in crate::scaffold) fn build(project: &mut Project<'_>) -> Result<PathBuf, Problem> {
    let step = cargo(&project.tools, &project.folder, project.is_release)?;
    (project.say)(step.words());
    let module = module_of(&step.output()?, &project.folder);
    let module = module.ok_or_else(|| {
        project.problem("cargo built no Wasm module of this package", "its Cargo.toml needs [lib] crate-type = [\"cdylib\"]")
    })?;
    let name = module.file_stem().expect("a module has a name").to_string_lossy().into_owned();
    let component = project.component(&name);
    componentize_file(&module, &component)?;
    Ok(component)
}

/// The command, with whichever toolchain is there.
fn cargo(tools: &Tools, folder: &Path, is_release: bool) -> Result<Step, Problem> {
    let mut arguments = vec!["build", "--target", TARGET, "--message-format=json-render-diagnostics"];
    if is_release {
        arguments.insert(1, "--release");
    }
    let no_toolchain = || Problem::new("rust", format!("no toolchain here compiles for {TARGET}"), INSTALL);
    let cargo = tools.find("cargo");
    if let (Some(cargo), Some(rustc)) = (&cargo, tools.find("rustc"))
        && let Some(sysroot) = sysroot(&rustc, folder)
        && sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
    {
        return Ok(Step::new(cargo, &arguments, folder));
    }
    // Everything by its absolute path, so that neither rustup nor a rust-toolchain.toml has a say.
    let (debian, debian_cargo) = (Path::new("/usr/bin/rustc"), Path::new("/usr/bin/cargo"));
    let has_source = |sysroot: PathBuf| sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file();
    if !debian_cargo.is_file() || !sysroot(debian, folder).is_some_and(has_source) {
        return Err(no_toolchain());
    }
    let rustup_linker = || {
        let path = sysroot(&tools.find("rustc")?, folder)?.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
        path.is_file().then_some(path)
    };
    let linker = LINKERS.iter().find_map(|name| tools.find(name)).or_else(rustup_linker).ok_or_else(no_toolchain)?;
    arguments.insert(1, "-Zbuild-std=std,panic_abort");
    Ok(Step::new(debian_cargo, &arguments, folder)
        .without_env("RUSTUP_TOOLCHAIN")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", debian)
        .env("RUSTDOC", "/usr/bin/rustdoc")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker))
}

fn sysroot(rustc: &Path, folder: &Path) -> Option<PathBuf> {
    Step::new(rustc, &["--print", "sysroot"], folder).ask().map(PathBuf::from)
}

/// The Wasm module that cargo's messages say it made of this folder's package.
fn module_of(messages: &str, folder: &Path) -> Option<PathBuf> {
    let manifest = folder.join("Cargo.toml").display().to_string();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts =
        messages.filter(|message| message["reason"] == "compiler-artifact" && message["manifest_path"] == manifest.as_str());
    let files = artifacts.flat_map(|artifact| artifact["filenames"].as_array().cloned().unwrap_or_default());
    files.filter_map(|file| file.as_str().map(PathBuf::from)).rfind(|file| file.extension().is_some_and(|end| end == "wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_own_module_is_taken() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/p/weir-sdk/Cargo.toml","filenames":["/t/libweir_sdk.rlib"]}
{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","filenames":["/t/a.wasm"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(module_of(messages, Path::new("/p")), Some(PathBuf::from("/t/a.wasm")));
        assert_eq!(module_of(messages, Path::new("/q")), None);
    }
}
