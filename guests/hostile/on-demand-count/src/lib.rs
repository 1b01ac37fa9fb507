//! Counts records by key and emits key and count as text, like a keyed operator, but reads and writes its state on demand:
//! it exercises the host's `keyed-state`.
//!
//! A value "forget" deletes the key's count and emits "0". A value "foreign:<key>" asks for the state of another key, which
//! the host must trap.

use std::collections::BTreeMap;
use weir_sdk::prelude::*;

/// Index of the one state.
const COUNT: u32 = 0;

#[derive(Default)]
struct OnDemandCount;

impl BatchOperator for OnDemandCount {
    const INFO: Info = weir_sdk::info!();
    const STATES: &'static [StateName] = &[StateName::new("count")];

    fn process(
        &mut self,
        batch: Batch<'_>,
        state: &mut KeyedState,
        out: &mut Output,
        bad: &mut BadRecords,
    ) -> Result<(), Error> {
        // Distinct keys in order, so that the calls do not depend on the batch's.
        let mut counts: BTreeMap<&[u8], Option<u64>> = batch.records().map(|record| (record.key(), None)).collect();
        let mut keys = Column::new();
        counts.keys().for_each(|key| keys.push(key));
        for (count, stored) in counts.values_mut().zip(state.get_many::<u64>(COUNT, &keys)?) {
            *count = stored;
        }
        for (index, record) in batch.records().enumerate() {
            let count = counts.get_mut(record.key()).expect("every key was collected");
            match record.value() {
                b"forget" => *count = None,
                b"bad" => bad.add(index, "bad, as told"),
                value => {
                    if let Some(foreign) = value.strip_prefix(b"foreign:") {
                        let mut keys = Column::new();
                        keys.push(foreign);
                        state.get_many::<u64>(COUNT, &keys)?;
                    }
                    *count = Some(count.unwrap_or(0) + 1);
                }
            }
            out.emit(record.key(), count.unwrap_or(0).to_string(), record.time());
        }
        self.write(state, &counts);
        Ok(())
    }
}

weir_sdk::export_operator!(OnDemandCount);

impl OnDemandCount {
    /// One call for what is set and one for what is deleted.
    fn write(&self, state: &mut KeyedState, counts: &BTreeMap<&[u8], Option<u64>>) {
        let (mut set, mut values, mut gone) = (Column::new(), Vec::new(), Column::new());
        for (key, count) in counts {
            match count {
                Some(count) => {
                    set.push(key);
                    values.push(*count);
                }
                None => gone.push(key),
            }
        }
        state.put_many(COUNT, &set, &values);
        state.delete_many(COUNT, &gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    #[test]
    fn counts_survive_calls_and_forgetting_deletes() {
        let mut harness = Harness::open(OnDemandCount, "{}").unwrap();
        harness.send(0, &[("a", "", 1), ("b", "", 1), ("a", "", 1)]).unwrap();
        harness.send(0, &[("a", "", 1), ("b", "forget", 1)]).unwrap();
        let values: Vec<_> = harness.take_main().iter().map(|r| format!("{}{}", r.key(), r.text())).collect();
        assert_eq!(values, ["a1", "b1", "a2", "a3", "b0"]);
        assert_eq!((harness.state().get(0, b"a"), harness.state().get(0, b"b")), (Some(3u64.to_le_bytes().to_vec()), None));
    }

    #[test]
    fn a_bad_record_undoes_the_calls_writes() {
        let mut harness = Harness::open(OnDemandCount, "{}").unwrap();
        let answer = harness.send(0, &[("a", "", 1), ("a", "bad", 1)]);
        assert!(matches!(answer, Err(HarnessError::BadRecords(bad)) if bad[0].index == 1));
        assert_eq!(harness.state().get(0, b"a"), None);
    }

    #[test]
    fn state_outlives_the_instance() {
        let mut harness = Harness::open(OnDemandCount, "{}").unwrap();
        harness.send(0, &[("a", "", 1)]).unwrap();
        harness.reopen(OnDemandCount, "{}").unwrap();
        harness.send(0, &[("a", "", 1)]).unwrap();
        assert_eq!(harness.take_main()[1].text(), "2");
    }
}
