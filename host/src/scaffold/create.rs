//! A new project: a template with its placeholders filled in, and a copy of the SDK beside it, so that it builds without a
//! checkout of Weir.

use super::embedded::{File, LANGUAGES, Language, Template, WIT, WORKSPACE};
use crate::graph::{Problem, suggestion};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folder of the SDK's copy in a project.
pub(super) const SDK: &str = "weir-sdk";

/// Names that a language or a tool takes for something else.
const TAKEN: [&str; 7] = [SDK, "weir", "test", "core", "std", "build", "main"];

/// Where the contract lies, seen from an SDK in the repository, and from its copy.
const WIT_IN_REPOSITORY: &str = "../../wit";
const WIT_IN_COPY: &str = "wit";

/// What is wanted.
#[derive(Clone, Debug)]
pub struct New {
    /// The project's folder, which must be new or empty. Its last part is the plugin's name.
    pub folder: PathBuf,
    /// The language, as its SDK's folder is called.
    pub language: String,
    /// The kind of plugin, as its template is called.
    pub kind: String,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Created {
    /// The plugin's name.
    pub name: String,
    /// The project's files, without the SDK's.
    pub files: Vec<String>,
}

/// Makes a project.
///
/// # Errors
/// If there is no such template, the name is none, or the folder holds something.
pub fn create(new: &New) -> Result<Created, Problem> {
    let (language, template) = find(&new.language, &new.kind)?;
    let name = name_of(&new.folder)?;
    prepare_folder(&new.folder)?;
    let mut files = Vec::new();
    for file in template.files {
        let path = fill(file.path, &name);
        let bytes = match std::str::from_utf8(file.bytes) {
            Ok(text) => fill(text, &name).into_bytes(),
            Err(_) => file.bytes.to_vec(),
        };
        write(&new.folder.join(&path), &bytes)?;
        files.push(path);
    }
    let sdk = new.folder.join(SDK);
    for File { path, bytes } in language.sdk {
        let text = std::str::from_utf8(bytes).ok().map(|text| text.replace(WIT_IN_REPOSITORY, WIT_IN_COPY));
        match (*path, text) {
            ("Cargo.toml", Some(text)) => write(&sdk.join(path), standalone(&text).as_bytes())?,
            (_, Some(text)) => write(&sdk.join(path), text.as_bytes())?,
            (_, None) => write(&sdk.join(path), bytes)?,
        }
    }
    WIT.iter().try_for_each(|file| write(&sdk.join(WIT_IN_COPY).join(file.path), file.bytes))?;
    Ok(Created { name, files })
}

fn find(language: &str, kind: &str) -> Result<(&'static Language, &'static Template), Problem> {
    let there_are = || {
        let of = |language: &Language| {
            let kinds: Vec<&str> = language.templates.iter().map(|template| template.kind).collect();
            format!("{} ({})", language.name, kinds.join(", "))
        };
        LANGUAGES.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let found = LANGUAGES.iter().find(|one| one.name == language);
    let template = found.and_then(|one| Some((one, one.templates.iter().find(|template| template.kind == kind)?)));
    template.ok_or_else(|| {
        let names: Vec<&str> = LANGUAGES.iter().map(|one| one.name).collect();
        let near = if found.is_none() { suggestion(language, &names) } else { String::new() };
        let next = if near.is_empty() { "choose one of them".to_owned() } else { near };
        Problem::new(
            format!("--lang {language} --kind {kind}"),
            format!("no template for a plugin of kind {kind} in {language}; there are {}", there_are()),
            next,
        )
    })
}

fn name_of(folder: &Path) -> Result<String, Problem> {
    let absolute = std::path::absolute(folder).map_err(|error| Problem::new(show(folder), error.to_string(), "give a path"))?;
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let tail = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = name.len() <= 60
        && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && name.bytes().all(tail)
        && !name.ends_with('-')
        && !name.contains("--");
    let next = "the folder's name becomes the plugin's: lower-case words, joined by single hyphens, as in weir new word-count";
    if !is_name {
        return Err(Problem::new(show(folder), format!("'{name}' is no name for a plugin"), next));
    }
    if TAKEN.contains(&name.as_str()) {
        return Err(Problem::new(show(folder), format!("'{name}' is taken by the language or by Weir"), next));
    }
    Ok(name)
}

fn prepare_folder(folder: &Path) -> Result<(), Problem> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))
        }
        Err(error) => Err(Problem::new(show(folder), error.to_string(), "give the path of a new folder")),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(Problem::new(show(folder), "the folder is there already, and not empty", "give the path of a new one"))
            }
        },
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let parent = path.parent().expect("below the project's folder");
    fs::create_dir_all(parent).and_then(|()| fs::write(path, bytes)).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Problem {
    Problem::new(show(path), format!("it can't be written: {error}"), "")
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// Fills `{{name}}` (word-count), `{{name_snake}}` (word_count) and `{{Name}}` (WordCount) in.
fn fill(text: &str, name: &str) -> String {
    text.replace("{{name}}", name).replace("{{name_snake}}", &snake(name)).replace("{{Name}}", &camel(name))
}

/// As in names of files and modules.
pub(super) fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// As in names of types.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(word).collect()
}

/// A crate's manifest without its workspace: what it takes from there stands in it, as `cargo package` would write it.
fn standalone(manifest: &str) -> String {
    let parse = |text: &str| text.parse::<toml::Table>().expect("the repository's manifests are TOML");
    let (mut manifest, workspace) = (parse(manifest), parse(WORKSPACE));
    let workspace = workspace["workspace"].as_table().expect("it is a workspace");
    let inherited = |part: &str, key: &str| workspace[part].get(key).expect("the workspace says what a crate inherits").clone();
    for (part, from) in [("package", "package"), ("dependencies", "dependencies"), ("dev-dependencies", "dependencies")] {
        let Some(table) = manifest.get_mut(part).and_then(toml::Value::as_table_mut) else { continue };
        for (key, value) in table.iter_mut() {
            if value.get("workspace").is_some() {
                *value = inherited(from, key);
            }
        }
    }
    manifest.remove("lints");
    toml::to_string(&manifest).expect("a table is TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let text = "{{name}} {{name_snake}} {{Name}}";
        assert_eq!(fill(text, "word-count-2"), "word-count-2 word_count_2 WordCount2");
    }

    #[test]
    fn a_folders_name_is_the_plugins() {
        assert_eq!(name_of(Path::new("/tmp/word-count/")).expect("a name"), "word-count");
        for folder in ["Word", "a_b", "1st", "a--b", "a-", "weir-sdk", "test", "/", "ü"] {
            assert!(name_of(Path::new(folder)).is_err(), "{folder}");
        }
    }

    #[test]
    fn a_language_or_kind_that_is_not_there_is_told_with_those_that_are() {
        for (language, kind) in [("rust", "window"), ("cobol", "sink"), ("rusty", "sink")] {
            let problem = find(language, kind).err().expect("there is none");
            assert!(problem.what.contains("rust (keyed, operator, sink)"), "{problem}");
        }
        assert!(find("rusty", "sink").err().expect("none").next.contains("rust"));
    }

    #[test]
    fn every_template_leaves_no_placeholder_and_every_sdk_no_path_out_of_its_copy() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        for language in LANGUAGES {
            for template in language.templates {
                let folder = scratch.path().join(format!("{}-{}", language.name, template.kind));
                let new = New { folder: folder.clone(), language: language.name.to_owned(), kind: template.kind.to_owned() };
                let created = create(&new).expect("a project");
                assert!(created.files.iter().any(|file| file == "README.md"), "{:?}", created.files);
                let mut files = Vec::new();
                walk(&folder, &mut files);
                for path in files {
                    assert!(!path.display().to_string().contains("{{"), "{}", path.display());
                    let Ok(text) = fs::read_to_string(&path) else { continue };
                    // The SDK's own files may speak of placeholders.
                    let own =
                        ["{{name}}", "{{name_snake}}", "{{Name}}"].into_iter().filter(|_| !path.starts_with(folder.join(SDK)));
                    for left in own.chain([WIT_IN_REPOSITORY, "workspace = true"]) {
                        assert!(!text.contains(left), "{left} in {}", path.display());
                    }
                }
                assert!(create(&new).expect_err("it is there").what.contains("not empty"));
            }
        }
    }

    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").path()) {
            if path.is_dir() { walk(&path, files) } else { files.push(path) }
        }
    }
}
