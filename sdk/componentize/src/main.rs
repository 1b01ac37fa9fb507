//! `weir-componentize MODULE.wasm COMPONENT.wasm` makes a component; `weir-componentize --show COMPONENT.wasm` says what one
//! imports and exports.

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: weir-componentize MODULE.wasm COMPONENT.wasm\n       weir-componentize --show COMPONENT.wasm";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--show", component] => show(Path::new(component)),
        [module, component] => make(Path::new(module), Path::new(component)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Makes a component. It appears whole: written beside its place, then renamed.
fn make(module: &Path, component: &Path) -> Result<(), String> {
    let bytes = weir_componentize::componentize(&read(module)?).map_err(|e| format!("{}: {e}", module.display()))?;
    let temporary = component.with_extension("wasm.tmp");
    std::fs::write(&temporary, bytes).map_err(|e| format!("{}: {e}", temporary.display()))?;
    std::fs::rename(&temporary, component).map_err(|e| format!("{}: {e}", component.display()))
}

/// Prints size, imports and exports.
fn show(component: &Path) -> Result<(), String> {
    let bytes = read(component)?;
    let found = weir_componentize::interfaces(&bytes).map_err(|e| format!("{}: {e}", component.display()))?;
    println!("{} {} bytes", component.display(), bytes.len());
    println!("  imports {}", found.imports.join(" "));
    println!("  exports {}", found.exports.join(" "));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}
