//! The bench guests' work, natively: the control of every comparison.

use weir_bench_work::{DIGITS, mixed, passes, rewritten};
use weir_host::coordinator::provider::{InstanceTask, OperatorProvider};
use weir_host::graph::{OperatorSpec, PluginFacts, Problem};
use weir_host::store::manifest::StateManifest;
use weir_host::task::operator::{OperatorFailure, Processed, StateRef, StreamOperator};
use weir_plugin::batch::{Cells, RecordBatch};
use weir_plugin::state::{KeyGrouping, StateError};

/// Chooses by the file name of the plugin that it stands for.
pub struct NativeOperators;

impl OperatorProvider for NativeOperators {
    fn facts(&self, operator: &OperatorSpec) -> Result<PluginFacts, Vec<Problem>> {
        let states = match name(operator) {
            "keyed_count" => vec![StateManifest { name: "count".into(), kind: "value".into(), schema_version: 1 }],
            _ => Vec::new(),
        };
        Ok(PluginFacts { digest: "0".repeat(64), states, ..PluginFacts::default() })
    }

    fn instantiate(&self, operator: &OperatorSpec, _: &str, _: InstanceTask) -> Result<Box<dyn StreamOperator>, OperatorFailure> {
        Ok(match name(operator) {
            "keyed_count" => Box::new(KeyedCount::default()),
            "map_filter" => Box::new(MapFilter),
            "rewrite_field" => Box::new(RewriteField),
            "map_upper" => Box::new(MapUpper),
            other => panic!("there is no native twin of {other}"),
        })
    }
}

fn name(operator: &OperatorSpec) -> &str {
    operator.plugin.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

fn failed(error: &StateError) -> OperatorFailure {
    OperatorFailure { message: error.to_string(), record: None, remedy: weir_host::connectors::Remedy::Restart }
}

fn bad(record: usize) -> OperatorFailure {
    OperatorFailure {
        message: "bad record".into(),
        record: Some(record as u32),
        remedy: weir_host::connectors::Remedy::Permanent,
    }
}

/// As `guests/bench/map-upper`.
struct MapUpper;

impl StreamOperator for MapUpper {
    fn process(&mut self, _: u32, records: &RecordBatch, _: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let mut out = RecordBatch::with_capacity(records.len(), records.data().len());
        let mut value = Vec::new();
        for i in 0..records.len() {
            value.clear();
            value.extend(records.value(i).iter().map(u8::to_ascii_uppercase));
            out.push(records.key(i), &value, records.time(i));
        }
        Ok(Processed { main: vec![out], ..Processed::default() })
    }
}

/// As `guests/bench/map-filter`.
struct MapFilter;

impl StreamOperator for MapFilter {
    fn process(&mut self, _: u32, records: &RecordBatch, _: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let mut out = RecordBatch::with_capacity(records.len(), records.data().len());
        for i in 0..records.len() {
            let value = records.value(i);
            let mixed = mixed(value).ok_or_else(|| bad(i))?;
            if passes(mixed, value) {
                out.push_parts(records.key(i), &[&mixed, &value[8..]], records.time(i));
            }
        }
        Ok(Processed { main: vec![out], ..Processed::default() })
    }
}

/// As `guests/bench/rewrite-field`.
struct RewriteField;

impl StreamOperator for RewriteField {
    fn process(&mut self, _: u32, records: &RecordBatch, _: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let mut out = RecordBatch::with_capacity(records.len(), records.data().len());
        for i in 0..records.len() {
            let value = records.value(i);
            let first = rewritten(value).ok_or_else(|| bad(i))?;
            out.push_parts(records.key(i), &[&first, &value[DIGITS..]], records.time(i));
        }
        Ok(Processed { main: vec![out], ..Processed::default() })
    }
}

/// As `guests/bench/keyed-count`, with grouping and state as the plugin host does it.
#[derive(Default)]
struct KeyedCount {
    grouping: KeyGrouping,
    cells: Vec<Cells>,
    updates: [Cells; 1],
    counts: Vec<u64>,
}

impl StreamOperator for KeyedCount {
    fn process(&mut self, _: u32, records: &RecordBatch, state: StateRef<'_>) -> Result<Processed, OperatorFailure> {
        let state = state.expect("it declares state");
        self.grouping.group(records);
        let keys = self.grouping.keys(records);
        state.prefetch(keys, &[0], &mut self.cells).map_err(|error| failed(&error))?;
        self.counts.clear();
        let of = |cell: Option<&[u8]>| cell.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        self.counts.extend((0..keys.len()).map(|k| of(self.cells[0].get(k))));
        let mut out = RecordBatch::with_capacity(records.len(), records.len() * 16);
        for i in 0..records.len() {
            let key = weir_plugin::batch::u32_at(&self.grouping.key_of, i) as usize;
            self.counts[key] += 1;
            out.push(records.key(i), &self.counts[key].to_le_bytes(), records.time(i));
        }
        let updates = &mut self.updates[0];
        updates.clear();
        self.counts.iter().for_each(|count| updates.push_put(&count.to_le_bytes()));
        state.apply(keys, &[0], &self.updates).map_err(|error| failed(&error))?;
        Ok(Processed { main: vec![out], ..Processed::default() })
    }
}
