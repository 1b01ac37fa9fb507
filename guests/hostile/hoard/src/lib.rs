//! Keeps the number at the front of every value in a list, and the greatest [`KEPT`] of each key in a map; tells both at the end of
//! the input, a line for each number. It exercises lists and maps: what it tells depends on no order of the input.

use weir_sdk::prelude::*;

/// Entries that the map keeps.
const KEPT: u64 = 400;

#[derive(Default)]
struct Hoard;

impl KeyedOperator for Hoard {
    const INFO: Info = weir_sdk::info!();
    type State = (List<u64>, Reducing<Sum<u64>>, Map<u64, String>);
    const STATES: &'static [StateName] = &[StateName::new("all"), StateName::new("count"), StateName::new("greatest")];

    fn process(&mut self, record: Record<'_>, state: &mut Self::State, _: &mut Output) -> Result<(), Error> {
        let (all, count, greatest) = state;
        let digits = record.value().get(..20).and_then(|digits| std::str::from_utf8(digits).ok());
        let number: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Error::bad_record("no number"))?;
        all.push(&number);
        greatest.put(&number, &format!("of {}", record.time()));
        if *count.add(1) > KEPT
            && let Some((least, _)) = greatest.first(..)?
        {
            greatest.remove(&least);
        }
        Ok(())
    }
}

impl EndOfKeyedInput for Hoard {
    fn on_end_key(&mut self, key: &[u8], state: &mut Self::State, out: &mut Output) -> Result<(), Error> {
        let (all, count, greatest) = state;
        if all.len() != count.get().copied().unwrap_or(0) {
            return Err(Error::fatal(format!("{} in the list, {:?} counted", all.len(), count.get())));
        }
        all.for_each(|number| {
            out.emit(key, format!("all {number}"), 0);
            Ok(())
        })?;
        greatest.scan(.., |number, text| {
            out.emit(key, format!("greatest {number} {text}"), 0);
            Ok(true)
        })
    }
}

weir_sdk::export_operator!(Hoard, end_of_input);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn the_list_has_all_and_the_map_the_greatest() {
        let mut harness = Harness::open_bounded(Hoard, "{}").unwrap();
        let records: Vec<_> = (0..1000i64).map(|i| ("k", format!("{:020}", i * 7 % 1000), i)).collect();
        harness.send_in_batches(0, &records, 77).unwrap();
        assert_eq!((harness.state().list(0, b"k").len(), harness.state().map(2, b"k").len()), (1000, 400));
        assert!(harness.send(0, &[("k", "none", 1)]).is_err());
        harness.end().unwrap();
        let told: Vec<_> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
        assert_eq!(told.len(), 1400);
        assert_eq!((&told[1][..], &told[1000][..], &told[1399][..]), ("all 7", "greatest 600 of 800", "greatest 999 of 857"));
    }
}
