//! Records for operators whose author gives none: of many forms, since nobody knows which one is understood.

use super::input::Sample;

/// How many.
const RECORDS: u64 = 3_000;

/// Records of one port in a row, so that batches can be large.
const RUN: u64 = 500;

/// Different keys.
const KEYS: u64 = 40;

const WORDS: [&str; 12] =
    ["to", "be", "or", "not", "weir", "river", "carrier", "delay", "Zürich", "JFK", "order", "a rather long word, with a comma"];

/// The same seed draws the same records. Ports take turns.
pub(super) fn samples(seed: u64, ports: u32) -> Vec<Sample> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..RECORDS)
        .map(|i| {
            let value = value(&mut random);
            let headers = if random.u8(..) < 16 { vec![("trace".to_owned(), Some(format!("{i:x}")))] } else { Vec::new() };
            Sample {
                port: (i / RUN % u64::from(ports)) as u32,
                key: Some(format!("k{}", random.u64(..KEYS)).into_bytes()),
                value: Some(value.into_bytes()),
                // Out of order by up to five seconds.
                time: 1_700_000_000_000 + i as i64 * 100 + random.i64(0..5_000),
                headers,
            }
        })
        .collect()
}

/// Half of them are words: most operators of a first hour take any text.
fn value(random: &mut fastrand::Rng) -> String {
    let word = |random: &mut fastrand::Rng| WORDS[random.usize(..WORDS.len())];
    match random.u8(..10) {
        0..5 => (0..random.usize(1..6)).map(|_| word(random)).collect::<Vec<_>>().join(" "),
        5..7 => random.i64(-1_000..1_000).to_string(),
        7 => format!("{:.3}", random.f64() * 1_000.0),
        8 => {
            let (name, amount) = (word(random), random.i64(-500..1_500));
            serde_json::json!({ "id": random.u32(..), "name": name, "amount": amount }).to_string()
        }
        _ => format!("{},{},{}", random.u16(..), word(random).replace(',', ""), random.i16(..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_records() {
        assert_eq!(samples(7, 2), samples(7, 2));
        assert_ne!(samples(7, 1), samples(8, 1));
        let keys: std::collections::BTreeSet<_> = samples(1, 1).into_iter().map(|sample| sample.key).collect();
        assert_eq!(keys.len() as u64, KEYS);
    }
}
