//! The suite of every transactional sink, on the stock file sink as a plugin, in each language that has it: the contract, the adapter
//! and the component together keep what the built-in sink keeps.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use weir_host::connectors::conformance::{self, Rig};
use weir_host::connectors::plugin_sink::PluginSource;
use weir_host::connectors::{CommitterContext, ConnectorError, SinkConnector, factory};
use weir_host::coordinator::prepare::default_cache;
use weir_host::graph::{SinkSpec, job_file};
use weir_plugin::{EngineConfig, LoadOptions, Plugin, PluginEngine};
use weir_protocol::{Generation, Lineage};
use weir_tests::guest;
use weir_tests::scratch::Scratch;

/// Only the build that lies in `guests/out`.
struct OneBuild(Arc<Plugin>);

impl PluginSource for OneBuild {
    fn sink_plugin(&self, _: &SinkSpec, sha256: Option<&str>) -> Result<Arc<Plugin>, ConnectorError> {
        match sha256 {
            Some(digest) if digest != self.0.sha256() => Err(ConnectorError::permanent(format!("no build {digest} here"))),
            Some(_) | None => Ok(Arc::clone(&self.0)),
        }
    }
}

/// `name`: of the guest. A component that carries an interpreter takes long to compile, so there is a cache.
fn builds(name: &str) -> Arc<dyn PluginSource> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let config = || EngineConfig { cache: default_cache(), ..EngineConfig::default() };
    let engine = ENGINE.get_or_init(|| PluginEngine::new(&config()).expect("an engine"));
    Arc::new(OneBuild(engine.load_file(&guest(name), &LoadOptions::default()).expect("the sink loads")))
}

/// The stock sink, in the language of this guest, with its files in `folder`.
fn connector(builds: &Arc<dyn PluginSource>, name: &str, folder: &Path) -> Box<dyn SinkConnector> {
    let section = serde_json::json!({
        "name": "out",
        "connector": "plugin",
        "plugin": guest(name),
        "grants": { "folders": { "out": folder } },
    });
    let spec = job_file::sink_from_section(&section, &|_| None).expect("a valid section");
    factory::sink_connector(&spec, builds).expect("a connector")
}

fn parts(folder: &Path) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-"));
    let list = fs::read_dir(folder).expect("the folder was created");
    list.map(|entry| entry.expect("listed").path()).filter(is_part).collect()
}

/// Every file below a folder but the parts. Folders may stay: the contract gives a plugin no way to remove them.
fn leftovers(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            found.extend(leftovers(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    let parts: Vec<String> = parts(folder).iter().map(|path| path.display().to_string()).collect();
    found.retain(|path| !parts.contains(path));
    found
}

#[test]
fn the_stock_sink_plugin_keeps_every_promise_of_a_sink() {
    keeps_every_promise("file_sink");
}

#[test]
fn the_same_sink_in_go_keeps_every_promise_of_a_sink() {
    keeps_every_promise("file_sink_go");
}

#[test]
fn the_same_sink_in_c_keeps_every_promise_of_a_sink() {
    keeps_every_promise("file_sink_c");
}

#[test]
fn the_same_sink_in_python_keeps_every_promise_of_a_sink() {
    keeps_every_promise("file_sink_python");
}

fn keeps_every_promise(name: &str) {
    let builds = builds(name);
    let mut make = || {
        let scratch = Scratch::new();
        let folder = scratch.path("out");
        let (seen, taken, left) = (folder.clone(), folder.clone(), folder.clone());
        Rig {
            connector: connector(&builds, name, &folder),
            sink: "out".to_owned(),
            visible: Box::new(move || {
                let read = |path: &PathBuf| fs::read_to_string(path).expect("a part is readable");
                parts(&seen).iter().flat_map(|path| read(path).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
            }),
            take_away: Some(Box::new(move || parts(&taken).iter().for_each(|path| fs::remove_file(path).expect("removed")))),
            leftovers: Box::new(move || leftovers(&left)),
            tells_output: false,
            guard: Box::new(scratch),
        }
    };
    let failures = conformance::failures(&mut make);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn another_build_commits_only_what_it_made() {
    let scratch = Scratch::new();
    let connector = connector(&builds("file_sink"), "file_sink", &scratch.path("out"));
    connector.prepare_target().expect("granted folders are created");
    let context = |plugin: Option<&str>| CommitterContext {
        job: "job".to_owned(),
        lineages: vec![Lineage(1)],
        generation: Generation(1),
        plugin: plugin.map(str::to_owned),
    };
    let own = connector.plugin_digest().expect("a plugin sink has one").to_owned();
    assert!(connector.committer(&context(Some(&own))).expect("its own build").is_some());
    let error = connector.committer(&context(Some(&"0".repeat(64)))).err().expect("that build is not here");
    assert!(error.message.contains("no build 000"), "{error}");
}
