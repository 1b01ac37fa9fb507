//! An operator that breaks the contract on demand: it speaks the wire format itself, to say what the SDK never would.
//!
//! Config: `{"lie": "<what>"}`; every call of `process` with a record then does it. Without a lie the batch passes through.
//! - in the output: `index-short`, `index-descending`, `index-beyond`, `times-short`, `count-high`, `side-port`,
//!   `aux-garbage`;
//! - in the state updates: `updates-missing` (none of two), `updates-extra`, `updates-short`, `updates-op`;
//! - in calls to the host: `emit-port`, `emit-index`, `log-level`, `state-index`, `foreign-key`, `values-short`,
//!   `column-index`;
//! - in errors: `bad-index` (a record beyond the batch), `bad-twice` (one record twice), `bad-none` (no record at all).
//!
//! It declares the prefetched states `first` and `second`, and the on-demand state `third`.
#![cfg(any(target_family = "wasm", test))]

use serde::Deserialize;
use std::cell::Cell;
use weir_sdk::bindings::operator::exports::weir::plugin::operator::Guest;
use weir_sdk::bindings::types::{Batch, Cells, Column, Error, Output, SideOutput, TaskInfo};
use weir_sdk::bindings::{Descriptor, StateDesc, host, keyed_state};

struct Liar;

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    #[default]
    None,
    IndexShort,
    IndexDescending,
    IndexBeyond,
    TimesShort,
    CountHigh,
    SidePort,
    AuxGarbage,
    UpdatesMissing,
    UpdatesExtra,
    UpdatesShort,
    UpdatesOp,
    EmitPort,
    EmitIndex,
    LogLevel,
    StateIndex,
    ForeignKey,
    ValuesShort,
    ColumnIndex,
    BadIndex,
    BadTwice,
    BadNone,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    lie: Lie,
}

thread_local! {
    static LIE: Cell<Lie> = const { Cell::new(Lie::None) };
}

impl Guest for Liar {
    fn describe() -> Descriptor {
        let state = |name: &str, prefetch| StateDesc {
            name: name.to_owned(),
            kind: "value".to_owned(),
            schema_version: 1,
            prefetch,
        };
        Descriptor {
            plugin_name: "liar".to_owned(),
            plugin_version: "0.1.0".to_owned(),
            states: vec![state("first", true), state("second", true), state("third", false)],
            side_outputs: vec!["side".to_owned()],
            inputs: 0,
        }
    }

    fn open(_: TaskInfo, config: String) -> Result<(), Error> {
        let config: Config = serde_json::from_str(&config).map_err(|e| Error::Fatal(format!("config: {e}")))?;
        LIE.set(config.lie);
        Ok(())
    }

    fn process(_: u32, input: Batch, _: Vec<u8>, states: Vec<Cells>) -> Result<Output, Error> {
        let lie = LIE.get();
        if input.count == 0 {
            return Ok(output(input));
        }
        match lie {
            Lie::None => Ok(output(input)),
            Lie::BadIndex => Err(Error::BadInput(vec![(input.count, "beyond the batch".to_owned())])),
            Lie::BadTwice => Err(Error::BadInput(vec![(0, "once".to_owned()), (0, "twice".to_owned())])),
            Lie::BadNone => Err(Error::BadInput(Vec::new())),
            Lie::EmitPort
            | Lie::EmitIndex
            | Lie::LogLevel
            | Lie::StateIndex
            | Lie::ForeignKey
            | Lie::ValuesShort
            | Lie::ColumnIndex => {
                lie_to_the_host(lie);
                Ok(output(input))
            }
            Lie::UpdatesMissing | Lie::UpdatesExtra | Lie::UpdatesShort | Lie::UpdatesOp => {
                let keys = states.first().map_or(0, |cells| cells.ops.len());
                Ok(Output { updates: lying_updates(lie, keys), ..output(input) })
            }
            Lie::SidePort => {
                let records = input.clone();
                Ok(Output { sides: vec![SideOutput { port: 7, records }], ..output(input) })
            }
            Lie::IndexShort
            | Lie::IndexDescending
            | Lie::IndexBeyond
            | Lie::TimesShort
            | Lie::CountHigh
            | Lie::AuxGarbage => Ok(output(lying_batch(lie, input))),
        }
    }

    fn close() {}
}

#[cfg(target_family = "wasm")]
weir_sdk::bindings::operator::export!(Liar with_types_in weir_sdk::bindings::operator);

fn output(main: Batch) -> Output {
    Output { main, sides: Vec::new(), updates: Vec::new() }
}

fn lying_batch(lie: Lie, mut batch: Batch) -> Batch {
    let last = batch.index.len() - 4;
    match lie {
        Lie::IndexShort => batch.index.truncate(last),
        Lie::IndexDescending => batch.index[..4].copy_from_slice(&u32::MAX.to_le_bytes()),
        Lie::IndexBeyond => batch.index[last..].copy_from_slice(&u32::MAX.to_le_bytes()),
        Lie::TimesShort => batch.times.truncate(batch.times.len() - 1),
        Lie::CountHigh => batch.count = u32::MAX,
        Lie::AuxGarbage => batch.aux = vec![0xff; 3],
        _ => unreachable!("only lies about the batch come here"),
    }
    batch
}

fn lying_updates(lie: Lie, keys: usize) -> Vec<Cells> {
    let keep = |keys: usize| Cells { ops: vec![0; keys], data: Vec::new(), index: vec![0; (keys + 1) * 4] };
    match lie {
        Lie::UpdatesMissing => vec![keep(keys)],
        Lie::UpdatesExtra => vec![keep(keys), keep(keys), keep(keys)],
        Lie::UpdatesShort => vec![keep(keys), keep(keys - 1)],
        Lie::UpdatesOp => vec![keep(keys), Cells { ops: vec![9; keys], ..keep(keys) }],
        _ => unreachable!("only lies about updates come here"),
    }
}

/// The index of the on-demand state.
const THIRD: u32 = 2;

fn lie_to_the_host(lie: Lie) {
    let column = |strings: &[&str]| {
        let mut column = Column { data: Vec::new(), index: vec![0; 4] };
        for string in strings {
            column.data.extend_from_slice(string.as_bytes());
            column.index.extend_from_slice(&(column.data.len() as u32).to_le_bytes());
        }
        column
    };
    let empty = Batch { count: 0, data: Vec::new(), index: vec![0; 4], times: Vec::new(), aux: Vec::new() };
    match lie {
        Lie::EmitPort => host::emit(9, &empty),
        Lie::EmitIndex => host::emit(0, &Batch { count: 1, ..empty }),
        Lie::LogLevel => host::log("shout", "HELLO"),
        Lie::StateIndex => drop(keyed_state::get_many(99, &column(&[]))),
        Lie::ForeignKey => keyed_state::put_many(THIRD, &column(&["\0no such key in the batch"]), &column(&["value"])),
        Lie::ValuesShort => keyed_state::put_many(THIRD, &column(&["a", "b"]), &column(&["value"])),
        Lie::ColumnIndex => drop(keyed_state::get_many(THIRD, &Column { data: Vec::new(), index: vec![1, 2, 3] })),
        _ => unreachable!("only lies to the host come here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_records() -> Batch {
        let index = [0u32, 1, 2, 3, 4].iter().flat_map(|offset| offset.to_le_bytes()).collect();
        Batch { count: 2, data: b"kvkv".to_vec(), index, times: vec![0; 16], aux: Vec::new() }
    }

    #[test]
    fn a_lie_about_the_batch_changes_just_one_thing() {
        for lie in
            [Lie::IndexShort, Lie::IndexDescending, Lie::IndexBeyond, Lie::TimesShort, Lie::CountHigh, Lie::AuxGarbage]
        {
            let (told, honest) = (lying_batch(lie, two_records()), two_records());
            let same = [
                told.count == honest.count,
                told.data == honest.data,
                told.index == honest.index,
                told.times == honest.times,
                told.aux == honest.aux,
            ];
            assert_eq!(same.iter().filter(|same| !**same).count(), 1);
        }
    }

    fn call(lie: &str) -> Result<Output, Error> {
        let task = TaskInfo { job: "j".into(), operator_name: "o".into(), subtask: 0, parallelism: 1, attempt: 1 };
        Liar::open(task, format!(r#"{{"lie":"{lie}"}}"#))?;
        let states = vec![Cells { ops: vec![0], data: Vec::new(), index: vec![0; 8] }; 2];
        Liar::process(0, two_records(), vec![0; 8], states)
    }

    #[test]
    fn lies_are_told_by_name() {
        assert_eq!(call("none").unwrap().main.count, 2);
        assert_eq!(call("count-high").unwrap().main.count, u32::MAX);
        assert_eq!(call("side-port").unwrap().sides[0].port, 7);
        assert_eq!(call("updates-missing").unwrap().updates.len(), 1);
        assert!(matches!(call("bad-index"), Err(Error::BadInput(bad)) if bad[0].0 == 2));
        assert!(matches!(call("bad-twice"), Err(Error::BadInput(bad)) if bad.len() == 2));
        assert!(matches!(call("bad-none"), Err(Error::BadInput(bad)) if bad.is_empty()));
        assert!(matches!(call("white"), Err(Error::Fatal(_))));
    }

    #[test]
    fn updates_lie_as_named() {
        assert_eq!(lying_updates(Lie::UpdatesMissing, 2).len(), 1);
        assert_eq!(lying_updates(Lie::UpdatesExtra, 2).len(), 3);
        assert_eq!(lying_updates(Lie::UpdatesShort, 2)[1].ops.len(), 1);
        assert_eq!(lying_updates(Lie::UpdatesOp, 2)[1].ops, [9, 9]);
    }
}
