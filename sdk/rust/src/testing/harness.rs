//! Runs one operator over records.

use super::memory_state::MemoryState;
use super::timers::Queue;
use crate::batch::Batch;
use crate::bindings::types;
use crate::checkpointed::{Checkpointed, Part};
use crate::driver::{BoundedPlugin, Call, Instance, Plugin, start_checkpointed};
use crate::error::Error;
use crate::host::{Grants, Host, Task};
use crate::meta::{Blocks, EMPTY_KEY, Headers, NULL_VALUE, RecordParts};
use crate::timers::{TimerHost, TimerKind};
use std::collections::HashMap;

/// A record that an operator gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its event time in milliseconds since the Unix epoch.
    pub time: i64,
}

impl Emitted {
    /// The key as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    pub fn key(&self) -> &str {
        std::str::from_utf8(&self.key).expect("the test looks at it as text")
    }

    /// The value as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.value).expect("the test looks at it as text")
    }
}

/// A record that an operator gave, with all that it can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedParts {
    /// Its key; none: null.
    pub key: Option<Vec<u8>>,
    /// Its value; none: null.
    pub value: Option<Vec<u8>>,
    /// Its event time in milliseconds since the Unix epoch.
    pub time: i64,
    /// Names and values of its headers; a value may be null.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl EmittedParts {
    fn of(record: RecordParts<'_>) -> Self {
        let RecordParts { key, value, time, headers } = record;
        let headers = headers.map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect();
        EmittedParts { key: key.map(<[u8]>::to_vec), value: value.map(<[u8]>::to_vec), time, headers }
    }
}

impl From<EmittedParts> for Emitted {
    /// What is null becomes empty.
    fn from(parts: EmittedParts) -> Self {
        Emitted { key: parts.key.unwrap_or_default(), value: parts.value.unwrap_or_default(), time: parts.time }
    }
}

/// A record that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Its index in the batch.
    pub index: u32,
    /// Why.
    pub reason: String,
}

/// How a call failed. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HarnessError {
    /// These records are bad.
    BadRecords(Vec<BadRecord>),
    /// The host would try again.
    Retry(String),
    /// The host would end the attempt.
    Fatal(String),
}

/// An open operator with its state in memory. It checks on the way that what the operator gives is well-formed.
///
/// ```
/// # use weir_sdk::prelude::*;
/// # #[derive(Default)]
/// # struct Double;
/// # impl Operator for Double {
/// #     const INFO: Info = weir_sdk::info!();
/// #     fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
/// #         out.emit(record.key(), [record.value(), record.value()].concat(), record.time());
/// #         Ok(())
/// #     }
/// # }
/// use weir_sdk::testing::Harness;
/// let mut harness = Harness::open(Double, "{}").unwrap();
/// harness.send(0, &[("key", "ab", 1)]).unwrap();
/// assert_eq!(harness.take_main()[0].text(), "abab");
/// ```
pub struct Harness {
    instance: Box<dyn Instance>,
    host: Host,
    state: MemoryState,
    timers: Queue,
    timer_host: TimerHost,
    /// Indexes of the states that come with a call; and number of all.
    prefetched: Vec<u32>,
    states: u32,
    side_outputs: Vec<String>,
    inputs: u32,
    main: Vec<EmittedParts>,
    sides: Vec<Vec<EmittedParts>>,
}

/// The first and only subtask of an operator in a test.
pub fn task(grants: Grants) -> Task {
    let (job, operator) = ("test".to_owned(), "operator".to_owned());
    Task { job, operator, subtask: 0, parallelism: 1, attempt: 1, grants }
}

impl Harness {
    /// Opens an operator. `config`: a JSON document.
    pub fn open<T: Plugin<K>, K>(operator: T, config: &str) -> Result<Self, Error> {
        Harness::open_granted(operator, config, Grants::default())
    }

    /// The same, with grants: [`super::MemoryFolders::grants`], [`super::FakeHttp::grants`].
    pub fn open_granted<T: Plugin<K>, K>(operator: T, config: &str, grants: Grants) -> Result<Self, Error> {
        let host = Host::recording();
        let instance = operator.start(&task(grants), config, host.clone())?;
        Ok(Harness::new::<T, K>(instance, host))
    }

    /// Opens an operator that has calls for the end of its input.
    pub fn open_bounded<T: BoundedPlugin<K>, K>(operator: T, config: &str) -> Result<Self, Error> {
        let host = Host::recording();
        let instance = operator.start_bounded(&task(Grants::default()), config, host.clone())?;
        Ok(Harness::new::<T, K>(instance, host))
    }

    /// Opens an operator that has state of its own.
    pub fn open_checkpointed<T: Plugin<K> + Checkpointed + 'static, K>(operator: T, config: &str) -> Result<Self, Error> {
        let host = Host::recording();
        let instance = start_checkpointed(operator, &task(Grants::default()), config, host.clone())?;
        Ok(Harness::new::<T, K>(instance, host))
    }

    /// The state of an operator that has some of its own, as a checkpoint would keep it.
    pub fn snapshot(&mut self) -> Result<Vec<Part>, Error> {
        self.instance.snapshot()
    }

    /// Gives such state to an operator that was just opened.
    pub fn restore(&mut self, parts: &[Part]) -> Result<(), Error> {
        self.instance.restore(parts)
    }

    fn new<T: Plugin<K>, K>(mut instance: Box<dyn Instance>, host: Host) -> Self {
        let descriptor = T::describe();
        let state = instance.store().map(|store| store.clone()).unwrap_or_default();
        let timer_host = instance.timers().map(|timers| timers.clone()).unwrap_or_default();
        Harness {
            timers: Queue::default(),
            timer_host,
            instance,
            host,
            state,
            prefetched: (0..).zip(&descriptor.states).filter(|(_, state)| state.prefetch).map(|(at, _)| at).collect(),
            states: descriptor.states.len() as u32,
            sides: vec![Vec::new(); descriptor.side_outputs.len()],
            side_outputs: descriptor.side_outputs,
            inputs: descriptor.inputs,
            main: Vec::new(),
        }
    }

    /// Sends one batch of (key, value, event time in ms) to input `port`. If it fails, nothing of it was applied.
    pub fn send<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, port: u32, records: &[(K, V, i64)]) -> Result<(), HarnessError> {
        self.send_batch(port, batch(records))
    }

    /// Sends one batch of records with all that they can have to input `port`. If it fails, nothing of it was applied.
    pub fn send_parts(&mut self, port: u32, records: &[RecordParts<'_>]) -> Result<(), HarnessError> {
        self.send_batch(port, batch_of_parts(records.iter().copied()))
    }

    fn send_batch(&mut self, port: u32, (input, key_of, keys): Input) -> Result<(), HarnessError> {
        let states = self.prefetch(&keys);
        let key_of = if self.states > 0 { &key_of[..] } else { &[] };
        let before = self.state.snapshot();
        let answer = self.instance.process(Call { port, input: &input, key_of, states: &states });
        self.apply(&keys, answer).inspect_err(|_| self.state.restore(before))?;
        // What is due already fires right after the call.
        self.fire()
    }

    /// Event time has come so far: fires what is due, some timers a call.
    pub fn advance_watermark(&mut self, to: i64) -> Result<(), HarnessError> {
        self.timer_host.set_clock(TimerKind::EventTime, to);
        self.fire()
    }

    /// The clock on the wall shows this: fires what is due, some timers a call.
    pub fn advance_processing_time(&mut self, to: i64) -> Result<(), HarnessError> {
        self.timer_host.set_clock(TimerKind::ProcessingTime, to);
        self.fire()
    }

    /// Number of timers that are set.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    fn fire(&mut self) -> Result<(), HarnessError> {
        for kind in [TimerKind::EventTime, TimerKind::ProcessingTime] {
            loop {
                let due = self.timers.take_due(kind, self.timer_host.current(kind), 3);
                if due.is_empty() {
                    break;
                }
                let (input, key_of, keys) = batch(&due);
                let states = self.prefetch(&keys);
                let call = Call { port: 0, input: &input, key_of: &key_of, states: &states };
                let before = self.state.snapshot();
                let answer = self.instance.on_timers(kind.name(), call);
                self.apply(&keys, answer).inspect_err(|_| self.state.restore(before))?;
            }
        }
        Ok(())
    }

    /// Sends records in batches of `size`, as a check that the batching does not matter.
    pub fn send_in_batches<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        port: u32,
        records: &[(K, V, i64)],
        size: usize,
    ) -> Result<(), HarnessError> {
        records.chunks(size).try_for_each(|chunk| self.send(port, chunk))
    }

    /// Fires every timer of event time, ends all inputs in order, then every key that holds state, some keys a call.
    pub fn end(&mut self) -> Result<(), HarnessError> {
        self.advance_watermark(i64::MAX)?;
        for port in 0..self.inputs.max(1) {
            let answer = self.instance.on_end(port);
            self.apply(&[], answer)?;
        }
        let keys = self.state.keys(0..self.states);
        for some in keys.chunks(3) {
            let mut column = types::Column { data: Vec::new(), index: vec![0; 4] };
            for key in some {
                column.data.extend_from_slice(key);
                column.index.extend_from_slice(&(column.data.len() as u32).to_le_bytes());
            }
            let states = self.prefetch(some);
            let answer = self.instance.on_end_keys(&column, &states);
            self.apply(some, answer)?;
        }
        Ok(())
    }

    /// Closes the operator, and opens another one on the same state: what a restart does.
    pub fn reopen<T: Plugin<K>, K>(&mut self, operator: T, config: &str) -> Result<(), Error> {
        self.instance.close();
        let state = self.state.clone();
        let mut instance = operator.start(&task(Grants::default()), config, self.host.clone())?;
        if let Some(store) = instance.store() {
            *store = state;
        }
        if let Some(timers) = instance.timers() {
            *timers = self.timer_host.clone();
        }
        self.instance = instance;
        Ok(())
    }

    /// What the main output got since the last time.
    pub fn take_main(&mut self) -> Vec<Emitted> {
        self.take_main_parts().into_iter().map(Emitted::from).collect()
    }

    /// The same with headers, and with what is null.
    pub fn take_main_parts(&mut self) -> Vec<EmittedParts> {
        std::mem::take(&mut self.main)
    }

    /// What the side output of this name got since the last time.
    ///
    /// # Panics
    /// If the operator declares no such side output.
    pub fn take_side(&mut self, name: &str) -> Vec<Emitted> {
        self.take_side_parts(name).into_iter().map(Emitted::from).collect()
    }

    /// The same with headers, and with what is null.
    ///
    /// # Panics
    /// If the operator declares no such side output.
    pub fn take_side_parts(&mut self, name: &str) -> Vec<EmittedParts> {
        let at = self.side_outputs.iter().position(|side| side == name);
        std::mem::take(&mut self.sides[at.unwrap_or_else(|| panic!("no side output '{name}' in {:?}", self.side_outputs))])
    }

    /// The state, by index of `STATES` and key.
    pub fn state(&self) -> &MemoryState {
        &self.state
    }

    /// The declared states' values for these keys.
    fn prefetch(&self, keys: &[Vec<u8>]) -> Vec<types::Cells> {
        let mut column = types::Column { data: Vec::new(), index: vec![0; 4] };
        for key in keys {
            column.data.extend_from_slice(key);
            column.index.extend_from_slice(&(column.data.len() as u32).to_le_bytes());
        }
        self.prefetched.iter().map(|&state| self.state.get_many(state, &column)).collect()
    }

    /// Applies what a call gave, or nothing of it.
    fn apply(&mut self, keys: &[Vec<u8>], answer: Result<types::Output, types::Error>) -> Result<(), HarnessError> {
        let (emitted, timers) = (self.host.take_emitted(), self.timer_host.take_changes());
        let output = answer.map_err(|error| match error {
            types::Error::BadInput(bad) => {
                HarnessError::BadRecords(bad.into_iter().map(|(index, reason)| BadRecord { index, reason }).collect())
            }
            types::Error::Retry(reason) => HarnessError::Retry(reason),
            types::Error::Fatal(reason) => HarnessError::Fatal(reason),
        })?;
        for (port, chunk) in emitted {
            self.take(port, &chunk);
        }
        self.take(0, &output.main);
        for side in output.sides {
            self.take(side.port + 1, &side.records);
        }
        self.state.apply(&self.prefetched, keys, &output.updates);
        self.timers.apply(keys, timers);
        Ok(())
    }

    /// Adds a chunk to an output; `port` as `host.emit` counts.
    fn take(&mut self, port: u32, chunk: &types::Batch) {
        if chunk.count == 0 {
            return;
        }
        let batch = Batch::new(chunk, 0).expect("the output's columns fit together");
        let records = batch.records().map(|record| EmittedParts::of(record.parts()));
        match port.checked_sub(1) {
            None => self.main.extend(records),
            Some(side) => self.sides[side as usize].extend(records),
        }
    }
}

/// A batch as the host makes it: its columns, the distinct key of each record, and the distinct keys.
type Input = (types::Batch, Vec<u8>, Vec<Vec<u8>>);

/// The batch of plain records.
pub(super) fn batch<K: AsRef<[u8]>, V: AsRef<[u8]>>(records: &[(K, V, i64)]) -> Input {
    batch_of_parts(records.iter().map(|(key, value, time)| RecordParts {
        // An empty key that nobody calls one is none.
        key: (!key.as_ref().is_empty()).then_some(key.as_ref()),
        value: Some(value.as_ref()),
        time: *time,
        headers: Headers::default(),
    }))
}

/// The batch of records with all that they can have.
pub(super) fn batch_of_parts<'a>(records: impl Iterator<Item = RecordParts<'a>>) -> Input {
    let mut batch = types::Batch { count: 0, data: Vec::new(), index: vec![0; 4], times: Vec::new(), aux: Vec::new() };
    let mut blocks = Blocks::default();
    let (mut key_of, mut keys, mut seen) = (Vec::new(), Vec::new(), HashMap::new());
    for (record, RecordParts { key, value, time, headers }) in records.enumerate() {
        for bytes in [key, value] {
            batch.data.extend_from_slice(bytes.unwrap_or_default());
            batch.index.extend_from_slice(&(batch.data.len() as u32).to_le_bytes());
        }
        batch.times.extend_from_slice(&time.to_le_bytes());
        batch.count += 1;
        let empty_key = if key.is_some_and(<[u8]>::is_empty) { EMPTY_KEY } else { 0 };
        blocks.note(record, empty_key | if value.is_none() { NULL_VALUE } else { 0 }, headers);
        let key = key.unwrap_or_default().to_vec();
        let distinct = *seen.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            keys.len() as u32 - 1
        });
        key_of.extend_from_slice(&distinct.to_le_bytes());
    }
    batch.aux = blocks.encode(batch.count as usize);
    (batch, key_of, keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[derive(Default)]
    struct Upper;

    impl Operator for Upper {
        const INFO: Info = crate::info!();
        fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
            match record.value_or_null() {
                Some(value) => out.forward_with(record, |bytes| bytes.push(&value.to_ascii_uppercase())),
                None => out.forward(record),
            }
            Ok(())
        }
    }

    #[test]
    fn a_map_keeps_headers_and_deletions() {
        let mut headers = HeaderList::new();
        headers.add("to", Some("x"));
        let record = RecordParts { key: Some(b"k"), value: Some(b"v"), time: 1, headers: headers.headers() };
        let deletion = RecordParts { value: None, time: 2, headers: Headers::default(), ..record };
        let mut harness = Harness::open(Upper, "{}").unwrap();
        harness.send_parts(0, &[record, deletion]).unwrap();
        harness.send(0, &[("", "w", 3)]).unwrap();
        let given = harness.take_main_parts();
        assert_eq!(given[0], EmittedParts::of(RecordParts { value: Some(b"V"), ..record }));
        assert_eq!(given[1], EmittedParts::of(deletion));
        assert_eq!((given[2].key.as_deref(), given[2].value.as_deref()), (None, Some(&b"W"[..])));
    }
}
