//! Records at the limits of the contract: an operator may refuse them, but not trap, hang or grow.

use super::Subject;
use super::input::{Input, Sample};
use super::report::Report;
use crate::graph::units::{counted, show_size};
use weir_plugin::batch::RecordBatch;
use weir_plugin::state::KeyedStateBackend;
use weir_plugin::testing::MemoryState;
use weir_plugin::{CallError, CallErrorKind, LimitKind, OperatorInstance};

/// Bytes of a huge value: above what a batch weighs, and far below the memory of an instance.
pub(super) const HUGE: usize = 4 << 20;

/// Records of the author's that are cut short.
const CUT: usize = 100;

/// Records in a row for one instance, and of each batch.
const MANY: usize = 100_000;
const BATCH: usize = 1_000;

/// What an instance may grow in the second half of them without being looked at longer; before that it may grow as it likes.
const GROWTH: usize = 1 << 20;

/// The longer look: so many times as many records again. Who grows with each of these times keeps something of every record; a
/// collector of garbage comes to rest.
const LOOKS: usize = 4;
/// 60 bytes of each record: the host replaces an instance that comes near its limit, and Python's tool never frees some forty.
const GROWTH_PER_LOOK: usize = 6 << 20;

/// One case: records that are sent in one batch.
pub(super) struct Case {
    pub name: &'static str,
    pub records: RecordBatch,
}

/// What any plugin must stand.
pub(super) fn cases() -> Vec<Case> {
    let one = |key: Option<&[u8]>, value: Option<&[u8]>, time: i64| {
        let mut batch = RecordBatch::new();
        batch.push_nullable(key, value, time);
        batch
    };
    let mut times = one(Some(b"k"), Some(b"v"), i64::MIN);
    times.push(b"k", b"v", i64::MAX);
    times.push(b"k", b"v", -1);
    let mut headers = one(Some(b"k"), Some(b"v"), 1);
    headers.push_header(b"", None);
    headers.push_header(&[0xff], Some(&[0; 300]));
    let mut odd = RecordBatch::new();
    for text in [
        "{",
        "{}",
        "[[[[",
        "\"",
        "\\",
        ",,,,,,",
        "-",
        "1e999",
        "-9223372036854775809",
        "18446744073709551616",
        "NaN",
        "\0",
        "\n",
        "ÿ",
        " ",
    ] {
        odd.push(b"k", text.as_bytes(), 1);
    }
    vec![
        Case { name: "a batch without records", records: RecordBatch::new() },
        Case { name: "an empty key and an empty value", records: one(Some(b""), Some(b""), 1) },
        Case { name: "a null key and a null value", records: one(None, None, 1) },
        Case { name: "a key that is no UTF-8", records: one(Some(b"\xff\xfe"), Some(b"v"), 1) },
        Case { name: "a value that is no UTF-8", records: one(Some(b"k"), Some(b"to be \xc3\x28 or"), 1) },
        Case { name: "a value of 4 MiB", records: one(Some(b"k"), Some(&vec![b'x'; HUGE]), 1) },
        Case { name: "a key of 64 KiB", records: one(Some(&vec![b'k'; 64 << 10]), Some(b"v"), 1) },
        Case { name: "event times at the ends of their range", records: times },
        Case { name: "headers without name, without value, that are no text", records: headers },
        Case { name: "texts that break parsers", records: odd },
    ]
}

/// What a call at a limit came to. An error of the plugin's own is an answer.
pub(super) fn judge<T>(called: Result<T, CallError>) -> Result<&'static str, String> {
    match called {
        Ok(_) => Ok("processed"),
        Err(error) => match &error.kind {
            CallErrorKind::BadInput(_) => Ok("refused as a bad record"),
            CallErrorKind::Retry(_) | CallErrorKind::Fatal(_) => Ok("refused with an error"),
            CallErrorKind::Limit(breach) if breach.which == LimitKind::Call => Err(format!("it hangs: {error}")),
            CallErrorKind::Limit(breach) if breach.which == LimitKind::Memory => Err(format!("it blows up: {error}")),
            CallErrorKind::Trap { .. }
            | CallErrorKind::Limit(_)
            | CallErrorKind::Malformed(_)
            | CallErrorKind::State(_)
            | CallErrorKind::Environment { .. } => Err(error.to_string()),
        },
    }
}

/// `refused`: places of the records that it is known to refuse.
pub(super) fn check(subject: &Subject, input: &Input, refused: &[usize], report: &mut Report, say: &mut dyn FnMut(&str)) {
    say("limits");
    for Case { name, records } in cases() {
        report.tell("limits", name, one(subject, &records).map(str::to_owned));
    }
    if input.is_given {
        report.tell("limits", "its own records, cut short", cut_short(subject, input));
    }
    let samples: Vec<&Sample> =
        input.samples().enumerate().filter(|(at, _)| refused.binary_search(at).is_err()).map(|(_, sample)| sample).collect();
    if refused.len() < input.len() {
        report.tell("limits", "an instance does not grow with its records", growth(subject, &samples));
    }
}

fn one(subject: &Subject, records: &RecordBatch) -> Result<&'static str, String> {
    let (setup, _folders) = subject.alone()?;
    let mut operator = OperatorInstance::new(&subject.plugin, &setup).map_err(|error| error.to_string())?;
    let mut state = MemoryState::new();
    let is_keyed = subject.plugin.operator().is_some_and(|operator| operator.is_keyed());
    judge(operator.process(0, records, is_keyed.then_some(&mut state as &mut dyn KeyedStateBackend)))
}

/// Halves of the author's records: what a parser of theirs meets at worst.
fn cut_short(subject: &Subject, input: &Input) -> Result<String, String> {
    let mut tried = 0;
    for sample in input.samples().take(CUT) {
        let value = sample.value.as_deref().unwrap_or_default();
        for length in [value.len() / 3, value.len() / 2, value.len().saturating_sub(1)] {
            let mut batch = RecordBatch::new();
            Sample { value: Some(value[..length].to_vec()), ..sample.clone() }.push_to(&mut batch);
            one(subject, &batch).map_err(|why| format!("{} bytes of ({}): {why}", length, sample.show()))?;
            tried += 1;
        }
    }
    Ok(format!("{} tried", counted(tried, "record", "records")))
}

/// Records in a row through one instance. State is emptied between batches, so that only what the instance keeps can grow.
fn growth(subject: &Subject, samples: &[&Sample]) -> Result<String, String> {
    let (setup, _folders) = subject.alone()?;
    let mut operator = OperatorInstance::new(&subject.plugin, &setup).map_err(|error| error.to_string())?;
    let mut round = samples.iter().copied().cycle().peekable();
    let half = send(&mut operator, &mut round, MANY / 2)?;
    let mut held = vec![send(&mut operator, &mut round, MANY / 2)?];
    if held[0].saturating_sub(half) >= GROWTH {
        for _ in 0..LOOKS {
            held.push(send(&mut operator, &mut round, MANY)?);
        }
    }
    let size = |bytes: usize| show_size(bytes as u64);
    let always_grows = held.windows(2).all(|pair| pair[1].saturating_sub(pair[0]) >= GROWTH_PER_LOOK);
    match held[..] {
        [first, .., last] if always_grows => {
            let (before, after) = (MANY, MANY * held.len());
            Err(format!("its memory grows and grows: {} after {before} records, {} after {after}", size(first), size(last)))
        }
        _ => Ok(format!("{} records, {} at the end", MANY * held.len(), size(held[held.len() - 1]))),
    }
}

/// Sends so many records, in batches of one port each; gives the bytes of memory that the instance then holds.
fn send<'a>(
    operator: &mut OperatorInstance,
    round: &mut std::iter::Peekable<impl Iterator<Item = &'a Sample>>,
    records: usize,
) -> Result<usize, String> {
    let is_keyed = operator.plugin().operator().is_some_and(|operator| operator.is_keyed());
    let mut sent = 0;
    while sent < records {
        let port = round.peek().expect("a cycle over some records").port;
        let mut batch = RecordBatch::new();
        while batch.len() < BATCH
            && let Some(next) = round.next_if(|next| next.port == port)
        {
            next.push_to(&mut batch);
        }
        sent += batch.len();
        let mut state = MemoryState::new();
        let called = operator.process(port, &batch, is_keyed.then_some(&mut state as &mut dyn KeyedStateBackend));
        judge(called).map_err(|why| format!("after some {sent} records: {why}"))?;
    }
    Ok(operator.memory_bytes())
}
