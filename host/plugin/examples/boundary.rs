//! What one call of an operator costs, limits on: `boundary PLUGIN.wasm` prints ns a record for several batch sizes.
//!
//! Records have a key of 8 and a value of 100 bytes, and every key is another one. An operator that gives its input back
//! shows the boundary alone; one with state is called with a backend that holds nothing, so that only the host's own part
//! (grouping, cells both ways) is in the figure. The best of many samples is shown: the machine is rarely quiet.

use std::time::Instant;
use weir_plugin::batch::{Cells, RecordBatch};
use weir_plugin::state::{KeyedStateBackend, Keys, StateError, StateId};
use weir_plugin::{EngineConfig, Grants, Limits, LoadOptions, OperatorInstance, PluginEngine, TaskInfo, TaskSetup};

const SAMPLES: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: boundary PLUGIN.wasm")?;
    let engine = PluginEngine::new(&EngineConfig::default())?;
    let plugin = engine.load_file(path.as_ref(), &LoadOptions::default())?;
    let keyed = plugin.operator().ok_or("this is a sink")?.is_keyed();
    let setup = TaskSetup {
        task: TaskInfo { job: "bench".into(), operator: "op".into(), subtask: 0, parallelism: 1, attempt: 1 },
        config: "{}".into(),
        limits: Limits::default(),
        grants: Grants::default(),
    };
    let mut operator = OperatorInstance::new(&plugin, &setup)?;
    let mut state = NoState;
    println!("records  ns/record  ns/call");
    for records in [1, 10, 100, 1_000, 10_000] {
        let batch = batch(records);
        let mut best = f64::INFINITY;
        let calls = (1_000 / records).max(1);
        for _ in 0..SAMPLES {
            let begun = Instant::now();
            for _ in 0..calls {
                let state: Option<&mut dyn KeyedStateBackend> = if keyed { Some(&mut state) } else { None };
                std::hint::black_box(operator.process(0, &batch, state)?);
            }
            best = best.min(begun.elapsed().as_nanos() as f64 / calls as f64);
        }
        println!("{records:7}  {:9.2}  {best:7.0}", best / records as f64);
    }
    let mut best = f64::INFINITY;
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        drop(OperatorInstance::new(&plugin, &setup)?);
        best = best.min(begun.elapsed().as_nanos() as f64);
    }
    println!("a fresh instance, opened and dropped: {:.1} µs", best / 1_000.0);
    Ok(())
}

/// Holds nothing and keeps nothing.
struct NoState;

impl KeyedStateBackend for NoState {
    fn prefetch(&mut self, keys: Keys<'_>, states: &[StateId], out: &mut Vec<Cells>) -> Result<(), StateError> {
        for _ in states {
            let mut cells = Cells::new();
            (0..keys.len()).for_each(|_| cells.push_none());
            out.push(cells);
        }
        Ok(())
    }
    fn apply(&mut self, _: Keys<'_>, _: &[StateId], _: &[Cells]) -> Result<(), StateError> {
        Ok(())
    }
    fn get_many(&mut self, _: StateId, keys: Keys<'_>, out: &mut Cells) -> Result<(), StateError> {
        (0..keys.len()).for_each(|_| out.push_none());
        Ok(())
    }
    fn put_many(&mut self, _: StateId, _: Keys<'_>, _: &Cells) -> Result<(), StateError> {
        Ok(())
    }
    fn scan_keys(&mut self, _: &[StateId], _: Option<&[u8]>, _: usize) -> Result<Vec<Vec<u8>>, StateError> {
        Ok(Vec::new())
    }
}

fn batch(records: usize) -> RecordBatch {
    let mut batch = RecordBatch::with_capacity(records, records * 108);
    for i in 0..records {
        batch.push(format!("{i:08}").as_bytes(), &[b'v'; 100], i as i64);
    }
    batch
}
