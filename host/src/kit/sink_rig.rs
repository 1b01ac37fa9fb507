//! A sink on scratch folders, and eyes that find its records there whatever it wraps them in.
//!
//! Each value is written as a mark that survives quoting and escaping. A file is *seen by readers* unless a name in its path begins
//! with a dot; what lies under such a name is staged.

use super::Subject;
use crate::connectors::conformance::Rig;
use crate::connectors::plugin_sink::{PluginSinkConnector, PluginSource};
use crate::connectors::{Committer, CommitterContext, ConnectorError, Guarantee, SinkConnector, SinkTask, SinkWriter};
use crate::graph::{Problem, SinkSpec, job_file};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;
use weir_plugin::Plugin;
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, Generation, TransactionId};

/// Name of the sink.
pub(super) const SINK: &str = "out";

const MARK: &[u8] = b"weir_";
const END: u8 = b'_';

/// A value as it is written.
pub(super) fn mark(value: &[u8]) -> Vec<u8> {
    let hex = value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes());
    MARK.iter().copied().chain(hex).chain([END]).collect()
}

/// The values that are marked in a text, in order.
fn marked(mut text: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    while let Some(at) = text.windows(MARK.len()).position(|part| part == MARK) {
        text = &text[at + MARK.len()..];
        let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if text.get(digits) == Some(&END) && digits.is_multiple_of(2) {
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16).unwrap_or_default();
            let bytes: Vec<u8> = text[..digits].chunks_exact(2).map(byte).collect();
            values.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    values
}

/// Scratch folders, granted by name; removed at the end.
pub(super) struct Folders {
    root: TempDir,
    names: Vec<String>,
}

impl Folders {
    pub fn new(names: &[String]) -> Result<Self, Problem> {
        let root =
            scratch().map_err(|error| Problem::new("a scratch folder", error.to_string(), "TMPDIR names a folder for it"))?;
        for name in names {
            std::fs::create_dir(root.path().join(name)).map_err(|error| {
                Problem::new(format!("--folder {name}"), error.to_string(), "give a name, as in --folder out")
            })?;
        }
        Ok(Folders { root, names: names.to_vec() })
    }

    /// As a job grants them.
    pub fn grants(&self) -> BTreeMap<String, PathBuf> {
        self.names.iter().map(|name| (name.clone(), self.root.path().join(name))).collect()
    }

    /// Files that readers see, and files that are staged.
    fn files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let mut files = Vec::new();
        walk(self.root.path(), &mut files);
        files.sort();
        files.into_iter().partition(|path| {
            let relative = path.strip_prefix(self.root.path()).expect("below the root");
            !relative.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
        })
    }

    /// The values that readers see.
    pub fn visible(&self) -> Vec<String> {
        // A file may be renamed away between the two looks only by the plugin, which is not running.
        self.files().0.iter().flat_map(|path| marked(&std::fs::read(path).unwrap_or_default())).collect()
    }

    /// What is staged, by its path.
    pub fn staged(&self) -> Vec<String> {
        let relative = |path: PathBuf| path.strip_prefix(self.root.path()).expect("below the root").display().to_string();
        self.files().1.into_iter().map(relative).collect()
    }

    /// Removes all files that readers see, as a consumer may.
    pub fn take_away(&self) {
        for path in self.files().0 {
            // One that is still there is seen by the check that follows.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// In memory if that is to be had and nobody says otherwise: a sink syncs its files, and here no disk loses its power.
fn scratch() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("TMPDIR").is_none().then(|| tempfile::tempdir_in(memory)) {
        Some(Ok(folder)) => Ok(folder),
        Some(Err(_)) | None => tempfile::tempdir(),
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// A rig for one case of the suite.
pub(super) fn rig(subject: &Subject, names: &[String]) -> Result<Rig, Problem> {
    let folders = Rc::new(Folders::new(names)?);
    let section = json!({
        "name": SINK,
        "connector": "plugin",
        "plugin": "plugin.wasm",
        "grants": { "folders": folders.grants() },
        "limits": { "memory": format!("{}B", subject.setup.limits.memory) },
    });
    let mut section = section;
    let config: serde_json::Value = serde_json::from_str(&subject.setup.config).expect("it was made from JSON");
    if config.as_object().is_none_or(|config| !config.is_empty()) {
        section["config"] = config;
    }
    let spec = job_file::sink_from_section(&section, &|name| std::env::var(name).ok());
    let spec = spec.map_err(|problems| problems.into_iter().next().expect("a refusal names a problem"))?;
    let build: Arc<dyn PluginSource> = Arc::new(OneBuild(Arc::clone(&subject.plugin)));
    let connector = PluginSinkConnector::new(&spec, build).map_err(|error| error.at("plugin"))?;
    let (seen, taken, left) = (Rc::clone(&folders), Rc::clone(&folders), Rc::clone(&folders));
    Ok(Rig {
        connector: Box::new(Marking(connector)),
        sink: SINK.to_owned(),
        visible: Box::new(move || seen.visible()),
        take_away: Some(Box::new(move || taken.take_away())),
        leftovers: Box::new(move || left.staged()),
        tells_output: false,
        guard: Box::new(folders),
    })
}

/// Only the build that is tested.
struct OneBuild(Arc<Plugin>);

impl PluginSource for OneBuild {
    fn sink_plugin(&self, _: &SinkSpec, sha256: Option<&str>) -> Result<Arc<Plugin>, ConnectorError> {
        match sha256 {
            Some(digest) if digest != self.0.sha256() => Err(ConnectorError::permanent(format!("no build {digest} here"))),
            Some(_) | None => Ok(Arc::clone(&self.0)),
        }
    }
}

/// A sink whose values are written as marks.
struct Marking(PluginSinkConnector);

impl SinkConnector for Marking {
    fn guarantee(&self) -> Guarantee {
        self.0.guarantee()
    }

    fn target(&self) -> Option<PathBuf> {
        self.0.target()
    }

    fn output(&self) -> Result<Option<Generation>, ConnectorError> {
        self.0.output()
    }

    fn prepare_target(&self) -> Result<(), ConnectorError> {
        self.0.prepare_target()
    }

    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        Ok(Box::new(MarkingWriter(self.0.writer(task)?)))
    }

    fn committer(&self, context: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError> {
        self.0.committer(context)
    }

    fn plugin_digest(&self) -> Option<&str> {
        self.0.plugin_digest()
    }
}

struct MarkingWriter(Box<dyn SinkWriter>);

impl SinkWriter for MarkingWriter {
    fn begin(&mut self, transaction: &TransactionId) -> Result<(), ConnectorError> {
        self.0.begin(transaction)
    }

    fn write(&mut self, records: &RecordBatch) -> Result<(), ConnectorError> {
        let mut marked = RecordBatch::new();
        (0..records.len()).for_each(|i| marked.push(records.key(i), &mark(records.value(i)), records.time(i)));
        self.0.write(&marked)
    }

    fn prepare(
        &mut self,
        checkpoint: CheckpointId,
        end_of_input: bool,
    ) -> Result<Option<crate::connectors::DurableStep>, ConnectorError> {
        self.0.prepare(checkpoint, end_of_input)
    }

    fn close(self: Box<Self>) -> Result<(), ConnectorError> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_what_a_sink_wraps_them_in() {
        let line = |value: &[u8]| format!("{{\"v\":\"{}\"}}\n", String::from_utf8(mark(value)).expect("a mark is ASCII"));
        let text = [line(b"a"), line(b""), line("ü".as_bytes()), "weir_6 weir_".to_owned()].concat();
        assert_eq!(marked(text.as_bytes()), ["a", "", "ü"]);
    }

    #[test]
    fn dot_names_are_staged_and_the_rest_is_seen() {
        let folders = Folders::new(&["out".to_owned()]).expect("scratch");
        let out = folders.grants()["out"].clone();
        std::fs::create_dir_all(out.join(".staging/x")).expect("made");
        for (path, value) in [("part-1", "a"), (".staging/x/1", "b"), (".hidden", "c")] {
            std::fs::write(out.join(path), mark(value.as_bytes())).expect("written");
        }
        assert_eq!((folders.visible(), folders.staged().len()), (vec!["a".to_owned()], 2));
        folders.take_away();
        assert_eq!((folders.visible().len(), folders.staged().len()), (0, 2));
    }
}
