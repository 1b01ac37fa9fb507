//! The plugin host against guests written by hand: what is refused, what is stopped, what is staged.

mod checkpointed;
mod collections;
mod guest;
mod hostile;
mod limits;
mod load;
mod operator;
mod sink;
mod staged;
mod state;
mod supervise;
mod timers;
mod wasi;

use guest::Guest;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use weir_plugin::batch::RecordBatch;
use weir_plugin::*;

/// One engine for all tests, as in a host.
static ENGINE: LazyLock<Arc<PluginEngine>> =
    LazyLock::new(|| PluginEngine::new(&EngineConfig::default()).expect("an engine runs here"));

fn load(guest: &Guest) -> Result<Arc<Plugin>, LoadError> {
    ENGINE.load_bytes("test.wasm", &guest.build(), &LoadOptions::default())
}

fn setup() -> TaskSetup {
    TaskSetup {
        task: TaskInfo { job: "job".into(), operator: "op".into(), subtask: 3, parallelism: 4, attempt: 1 },
        config: "{}".into(),
        limits: Limits::default(),
        grants: Grants::default(),
    }
}

fn granted(folder: &str, path: PathBuf) -> TaskSetup {
    TaskSetup { grants: Grants { folders: BTreeMap::from([(folder.to_owned(), path)]), ..Grants::default() }, ..setup() }
}

fn instance(guest: &Guest) -> OperatorInstance {
    OperatorInstance::new(&load(guest).expect("it loads"), &setup()).expect("it opens")
}

fn batch(records: &[(&str, &str)]) -> RecordBatch {
    let mut batch = RecordBatch::new();
    for (i, (key, value)) in records.iter().enumerate() {
        batch.push(key.as_bytes(), value.as_bytes(), i as i64);
    }
    batch
}

/// Values of all chunks, in order.
fn values(chunks: &[RecordBatch]) -> Vec<String> {
    let of = |chunk: &RecordBatch| -> Vec<String> {
        (0..chunk.len()).map(|i| String::from_utf8_lossy(chunk.value(i)).into_owned()).collect()
    };
    chunks.iter().flat_map(of).collect()
}
