//! Numbers the records of each key: each goes on as it came, headers and all, with its number, from 1, in the header `number`.

use weir_sdk::prelude::*;

#[derive(Default)]
struct NumberRecords;

impl KeyedOperator for NumberRecords {
    const INFO: Info = weir_sdk::info!();
    type State = Value<u64>;
    const STATES: &'static [StateName] = &[StateName::new("count")];

    fn process(&mut self, record: Record<'_>, count: &mut Value<u64>, out: &mut Output) -> Result<(), Error> {
        let number = count.or_default();
        *number += 1;
        let mut headers = HeaderList::from(record.headers());
        headers.set("number", Some(number.to_string()));
        out.emit_parts(RecordParts { headers: headers.headers(), ..record.parts() });
        Ok(())
    }
}

weir_sdk::export_operator!(NumberRecords);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn records_go_on_as_they_came_with_their_number() {
        let mut headers = HeaderList::new();
        headers.add("to", Some("x"));
        headers.add("to", None::<&str>);
        let first = RecordParts { key: Some(b"a"), value: None, time: 1, headers: headers.headers() };
        let second = RecordParts { key: None, value: Some(b""), time: 2, headers: Headers::default() };
        let mut harness = Harness::open(NumberRecords, "{}").unwrap();
        harness.send_parts(0, &[first, second, first]).unwrap();
        let given = harness.take_main_parts();
        let pair = |name: &str, value: Option<&str>| (name.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()));
        let wanted = |number| vec![pair("to", Some("x")), pair("to", None), pair("number", Some(number))];
        assert_eq!((given[0].key.as_deref(), &given[0].value, &given[0].headers), (Some(&b"a"[..]), &None, &wanted("1")));
        assert_eq!((&given[1].key, given[1].value.as_deref()), (&None, Some(&b""[..])));
        assert_eq!(given[1].headers, [pair("number", Some("1"))]);
        assert_eq!(given[2].headers, wanted("2"));
    }
}
