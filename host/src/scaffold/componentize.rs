//! From a core module to a component.

use crate::graph::Problem;
use std::fs;
use std::path::Path;

/// Makes a component of a module. It appears whole: written beside its place, then renamed. A component is taken as it is.
///
/// # Errors
/// If the module is no plugin, or a file can't be read or written.
pub fn componentize_file(module: &Path, component: &Path) -> Result<(), Problem> {
    let at = |path: &Path, what: String| Problem::new(path.display().to_string(), what, "");
    let bytes = fs::read(module).map_err(|error| at(module, error.to_string()))?;
    let made = match weir_componentize::componentize(&bytes) {
        Err(weir_componentize::Error::AlreadyComponent) => bytes,
        made => made.map_err(|error| at(module, error.to_string()))?,
    };
    let temporary = component.with_extension("wasm.tmp");
    let parent = component.parent().unwrap_or(Path::new(""));
    let made_folder = if parent == Path::new("") { Ok(()) } else { fs::create_dir_all(parent) };
    made_folder
        .and_then(|()| fs::write(&temporary, made))
        .and_then(|()| fs::rename(&temporary, component))
        .map_err(|error| at(component, format!("it can't be written: {error}")))
}
