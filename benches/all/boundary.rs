//! What a call of a plugin costs: records in, records in and out, by batch size, with and without the call limit.

use crate::group;
use criterion::Criterion;
use weir_benches::table::{Table, WEIR};
use weir_benches::{Cost, compiled, guest};
use weir_plugin::batch::RecordBatch;
use weir_plugin::{EngineConfig, Grants, Limits, LoadOptions, OperatorInstance, PluginEngine, TaskInfo, TaskSetup};

const SIZES: [usize; 5] = [1, 16, 128, 1024, 8192];
/// The guest passes on what ends in an even byte.
const WHAT: [(&str, u8); 2] = [("in", b'1'), ("in and out", b'0')];

/// Calls of `guests/bench/filter-even`, without a job around them.
pub fn boundary(criterion: &mut Criterion, table: &mut Table) {
    for (what, last) in WHAT {
        for size in SIZES {
            let name = format!("boundary, {what}, batches of {size}");
            let mut group = group(criterion, &name, size, 1);
            for (who, no_call_limit) in [(WEIR, false), ("no call limit", true)] {
                let (mut instance, batch) = (instance(no_call_limit), batch(size, last));
                let mut costs = Cost::default();
                group.bench_function(who, |bencher| {
                    bencher.iter_custom(|calls| {
                        let cost = Cost::of(calls * size as u64, || {
                            for _ in 0..calls {
                                let output = instance.process(0, &batch, None).expect("the guest takes everything");
                                let given: usize = output.main.iter().map(RecordBatch::len).sum();
                                assert_eq!(given, if last == b'0' { size } else { 0 });
                            }
                        });
                        costs += cost;
                        cost.wall
                    });
                });
                table.push_run(&name, who, costs);
            }
            group.finish();
        }
    }
}

fn instance(no_call_limit: bool) -> OperatorInstance {
    let engine = PluginEngine::new(&EngineConfig { cache: Some(compiled()), no_call_limit, ..EngineConfig::default() })
        .expect("an engine can be made");
    let plugin = engine.load_file(&guest("filter_even.wasm"), &LoadOptions::default()).expect("the guest is built");
    let task = TaskInfo { job: "bench".into(), operator: "even".into(), subtask: 0, parallelism: 1, attempt: 1 };
    let setup = TaskSetup { task, config: "{}".into(), limits: Limits::default(), grants: Grants::default() };
    OperatorInstance::new(&plugin, &setup).expect("the guest opens")
}

/// Records as in the pipelines: 8 bytes of key, 100 of value.
fn batch(size: usize, last: u8) -> RecordBatch {
    let mut value = [b'v'; 100];
    value[99] = last;
    let mut batch = RecordBatch::new();
    for i in 0..size as u64 {
        batch.push(&i.to_le_bytes(), &value, i as i64);
    }
    batch
}
