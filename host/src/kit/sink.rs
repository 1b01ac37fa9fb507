//! The checks of a sink.

use super::limits::{Case, cases, judge};
use super::operator::opening;
use super::report::{Report, Verdict};
use super::sink_crashes::{self, Lab};
use super::sink_rig::rig;
use super::{Subject, Wish};
use crate::connectors::conformance::CASES;
use crate::graph::Problem;
use weir_plugin::{CallErrorKind, TaskSetup};

/// Configs that no sink expects.
const STRANGE_CONFIGS: [&str; 4] = ["null", "[]", "{\"weir-test-no-such-setting\":1}", "\"text\""];

/// Makes all checks.
pub(super) fn check(wish: &Wish, subject: &Subject, report: &mut Report, say: &mut dyn FnMut(&str)) -> Result<(), Problem> {
    say("lifecycle");
    if !lifecycle(wish, subject, report)? {
        return Ok(());
    }
    say("two-phase commit");
    for case in CASES {
        let rig = rig(subject, &wish.folders)?;
        report.tell("two-phase commit", case.name, (case.run)(&rig).map(|()| String::new()));
    }
    say("crashes");
    for (name, run) in sink_crashes::CASES {
        let mut lab = Lab::new(subject, &wish.folders)?;
        report.tell("crashes", *name, run(&mut lab));
    }
    say("orders");
    let mut lab = Lab::new(subject, &wish.folders)?;
    let name = "every order of commit, status, abort and a crash, of four steps";
    report.tell("orders", name, sink_crashes::every_order(&mut lab));
    say("limits");
    for Case { name, records } in cases() {
        let mut lab = Lab::new(subject, &wish.folders)?;
        let written = lab.writer().and_then(|mut writer| {
            writer.begin(&lab.next_id()).map_err(|error| error.to_string())?;
            let outcome = judge(writer.write(&records))?;
            if outcome == "processed" {
                judge(writer.prepare("1-1", false))?;
            }
            Ok(outcome.to_owned())
        });
        report.tell("limits", name, written);
    }
    Ok(())
}

/// False: nothing can be written, so that there is no more to be seen.
fn lifecycle(wish: &Wish, subject: &Subject, report: &mut Report) -> Result<bool, Problem> {
    let group = "lifecycle";
    let mut lab = Lab::new(subject, &wish.folders)?;
    let opened = lab.open().map_err(|error| opening(&error, &lab.setup.config));
    let is_open = opened.is_ok();
    report.tell(group, "writer and committer open, and close", opened.map(|()| "describe, open, close".to_owned()));
    let strange = STRANGE_CONFIGS.iter().find_map(|config| {
        let setup = TaskSetup { config: (*config).to_owned(), ..lab.setup.clone() };
        match weir_plugin::SinkWriterInstance::new(&subject.plugin, &setup).map_err(|error| error.kind) {
            Err(kind @ (CallErrorKind::Trap { .. } | CallErrorKind::Limit(_) | CallErrorKind::Malformed(_))) => {
                Some(format!("open with the config {config} {kind}"))
            }
            Ok(_) | Err(_) => None,
        }
    });
    let tried = format!("{} configs tried", STRANGE_CONFIGS.len());
    report.tell(group, "a config that it does not know is taken or refused, no trap", strange.map_or(Ok(tried), Err));
    if !is_open {
        return Ok(false);
    }
    let name = "a transaction is written and prepared";
    match lab.prepared(&["first"]) {
        Ok(what) => {
            report.add(group, name, Verdict::Holds(format!("a committable of {} bytes", what.bytes.len())));
            Ok(true)
        }
        Err(why) => {
            let hint = match why.contains("is granted;") {
                true => " (--folder NAME grants one for the test)",
                false => "",
            };
            report.add(group, name, Verdict::Fails(format!("{why}{hint}")));
            Ok(false)
        }
    }
}
