//! `weir test`: whether a plugin keeps the contract, tried without a job.
//!
//! An operator is run again and again over the same records: what must make no difference (the size of batches, a fresh instance
//! with the restored state, another clock) is changed, and output and state are compared. A sink goes through the suite that
//! built-in sinks go through ([`conformance`](crate::connectors::conformance)), and dies at every call that it makes to its host.

mod generate;
mod input;
mod limits;
mod operator;
mod report;
mod sink;
mod sink_crashes;
mod sink_rig;
mod trace;

pub use report::{Check, Report, Verdict};

use crate::graph::Problem;
use sink_rig::Folders;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_plugin::{
    EngineConfig, Grants, Limits, LoadOptions, Plugin, PluginEngine, PluginKind, Surroundings, TaskInfo, TaskSetup,
};

/// What is tested, and how.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The component.
    pub plugin: PathBuf,
    /// Its config, one JSON document.
    pub config: serde_json::Value,
    /// Records of the author's own; none: generated ones.
    pub input: Option<PathBuf>,
    /// Draws generated records.
    pub seed: u64,
    /// Bytes of memory of one instance; none: as a job file without `limits`.
    pub memory: Option<u64>,
    /// Names of the folders that it is granted.
    pub folders: Vec<String>,
    /// Folder for compiled code; none: it is compiled each time.
    pub cache: Option<PathBuf>,
}

/// The plugin, loaded, as instances of it are made.
struct Subject {
    plugin: Arc<Plugin>,
    /// Without folders.
    setup: TaskSetup,
    /// Names of folders that it may be granted.
    folders: Vec<String>,
}

impl Subject {
    fn load(wish: &Wish, surroundings: Surroundings) -> Result<Self, Problem> {
        let place = wish.plugin.display().to_string();
        let config = EngineConfig { cache: wish.cache.clone(), surroundings, ..EngineConfig::default() };
        let engine = PluginEngine::new(&config).map_err(|error| Problem::new("plugin engine", error.to_string(), ""))?;
        let limits = match wish.memory {
            Some(bytes) => Limits { memory: usize::try_from(bytes).unwrap_or(usize::MAX), ..Limits::default() },
            None => Limits::default(),
        };
        let options = LoadOptions { limits, ..LoadOptions::default() };
        let plugin = engine.load_file(&wish.plugin, &options).map_err(|error| Problem::new(place, error.to_string(), ""))?;
        let task = TaskInfo { job: "test".to_owned(), operator: "test".to_owned(), subtask: 0, parallelism: 1, attempt: 1 };
        let setup = TaskSetup { task, config: wish.config.to_string(), limits, grants: Grants::default() };
        Ok(Subject { plugin, setup, folders: wish.folders.clone() })
    }

    /// A setup with empty folders of its own, if the plugin asks for any; kept as long as they.
    fn alone(&self) -> Result<(TaskSetup, Option<Folders>), String> {
        if !self.plugin.acts_outside() {
            return Ok((self.setup.clone(), None));
        }
        let folders = Folders::new(&self.folders).map_err(|problem| problem.to_string())?;
        let grants = Grants { folders: folders.grants(), ..Grants::default() };
        Ok((TaskSetup { grants, ..self.setup.clone() }, Some(folders)))
    }
}

/// Tests a plugin. `say`: takes a line for each group of checks as it begins.
///
/// # Errors
/// If the plugin can't be loaded, or the wish can't be met.
pub fn test(wish: &Wish, say: &mut dyn FnMut(&str)) -> Result<Report, Problem> {
    let subject = Subject::load(wish, Surroundings::default())?;
    let mut report = Report::of(&subject.plugin, wish.seed);
    match subject.plugin.kind() {
        PluginKind::Operator { .. } => operator::check(wish, &subject, &mut report, say)?,
        PluginKind::Sink => sink::check(wish, &subject, &mut report, say)?,
    }
    Ok(report)
}

/// What `weir build` and `weir test` tell of a component, once it is loaded as `weir check` loads it.
///
/// # Errors
/// If it is no plugin for this host.
pub fn look_at(plugin: &Path, memory: Option<u64>, cache: Option<PathBuf>) -> Result<Report, Problem> {
    let wish = Wish {
        plugin: plugin.to_owned(),
        config: serde_json::json!({}),
        input: None,
        seed: 0,
        memory,
        folders: Vec::new(),
        cache,
    };
    Ok(Report::of(&Subject::load(&wish, Surroundings::default())?.plugin, 0))
}
