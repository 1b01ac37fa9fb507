//! Counts the words of each key: the operator of docs/write-an-operator.md.

use weir_sdk::prelude::*;

#[derive(Default)]
struct WordCount;

impl KeyedOperator for WordCount {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("words")];

    fn process(&mut self, record: Record<'_>, words: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        let total = words.or_default();
        *total += record.text()?.split_whitespace().count() as u64;
        out.emit(record.key(), total.to_string(), record.time());
        Ok(())
    }
}

weir_sdk::export_operator!(WordCount);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn words_add_up_for_each_key() {
        let mut harness = Harness::open(WordCount, "{}").unwrap();
        harness.send(0, &[("ann", "to be or", 1), ("bob", "hello", 2), ("ann", "not to be", 3)]).unwrap();
        let counts: Vec<_> = harness.take_main().iter().map(|r| format!("{} {}", r.key(), r.text())).collect();
        assert_eq!(counts, ["ann 3", "bob 1", "ann 6"]);
    }

    #[test]
    fn a_value_that_is_no_text_is_a_bad_record() {
        let mut harness = Harness::open(WordCount, "{}").unwrap();
        assert!(harness.send(0, &[("ann", &b"\xff"[..], 1)]).is_err());
        assert_eq!(harness.state().get(0, b"ann"), None);
    }
}
