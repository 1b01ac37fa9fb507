//! Running balance of each account: every order comes out as it came in, with the account's balance after it.
//!
//! Input: JSON objects with `account` and a whole `amount`, in cents, keyed by account. Output: the same key, and the same
//! object with `balance` as its last member, with the order's headers.

use serde::Deserialize;
use std::borrow::Cow;
use weir_sdk::prelude::*;

#[derive(Default)]
struct RunningBalance;

/// What the balance needs of an order; its other members pass through.
#[derive(Deserialize)]
struct Order<'a> {
    #[serde(borrow)]
    account: Cow<'a, str>,
    amount: i64,
}

impl KeyedOperator for RunningBalance {
    const INFO: Info = weir_sdk::info!();
    type State = Value<i64>;
    const STATES: &'static [StateName] = &[StateName::new("balance")];

    fn process(&mut self, record: Record<'_>, balance: &mut Value<i64>, out: &mut Output) -> Result<(), Error> {
        let order: Order<'_> =
            serde_json::from_slice(record.value()).map_err(|why| Error::bad_record(format!("no order: {why}")))?;
        if order.account.as_bytes() != record.key() {
            let key = String::from_utf8_lossy(record.key());
            return Err(Error::bad_record(format!("the order of account '{}' has the key '{key}'", order.account)));
        }
        let after = balance.or_default();
        *after = after
            .checked_add(order.amount)
            .ok_or_else(|| Error::bad_record(format!("{after} + {} is no balance of 64 bits", order.amount)))?;
        // A JSON object ends with its brace, and with blanks at most.
        let open = record.value().trim_ascii_end().strip_suffix(b"}").expect("an order is a JSON object");
        out.forward_with(record, |value| {
            value.push(open);
            value.push(b",\"balance\":");
            value.push_int(*after);
            value.push_byte(b'}');
        });
        Ok(())
    }
}

weir_sdk::export_operator!(RunningBalance);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{Harness, HarnessError};

    fn order(id: u32, account: &str, amount: i64) -> String {
        format!(r#"{{"id":{id},"account":"{account}","amount":{amount}}}"#)
    }

    #[test]
    fn each_order_gives_the_balance_of_its_account() {
        let orders = [("a", order(1, "a", 100), 1), ("b", order(2, "b", -5), 1), ("a", order(3, "a", -250), 1)];
        for size in [1, 3] {
            let mut harness = Harness::open(RunningBalance, "{}").unwrap();
            harness.send_in_batches(0, &orders, size).unwrap();
            let values: Vec<_> = harness.take_main().iter().map(|record| record.text().to_owned()).collect();
            assert_eq!(
                values,
                [
                    r#"{"id":1,"account":"a","amount":100,"balance":100}"#,
                    r#"{"id":2,"account":"b","amount":-5,"balance":-5}"#,
                    r#"{"id":3,"account":"a","amount":-250,"balance":-150}"#
                ]
            );
        }
    }

    #[test]
    fn what_is_no_order_is_named_and_changes_nothing() {
        let mut harness = Harness::open(RunningBalance, "{}").unwrap();
        let bad = [
            ("a", order(1, "a", 7), 1),
            ("a", "{\"account\":\"a\"}".to_owned(), 1),
            ("a", "[]".to_owned(), 1),
            ("b", order(2, "a", 7), 1),
            ("a", order(3, "a", i64::MAX), 1),
        ];
        let Err(HarnessError::BadRecords(bad)) = harness.send(0, &bad) else { panic!("four are bad") };
        assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(bad[0].reason.contains("amount") && bad[2].reason.contains("key 'b'"), "{bad:?}");
        assert_eq!((harness.take_main().len(), harness.state().get(0, b"a")), (0, None));
        harness.send(0, &[("a", " {\"amount\": 1, \"account\": \"a\"} \n".to_owned(), 1)]).unwrap();
        assert_eq!(harness.take_main()[0].text(), r#" {"amount": 1, "account": "a","balance":1}"#);
    }

    #[test]
    fn an_order_keeps_its_headers() {
        let mut headers = HeaderList::new();
        headers.add("trace", Some("7"));
        let value = order(1, "a", 5);
        let record = RecordParts { key: Some(b"a"), value: Some(value.as_bytes()), time: 1, headers: headers.headers() };
        let mut harness = Harness::open(RunningBalance, "{}").unwrap();
        harness.send_parts(0, &[record]).unwrap();
        assert_eq!(harness.take_main_parts()[0].headers, [(b"trace".to_vec(), Some(b"7".to_vec()))]);
    }
}
