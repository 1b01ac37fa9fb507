//! Orders to try the orders job with: record i of connector `sequence` becomes order i of account `a<key>`.

use weir_sdk::prelude::*;

#[derive(Default)]
struct MakeOrders;

impl Operator for MakeOrders {
    const INFO: Info = weir_sdk::info!();

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let key = record.key().try_into().map_err(|_| Error::bad_record("the key is not a number of 8 bytes"))?;
        let (id, number) = (record.time(), u64::from_le_bytes(key));
        // Between -500 and 1,500: accounts grow.
        let amount = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 2001;
        let amount = amount as i64 - 500;
        let account = format!("a{number}");
        out.emit_with(&account, record.time(), |value| {
            value.push(b"{\"id\":");
            value.push_int(id);
            value.push(b",\"account\":\"");
            value.push(account.as_bytes());
            value.push(b"\",\"amount\":");
            value.push_int(amount);
            value.push_byte(b'}');
        });
        Ok(())
    }
}

weir_sdk::export_operator!(MakeOrders);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::Harness;

    #[test]
    fn a_record_becomes_an_order() {
        let mut harness = Harness::open(MakeOrders, "{}").unwrap();
        harness.send(0, &[(&3u64.to_le_bytes()[..], "x", 17), (&3u64.to_le_bytes()[..], "x", 0)]).unwrap();
        let made = harness.take_main();
        assert_eq!((made[0].key.as_slice(), made[0].time), (&b"a3"[..], 17));
        let Some(amount) = made[0].text().strip_prefix(r#"{"id":17,"account":"a3","amount":"#) else {
            panic!("{}", made[0].text())
        };
        let amount: i64 = amount.strip_suffix('}').unwrap().parse().unwrap();
        assert!((-500..=1500).contains(&amount), "{amount}");
        assert_eq!(made[1].text(), r#"{"id":0,"account":"a3","amount":-500}"#);
    }

    #[test]
    fn a_record_with_another_key_is_bad() {
        let mut harness = Harness::open(MakeOrders, "{}").unwrap();
        assert!(harness.send(0, &[("a", "x", 1)]).is_err());
    }
}
