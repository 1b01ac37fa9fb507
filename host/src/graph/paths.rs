//! Paths of a job file: relative ones start from its folder; two sinks must not write into one.

use std::path::{Component, Path, PathBuf};

/// An absolute path. `folder` must be canonical: then a leading `..` can be taken off by name.
pub fn absolute(folder: &Path, path: &str) -> PathBuf {
    let mut out = folder.to_path_buf();
    let mut leading = true;
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir if leading => {
                out.pop();
            }
            Component::CurDir => {}
            // Further down a `..` may follow a symbolic link, which only the file system can resolve.
            Component::ParentDir => out.push(".."),
            // Pushing a root replaces everything before it.
            Component::RootDir | Component::Prefix(_) => {
                leading = false;
                out.push(component);
            }
            Component::Normal(name) => {
                leading = false;
                out.push(name);
            }
        }
    }
    out
}

/// An absolute glob: the folder's own name never acts as a pattern.
pub fn absolute_glob(folder: &Path, pattern: &str) -> String {
    if Path::new(pattern).is_absolute() {
        return pattern.to_owned();
    }
    let mut base = folder.to_path_buf();
    let mut rest = pattern;
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after.trim_start_matches('/');
        } else if let Some(after) = rest.strip_prefix("../") {
            base.pop();
            rest = after.trim_start_matches('/');
        } else {
            break;
        }
    }
    let base = glob::Pattern::escape(&base.to_string_lossy());
    format!("{}/{rest}", base.trim_end_matches('/'))
}

/// The path that the file system would find, also where its last parts do not exist yet.
pub fn canonical(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        let Ok(found) = ancestor.canonicalize() else { continue };
        let rest = path.strip_prefix(ancestor).expect("an ancestor is a prefix");
        let mut out = found;
        for component in rest.components() {
            match component {
                // What does not exist is no symbolic link.
                Component::ParentDir => {
                    out.pop();
                }
                Component::Normal(name) => out.push(name),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        return out;
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_from_the_folder() {
        let folder = Path::new("/jobs/flights");
        for (path, want) in [
            ("out", "/jobs/flights/out"),
            ("./out/", "/jobs/flights/out"),
            ("../shared/x.wasm", "/jobs/shared/x.wasm"),
            ("../../../x", "/x"),
            ("/tmp/out", "/tmp/out"),
            ("a/../b", "/jobs/flights/a/../b"),
            ("", "/jobs/flights"),
        ] {
            assert_eq!(absolute(folder, path), Path::new(want), "{path}");
        }
    }

    #[test]
    fn a_folder_with_glob_characters_is_taken_literally() {
        for (folder, pattern, want) in [
            ("/jobs", "data/*.csv", "/jobs/data/*.csv"),
            ("/jobs [1]", "*.csv", "/jobs [[]1[]]/*.csv"),
            ("/jobs/a", "../b/*.csv", "/jobs/b/*.csv"),
            ("/jobs/a", "./x.csv", "/jobs/a/x.csv"),
            ("/", "x.csv", "/x.csv"),
            ("/jobs", "/data/*.csv", "/data/*.csv"),
        ] {
            assert_eq!(absolute_glob(Path::new(folder), pattern), want);
        }
    }

    #[test]
    fn links_and_dots_lead_to_one_path() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let root = dir.path().canonicalize().expect("it exists");
        std::fs::create_dir(root.join("real")).expect("it is new");
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).expect("the name is free");
        let want = root.join("real/out");
        for path in ["real/out", "link/out", "real/./out", "real/new/../out"] {
            assert_eq!(canonical(&root.join(path)), want, "{path}");
        }
    }
}
