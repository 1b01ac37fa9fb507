//! The checks of an operator.

use super::input::Input;
use super::report::{Report, Verdict};
use super::trace::{Plan, Trace, run};
use super::{Subject, Wish, limits};
use crate::graph::Problem;
use crate::graph::units::counted;
use weir_plugin::{CallError, CallErrorKind, Grants, OperatorInstance, PluginKind, Surroundings};

/// How far another clock is ahead: years, so that no rounding hides it.
const AHEAD_NS: u64 = 1_234_567_890_123_456_789;
/// Begin of another random sequence.
const OTHER_SEED: u64 = 0x5eed_5eed;

/// Configs that no operator expects.
const STRANGE_CONFIGS: [&str; 4] = ["null", "[]", "{\"weir-test-no-such-setting\":1}", "\"text\""];

pub(super) fn has_timers(subject: &Subject) -> bool {
    matches!(subject.plugin.kind(), PluginKind::Operator { timers: true, .. })
}

pub(super) fn wants_end(subject: &Subject) -> bool {
    matches!(subject.plugin.kind(), PluginKind::Operator { end_of_input: true, .. })
}

/// Makes all checks.
pub(super) fn check(wish: &Wish, subject: &Subject, report: &mut Report, say: &mut dyn FnMut(&str)) -> Result<(), Problem> {
    let described = subject.plugin.operator().expect("the kind was looked at");
    let input = Input::of(wish.input.as_deref(), wish.seed, described)?;
    say("lifecycle");
    if !lifecycle(subject, report) {
        return Ok(());
    }
    say("records");
    let Some(base) = records(subject, &input, report) else {
        limits::check(subject, &input, &[], report, say);
        return Ok(());
    };
    let compare = Compare { subject, input: &input, base: &base };
    say("replay");
    replay(&compare, wish, report)?;
    say("batch size");
    for batch in [1, 7] {
        let outcome = compare.with(Plan { batch, ..Plan::LARGE }, [&in_batches(1_000), &in_batches(batch)]);
        report.tell("batch size", format!("{} give the same as batches of 1,000", in_batches(batch)), outcome);
    }
    say("state");
    state(&compare, report);
    side_outputs(&compare, report);
    timers(&compare, report);
    end_of_input(&compare, report);
    limits::check(subject, &input, &base.refused.keys().copied().collect::<Vec<_>>(), report, say);
    Ok(())
}

fn in_batches(of: usize) -> String {
    match of {
        1 => "records one by one".to_owned(),
        1_000 => "in batches of 1,000".to_owned(),
        of => format!("batches of {of}"),
    }
}

/// False: it does not open, so that there is no more to be seen.
fn lifecycle(subject: &Subject, report: &mut Report) -> bool {
    let opened = subject.alone().and_then(|(setup, _folders)| {
        let opened = OperatorInstance::new(&subject.plugin, &setup).and_then(OperatorInstance::close);
        opened.map(|()| "describe, open, close".to_owned()).map_err(|error| opening(&error, &subject.setup.config))
    });
    let is_open = opened.is_ok();
    report.tell("lifecycle", "it opens, and closes without a record", opened);
    let strange = STRANGE_CONFIGS.iter().find_map(|config| {
        let (setup, _folders) = subject.alone().ok()?;
        let setup = weir_plugin::TaskSetup { config: (*config).to_owned(), ..setup };
        match OperatorInstance::new(&subject.plugin, &setup).map_err(|error| error.kind) {
            Err(kind @ (CallErrorKind::Trap { .. } | CallErrorKind::Limit(_) | CallErrorKind::Malformed(_))) => {
                Some(format!("open with the config {config} {kind}"))
            }
            Ok(_) | Err(_) => None,
        }
    });
    let tried = format!("{} tried", counted(STRANGE_CONFIGS.len() as u64, "config", "configs"));
    report.tell("lifecycle", "a config that it does not know is taken or refused, no trap", strange.map_or(Ok(tried), Err));
    is_open
}

/// Why it does not open; most likely its author knows what it needs.
pub(super) fn opening(error: &CallError, config: &str) -> String {
    match error.kind {
        CallErrorKind::Fatal(_) if config == "{}" => format!("{error}; --config gives it one"),
        _ => error.to_string(),
    }
}

/// The run that all others are compared with; none: there is nothing to compare.
fn records(subject: &Subject, input: &Input, report: &mut Report) -> Option<Trace> {
    let (group, name) = ("records", "it processes records");
    let trace = match run(subject, input, Plan::LARGE) {
        Ok(trace) => trace,
        Err(why) => {
            report.add(group, name, Verdict::Fails(format!("{}: {why}", input.what)));
            return None;
        }
    };
    let (all, refused) = (input.len(), trace.refused.len());
    let first = trace.refused.iter().next().map(|(at, why)| (input.samples().nth(*at), why));
    let first = first.map(|(sample, why)| format!("{}: {why}", sample.map(|sample| sample.show()).unwrap_or_default()));
    let first = first.unwrap_or_default();
    if trace.traps > 0 {
        let why = format!("{} made it trap; the first that was left out is {first}", counted(trace.traps, "record", "records"));
        report.add(group, name, Verdict::Fails(format!("{why}. Refuse a bad record with an error instead")));
        return None;
    }
    if refused == all {
        let why = match input.is_given {
            true => format!("all {all} records were refused, the first ({first})"),
            false => format!(
                "all generated records were refused, the first ({first}): give --input FILE with records that it understands"
            ),
        };
        report.add(group, name, Verdict::Fails(why));
        return None;
    }
    let given: Vec<String> = trace.counts().iter().map(usize::to_string).collect();
    let mut done =
        format!("{}, {} out, {} of state", input.what, given.join(" + "), counted(trace.cells() as u64, "cell", "cells"));
    if refused > 0 {
        done.push_str(&format!("; {refused} refused, the first ({first})"));
    }
    report.add(group, name, Verdict::Holds(done));
    Some(trace)
}

/// Other ways of a run, compared with the first.
struct Compare<'a> {
    subject: &'a Subject,
    input: &'a Input,
    base: &'a Trace,
}

impl Compare<'_> {
    /// `ways`: what the first run was, and what this one is.
    fn with(&self, plan: Plan, ways: [&str; 2]) -> Result<String, String> {
        self.on(self.subject, plan, ways)
    }

    fn on(&self, subject: &Subject, plan: Plan, ways: [&str; 2]) -> Result<String, String> {
        let other = run(subject, self.input, plan)?;
        let sides = &self.subject.plugin.operator().expect("the kind was looked at").side_outputs;
        match self.base.difference(&other, sides, ways) {
            Some(difference) => Err(difference),
            None if other.instances > 1 => Ok(counted(other.instances as u64, "instance", "instances")),
            None => Ok(String::new()),
        }
    }
}

fn replay(compare: &Compare<'_>, wish: &Wish, report: &mut Report) -> Result<(), Problem> {
    let again = compare.with(Plan::LARGE, ["at first", "the second time"]);
    report.tell("replay", "the same records again give the same output and state", again);
    for (name, interfaces, what, surroundings) in [
        (
            "no hidden clock: output and state do not depend on the time of day",
            &["wasi:clocks/"][..],
            "imports no clock",
            Surroundings { clock_ahead_ns: AHEAD_NS, ..Surroundings::default() },
        ),
        (
            "no hidden random: output and state do not depend on random bytes",
            &["wasi:random/"][..],
            "imports no random bytes",
            Surroundings { random_seed: OTHER_SEED, ..Surroundings::default() },
        ),
    ] {
        let imports =
            |prefix: &&str| compare.subject.plugin.wasi(&Grants::default()).iter().any(|(import, _)| import.starts_with(*prefix));
        if !interfaces.iter().any(imports) {
            report.add("replay", name, Verdict::Holds(what.to_owned()));
            continue;
        }
        let other = Subject::load(wish, surroundings)?;
        let outcome = compare.on(&other, Plan::LARGE, ["with what a job gives", "with another one"]);
        report.tell("replay", name, outcome);
    }
    Ok(())
}

fn state(compare: &Compare<'_>, report: &mut Report) {
    let plan = Plan { batch: 13, restart_every: Some(5), ..Plan::LARGE };
    let outcome = compare.with(plan, ["undisturbed", "with fresh instances that got the stored state"]);
    let name = "state lives with the host: nothing that counts is kept in a global or a field";
    report.tell("state", name, outcome);
}

fn side_outputs(compare: &Compare<'_>, report: &mut Report) {
    let sides = &compare.subject.plugin.operator().expect("the kind was looked at").side_outputs;
    if sides.is_empty() {
        return;
    }
    let counts = compare.base.counts();
    let told: Vec<String> = sides.iter().zip(&counts[1..]).map(|(name, count)| format!("{name} {count}")).collect();
    report.add("side outputs", "only declared ones are used", Verdict::Holds(told.join(", ")));
}

fn timers(compare: &Compare<'_>, report: &mut Report) {
    if !has_timers(compare.subject) {
        return;
    }
    let group = "timers";
    let fired = compare.base.fired;
    if fired == 0 {
        let why = "no record set a timer that fired: give --input FILE with records that do";
        report.add(group, "timers fire", Verdict::LeftOut(why.to_owned()));
        return;
    }
    report.add(group, "timers fire", Verdict::Holds(format!("{fired} fired, by time and then by key")));
    let one = compare.with(Plan { timers: 1, ..Plan::LARGE }, ["fired together", "fired one by one"]);
    report.tell(group, "timers one by one give the same as many at once", one);
    let plan = Plan { batch: 100, restart_every: Some(1), ..Plan::LARGE };
    let restored = compare.with(plan, ["undisturbed", "with timers restored in a fresh instance"]);
    report.tell(group, "restored timers fire as the first ones would", restored);
}

fn end_of_input(compare: &Compare<'_>, report: &mut Report) {
    if !wants_end(compare.subject) {
        return;
    }
    for keys in [1, 7] {
        let way = format!("{keys} at a time");
        let outcome = compare.with(Plan { keys, ..Plan::LARGE }, ["1,000 keys at a time", &way]);
        report.tell("end of input", format!("keys {way} give the same as 1,000"), outcome);
    }
}
