//! Wasm plugins as operators: the bridge between the plugin host, which knows no runtime, and the subtasks.

use super::provider::{InstanceTask, OperatorProvider};
use crate::connectors::plugin_sink::{PluginSource, grants_of, limits_of};
use crate::connectors::{ConnectorError, Remedy};
use crate::graph::{BadRecordPolicy, GrantsSpec, LimitsSpec, OperatorSpec, PluginFacts, Problem, SinkConnectorSpec, SinkSpec};
use crate::store::manifest::StateManifest;
use crate::task::operator::{OperatorFailure, StreamOperator};
use crate::task::timers::{TIMERS_KIND, TIMERS_NAME, TIMERS_SCHEMA};
use crate::task::wasm_operator::WasmOperator;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use weir_plugin::{LoadOptions, Plugin, PluginEngine, PluginKind, Retries, SupervisedOperator, TaskInfo, TaskSetup};

/// Loads plugins once for each file, and makes instances of them.
pub struct WasmProvider {
    engine: Arc<PluginEngine>,
    /// By digest.
    loaded: Mutex<BTreeMap<String, Loaded>>,
    /// Digest of each operator's or sink's plugin, by its name in the job file.
    digests: Mutex<BTreeMap<String, String>>,
}

/// What a plugin is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An `[[operator]]`.
    Operator,
    /// A `[[sink]]`.
    Sink,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::Operator => "an operator",
            Role::Sink => "a sink",
        }
    }
}

/// # Errors
/// What it is instead.
fn check_role(plugin: &Plugin, role: Role) -> Result<(), String> {
    let got = match plugin.kind() {
        PluginKind::Operator { .. } => Role::Operator,
        PluginKind::Sink => Role::Sink,
    };
    if got == role { Ok(()) } else { Err(format!("is {}, where {} is needed", got.word(), role.word())) }
}

fn facts_of(plugin: &Plugin, grants: &GrantsSpec) -> PluginFacts {
    let descriptor = plugin.operator().expect("its kind was checked");
    let states = descriptor.states.iter().map(|state| StateManifest {
        name: state.name.clone(),
        kind: state.kind.name().to_owned(),
        schema_version: state.schema_version,
    });
    let has_timers = has_timers(plugin);
    let timers_state = has_timers.then(|| StateManifest {
        name: TIMERS_NAME.to_owned(),
        kind: TIMERS_KIND.to_owned(),
        schema_version: TIMERS_SCHEMA,
    });
    PluginFacts {
        digest: plugin.sha256().to_owned(),
        version: format!("{} {}", descriptor.plugin_name, descriptor.plugin_version),
        states: states.chain(timers_state).collect(),
        side_outputs: descriptor.side_outputs.clone(),
        inputs: descriptor.inputs.unwrap_or(0),
        ends: wants_end(plugin),
        timers: has_timers,
        checkpointed: plugin.is_checkpointed(),
        wasi: plugin.wasi(&grants_of(grants)).iter().map(|(interface, gives)| format!("{interface}: {gives}")).collect(),
    }
}

fn wants_end(plugin: &Plugin) -> bool {
    matches!(plugin.kind(), PluginKind::Operator { end_of_input: true, .. })
}

fn has_timers(plugin: &Plugin) -> bool {
    matches!(plugin.kind(), PluginKind::Operator { timers: true, .. })
}

#[derive(Clone)]
struct Loaded {
    plugin: Arc<Plugin>,
    bytes: bytes::Bytes,
}

impl WasmProvider {
    /// Nothing is loaded yet.
    pub fn new(engine: Arc<PluginEngine>) -> Self {
        WasmProvider { engine, loaded: Mutex::default(), digests: Mutex::default() }
    }

    /// What compiles and runs its plugins.
    pub fn engine(&self) -> Arc<PluginEngine> {
        Arc::clone(&self.engine)
    }

    /// Loads a plugin for a node of the job, checking its pin and kind.
    pub fn load(
        &self,
        node: &str,
        path: &Path,
        sha256: Option<&str>,
        limits: &LimitsSpec,
        role: Role,
    ) -> Result<Arc<Plugin>, Problem> {
        let failed = |what: String, next: &str| Problem::new(node.to_owned(), what, next);
        let options = LoadOptions { sha256: sha256.map(str::to_owned), limits: limits_of(limits), ..LoadOptions::default() };
        let name = path.display().to_string();
        let advice = "build it, or correct `plugin` in the job file";
        let bytes = read_plugin(path).map_err(|error| failed(format!("plugin {name} can't be read: {error}"), advice))?;
        let plugin = self.engine.load_bytes(&name, &bytes, &options).map_err(|error| failed(error.to_string(), ""))?;
        check_role(&plugin, role).map_err(|what| {
            failed(
                format!("plugin {name} {what}"),
                "name a plugin of the other kind, or move this one to the other kind of section",
            )
        })?;
        self.remember(node, &plugin, bytes.into());
        Ok(plugin)
    }

    fn remember(&self, node: &str, plugin: &Arc<Plugin>, bytes: bytes::Bytes) {
        let digest = plugin.sha256().to_owned();
        lock(&self.digests).insert(node.to_owned(), digest.clone());
        lock(&self.loaded).insert(digest, Loaded { plugin: Arc::clone(plugin), bytes });
    }

    /// A loaded plugin by its digest.
    pub fn by_digest(&self, digest: &str) -> Option<Arc<Plugin>> {
        lock(&self.loaded).get(digest).map(|loaded| Arc::clone(&loaded.plugin))
    }

    fn of_node(&self, node: &str) -> Option<Arc<Plugin>> {
        let digest = lock(&self.digests).get(node).cloned()?;
        self.by_digest(&digest)
    }

    /// Takes in a build that the job file no longer names, but whose committables exist.
    pub fn load_stored(&self, digest: &str, bytes: bytes::Bytes) -> Result<(), String> {
        let options = LoadOptions { sha256: Some(digest.to_owned()), ..LoadOptions::default() };
        let plugin = self.engine.load_bytes(digest, &bytes, &options).map_err(|error| error.to_string())?;
        lock(&self.loaded).insert(digest.to_owned(), Loaded { plugin, bytes });
        Ok(())
    }

    /// Every loaded build: (sha256, bytes).
    pub fn builds(&self) -> Vec<(String, bytes::Bytes)> {
        lock(&self.loaded).iter().map(|(digest, loaded)| (digest.clone(), loaded.bytes.clone())).collect()
    }
}

/// A component of this size is none: the largest that carry a language's runtime have some 50 MB.
const PLUGIN_BYTES_MAX: u64 = 1 << 30;

/// Reads a regular file: a pipe would keep the start waiting, and a device may have no end.
pub(super) fn read_plugin(path: &Path) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if about.len() > PLUGIN_BYTES_MAX {
        return Err(io::Error::other(format!("it has {} bytes, more than any component ({PLUGIN_BYTES_MAX})", about.len())));
    }
    std::fs::read(path)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Only whole entries are inserted: a panic elsewhere leaves the map usable.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl PluginSource for WasmProvider {
    fn sink_plugin(&self, sink: &SinkSpec, sha256: Option<&str>) -> Result<Arc<Plugin>, ConnectorError> {
        if let Some(digest) = sha256 {
            let missing = || {
                ConnectorError::permanent(format!(
                    "sink {}: build {digest} of its plugin made transactions that are not ended, and is not at hand: put it back \
                     into the checkpoint storage, or name it in the job file",
                    sink.name
                ))
            };
            return self.by_digest(digest).ok_or_else(missing);
        }
        let SinkConnectorSpec::Plugin { plugin, sha256, limits, .. } = &sink.connector else {
            unreachable!("only plugin sinks ask for a plugin")
        };
        // A pinned build that is at hand needs no file: a sink that has left the job file may have taken its plugin along. Its
        // name may be an operator's by now.
        let pinned = sha256.as_deref().and_then(|digest| self.by_digest(digest));
        let known = pinned.or_else(|| self.of_node(&sink.name)).filter(|plugin| plugin.kind() == PluginKind::Sink);
        match known {
            Some(plugin) => Ok(plugin),
            None => self
                .load(&sink.name, plugin, sha256.as_deref(), limits, Role::Sink)
                .map_err(|problem| ConnectorError::permanent(problem.to_string())),
        }
    }
}

impl OperatorProvider for WasmProvider {
    fn facts(&self, operator: &OperatorSpec) -> Result<PluginFacts, Vec<Problem>> {
        let plugin = self
            .load(&operator.name, &operator.plugin, operator.sha256.as_deref(), &operator.limits, Role::Operator)
            .map_err(|problem| vec![Problem { place: format!("operator {}", problem.place), ..problem }])?;
        Ok(facts_of(&plugin, &operator.grants))
    }

    fn take_in(&self, operator: &OperatorSpec, name: &str, bytes: bytes::Bytes) -> Result<PluginFacts, Problem> {
        let place = || format!("operator {}", operator.name);
        let options = LoadOptions { limits: limits_of(&operator.limits), ..LoadOptions::default() };
        let plugin =
            self.engine.load_bytes(name, &bytes, &options).map_err(|error| Problem::new(place(), error.to_string(), ""))?;
        check_role(&plugin, Role::Operator)
            .map_err(|what| Problem::new(place(), format!("plugin {name} {what}"), "name another build of the operator"))?;
        lock(&self.loaded).insert(plugin.sha256().to_owned(), Loaded { plugin: Arc::clone(&plugin), bytes });
        Ok(facts_of(&plugin, &operator.grants))
    }

    fn let_go(&self, build: &str) {
        if lock(&self.digests).values().all(|named| named != build) {
            lock(&self.loaded).remove(build);
        }
    }

    fn bytes_of(&self, build: &str) -> Option<bytes::Bytes> {
        lock(&self.loaded).get(build).map(|loaded| loaded.bytes.clone())
    }

    fn instantiate(
        &self,
        operator: &OperatorSpec,
        build: &str,
        task: InstanceTask,
    ) -> Result<Box<dyn StreamOperator>, OperatorFailure> {
        let named = self.of_node(&operator.name).expect("facts were asked for before instances");
        let plugin = self.by_digest(build).ok_or_else(|| OperatorFailure {
            message: format!("build {build} of the plugin is not at hand"),
            record: None,
            remedy: Remedy::Restart,
        })?;
        let setup = TaskSetup {
            task: TaskInfo {
                job: task.job,
                operator: operator.name.clone(),
                subtask: task.subtask,
                parallelism: task.parallelism,
                attempt: task.attempt,
            },
            config: operator.config.to_string(),
            limits: limits_of(&operator.limits),
            grants: grants_of(&operator.grants),
        };
        let end_states = match wants_end(&plugin) {
            true => plugin.operator().expect("its kind was checked").end_key_states(),
            false => Vec::new(),
        };
        let policy = match operator.on_bad_record {
            BadRecordPolicy::Fail => weir_plugin::BadRecordPolicy::Fail,
            BadRecordPolicy::Drop | BadRecordPolicy::DeadLetter => weir_plugin::BadRecordPolicy::Skip,
        };
        let spec = weir_plugin::OperatorSpec { plugin: Arc::clone(&plugin), setup, retries: Retries::default() };
        let mut instance = SupervisedOperator::new(spec).map_err(|error| OperatorFailure {
            message: error.to_string(),
            record: None,
            // The same build with the same configuration does the same again.
            remedy: Remedy::Permanent,
        })?;
        instance.set_on_probation(task.on_probation);
        let sides = |plugin: &Plugin| plugin.operator().expect("its kind was checked").side_outputs.clone();
        let operator = WasmOperator::new(instance, policy, wants_end(&plugin), end_states);
        // The graph was made for the build that the job file names.
        Ok(Box::new(operator.in_place_of(&sides(&plugin), &sides(&named))))
    }
}
