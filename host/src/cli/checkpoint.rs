//! `weir checkpoint list | show | fsck | gc`: what is stored of a job.

use super::args::{Common, JobArgs, ShowArgs};
use super::exit::Exit;
use super::main::{data_folder, load, refuse};
use super::output::Output;
use super::progress::size;
use crate::blocking;
use crate::clock;
use crate::graph::Problem;
use crate::graph::units::show_utc;
use crate::store::fsck::FsckReport;
use crate::store::gc::Removed;
use crate::store::inspect::{self, CheckpointDetail, CheckpointList, CheckpointState, SubtaskDetail};
use crate::store::lock::DataLock;
use crate::store::manifest::SwapManifest;
use crate::store::{CheckpointStore, LogStore, References, claim_for_maintenance};
use serde::Serialize;
use serde_json::json;
use std::future::Future;
use std::path::PathBuf;
use weir_protocol::watermark::{FINAL_WATERMARK, NO_WATERMARK};

/// Lists the completed checkpoints.
pub(super) fn list(args: &JobArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let list = match open(args).and_then(|stored| wait(inspect::list_checkpoints(&stored.log, clock::wall_ms()))) {
        Ok(list) => list,
        Err(problem) => return refuse(&[problem], common, output),
    };
    give(&list, render_list(&list), common, output);
    Exit::Success
}

/// Shows one checkpoint.
pub(super) fn show(args: &ShowArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let shown = open(&args.job()).and_then(|stored| wait(inspect::show_checkpoint(&stored.log, args.id, clock::wall_ms())));
    let detail = match shown {
        Ok(detail) => detail,
        Err(problem) => return refuse(&[problem], common, output),
    };
    give(&detail, render_detail(&detail), common, output);
    Exit::Success
}

/// Checks that what checkpoints need is stored and whole; exit 4 if some can't be restored.
pub(super) fn fsck(args: &JobArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let report = match open(args).and_then(|stored| wait(crate::store::fsck::fsck(&stored.log, true))) {
        Ok(report) => report,
        Err(problem) => return refuse(&[problem], common, output),
    };
    give(&report, render_fsck(&report), common, output);
    if report.is_whole() { Exit::Success } else { Exit::CannotRestore }
}

/// Deletes what no checkpoint needs. Claims the job first, so that a process that still runs elsewhere is fenced.
pub(super) fn gc(args: &JobArgs, common: &Common, output: &mut Output<'_>) -> Exit {
    let removed = match collect(args) {
        Ok(removed) => removed,
        Err(problem) => return refuse(&[problem], common, output),
    };
    let document = json!({
        "files": removed.files,
        "plugins": removed.plugins,
        "temporaries": removed.temporaries,
        "held_back": removed.held_back,
        "left": removed.leftovers.iter().map(|left| json!({ "name": left.name, "why": left.error.to_string() })).collect::<Vec<_>>(),
    });
    give(&document, render_removed(&removed), common, output);
    if removed.leftovers.is_empty() && removed.held_back.is_none() { Exit::Success } else { Exit::Failed }
}

/// A job's storage.
struct Stored {
    log: LogStore,
    data: PathBuf,
}

fn open(args: &JobArgs) -> Result<Stored, Problem> {
    let first = |problems: Vec<Problem>| problems.into_iter().next().expect("a refusal has a problem");
    let graph = load(args).map_err(first)?;
    let data = data_folder(args, &graph).map_err(first)?;
    let folder = graph.checkpoint.folder(&data);
    let store = CheckpointStore::open(&folder.to_string_lossy()).map_err(|error| {
        Problem::new(format!("job '{}'", graph.name), error.to_string(), "has the job been run, with this --data folder?")
    })?;
    Ok(Stored { log: LogStore::new(store, &graph.name), data })
}

/// Waits for a question to the storage.
fn wait<T, E: std::fmt::Display>(question: impl Future<Output = Result<T, E>>) -> Result<T, Problem> {
    blocking::wait(question)?.map_err(|error| Problem::new("checkpoint storage", error.to_string(), ""))
}

fn collect(args: &JobArgs) -> Result<Removed, Problem> {
    let stored = open(args)?;
    let _lock = DataLock::acquire(&stored.data, &format!("{} (weir checkpoint gc)", stored.log.job()))
        .map_err(|error| Problem::new("data folder", error.to_string(), ""))?;
    let list = wait(inspect::list_checkpoints(&stored.log, clock::wall_ms()))?;
    if list.claim.is_none() {
        return Err(Problem::new(format!("job '{}'", list.job), "it was never started: there is nothing to collect", ""));
    }
    let claimed = wait(claim_for_maintenance(stored.log))?;
    let (log, generation) = (&claimed.log, claimed.claim.generation);
    wait(crate::store::gc::collect_garbage(log.store(), generation, log.claim_slot(), &References::default()))
}

pub(super) fn give(document: &impl Serialize, lines: Vec<String>, common: &Common, output: &mut Output<'_>) {
    if common.json {
        output.json(&serde_json::to_value(document).expect("the answers are plain data with text keys"));
    } else {
        lines.into_iter().for_each(|line| output.result(line));
    }
}

fn render_list(list: &CheckpointList) -> Vec<String> {
    let mut lines = vec![format!("job '{}', stored in {}", list.job, list.place)];
    if list.checkpoints.is_empty() {
        lines.push("no completed checkpoint".to_owned());
    } else {
        lines.push(format!("{:<10} {:>12} {:>11} {:>11} {:>6} {:>13}", "ID", "AGE", "STATE", "NEW", "FILES", "TRANSACTIONS"));
    }
    for row in list.checkpoints.iter().rev() {
        let mut marks = Vec::new();
        if row.state == CheckpointState::Newest {
            marks.push("newest");
        }
        if row.last {
            marks.push("final");
        }
        let (age, state, new) = (age(row.age_ms), size(row.bytes), size(row.new_bytes));
        let line = format!(
            "{:<10} {age:>12} {state:>11} {new:>11} {:>6} {:>13}  {}",
            row.id,
            row.files,
            row.committables,
            marks.join(", ")
        );
        lines.push(line.trim_end().to_owned());
    }
    match (&list.finished, &list.claim) {
        (Some(id), _) => lines.push(format!("the job has finished, with checkpoint {id}")),
        (None, Some(claim)) => {
            lines.push(format!("last started as generation {} of lineage {}", claim.generation, claim.lineage))
        }
        (None, None) => lines.push("the job was never started".to_owned()),
    }
    lines.extend(list.unreadable.iter().map(|entry| format!("unreadable: {}", entry.why)));
    lines
}

fn render_detail(detail: &CheckpointDetail) -> Vec<String> {
    let row = &detail.row;
    let mut lines = vec![
        format!("checkpoint {}{}", row.id, if row.last { ", the final one" } else { "" }),
        format!("  lineage      {}", detail.lineage),
        format!("  published    {} ago", age(row.age_ms)),
        format!("  state        {} in {} files, {} of it new", size(row.bytes), row.files, size(row.new_bytes)),
        format!("  key groups   {} by {}", detail.key_groups, detail.key_hash),
    ];
    for source in &detail.sources {
        lines.push(format!("source '{}'{}", source.name, if source.ended { ", ended" } else { "" }));
        for split in &source.splits {
            let watermark = source.watermarks.as_ref().and_then(|all| all.splits.get(&split.split));
            let watermark = watermark.map_or_else(String::new, |watermark| format!(", watermark {}", event_time(*watermark)));
            let ended = if split.ended { ", ended" } else { "" };
            lines.push(format!("  {} at {}{ended}{watermark}", split.split, split.position));
        }
        if let Some(watermarks) = &source.watermarks {
            lines.push(format!("  watermark given out by each reader: {}", by_subtask(watermarks.readers.iter().copied())));
        }
    }
    for operator in &detail.operators {
        let states: Vec<&str> = operator.states.iter().map(|state| state.name.as_str()).collect();
        lines.push(format!("operator '{}' ×{}, plugin {}", operator.name, operator.parallelism, operator.plugin));
        lines.extend(operator.swap.iter().flat_map(other_builds));
        if !states.is_empty() {
            let (bytes, backend) = (size(operator.bytes), &operator.backend);
            lines.push(format!("  state {} in {backend}: {bytes} in {} files", states.join(", "), operator.files));
        }
        let of = |what: fn(&SubtaskDetail) -> Option<i64>| operator.subtasks.iter().map(what);
        if of(|subtask| subtask.watermark).any(|watermark| watermark.is_some()) {
            lines.push(format!("  watermark of each subtask: {}", by_subtask(of(|subtask| subtask.watermark))));
        }
        if of(|subtask| subtask.output_watermark).any(|watermark| watermark.is_some()) {
            lines.push(format!("  watermark given out by each subtask: {}", by_subtask(of(|subtask| subtask.output_watermark))));
        }
    }
    for sink in &detail.sinks {
        lines.push(format!("sink '{}' ({}), {} transactions", sink.name, sink.connector, sink.committables.len()));
        for transaction in &sink.committables {
            lines.push(format!("  {} prepared at {}", transaction.id, transaction.checkpoint));
            for (source, split, first, last) in &transaction.sources {
                lines.push(format!("    records of '{source}', {split}, positions {first} to {last}"));
            }
        }
    }
    lines
}

/// What is known of builds that do not run.
fn other_builds(swap: &SwapManifest) -> Vec<String> {
    let mut lines = vec![format!("  the job file named {}", swap.file)];
    let probation = swap.probation.iter();
    lines.extend(probation.map(|own| format!("  on probation for {} more checkpoints; before it ran {}", own.left, own.old)));
    lines.extend(swap.refused.iter().map(|build| format!("  failed on probation: {build}")));
    lines
}

/// Watermarks of the subtasks, in their order.
fn by_subtask(watermarks: impl Iterator<Item = Option<i64>>) -> String {
    let shown = watermarks.map(|watermark| watermark.map_or_else(|| "none yet".to_owned(), event_time));
    shown.collect::<Vec<_>>().join(", ")
}

/// An event time as stored, and as a date.
fn event_time(ms: i64) -> String {
    match ms {
        NO_WATERMARK => "none yet".to_owned(),
        FINAL_WATERMARK => "at its end".to_owned(),
        ms => format!("{ms} ms ({})", show_utc(ms)),
    }
}

fn render_fsck(report: &FsckReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{} checkpoints, {} files of {} stored, {} referred to; every byte was read",
        report.checkpoints.len(),
        report.stored_files,
        size(report.stored_bytes),
        report.referenced_files
    )];
    lines.extend(report.unreadable.iter().map(|entry| format!("unreadable: {}", entry.why)));
    lines.extend(
        report
            .damaged
            .iter()
            .map(|damage| format!("damaged: {}: {}; needed by {}", damage.file, damage.why, damage.checkpoints.join(", "))),
    );
    lines.extend(report.orphans.iter().map(|file| format!("not referred to: {file}")));
    lines.extend(report.foreign.iter().map(|file| format!("not ours, left alone: {file}")));
    if report.temporaries > 0 {
        lines.push(format!("{} unpublished temporary files", report.temporaries));
    }
    lines.push(
        match (report.is_whole(), report.is_exact()) {
            (true, true) => "whole, and nothing but what checkpoints need is stored",
            (true, false) => "whole; 'weir checkpoint gc' removes what nobody needs",
            (false, _) => "NOT whole: the checkpoints named above can't be restored",
        }
        .to_owned(),
    );
    lines
}

fn render_removed(removed: &Removed) -> Vec<String> {
    if let Some(reason) = &removed.held_back {
        return vec![format!("nothing was removed: {reason}")];
    }
    let (files, plugins, temporaries) = (removed.files.len(), removed.plugins.len(), removed.temporaries);
    let mut lines = vec![format!("removed {files} state files, {plugins} plugins, {temporaries} temporary files")];
    lines.extend(removed.leftovers.iter().map(|left| format!("could not remove {}: {}", left.name, left.error)));
    lines
}

/// An age in its two largest units.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::{FINAL_WATERMARK, NO_WATERMARK, age, event_time};

    #[test]
    fn event_times_have_a_date() {
        assert_eq!(event_time(1), "1 ms (1970-01-01 00:00:00.001 UTC)");
        assert_eq!((event_time(NO_WATERMARK), event_time(FINAL_WATERMARK)), ("none yet".to_owned(), "at its end".to_owned()));
    }

    #[test]
    fn ages_have_two_units() {
        for (ms, want) in
            [(0, "0.0 s"), (12_345, "12.3 s"), (61_000, "1 min 1 s"), (3_661_000, "1 h 1 min"), (90_000_000, "1 d 1 h")]
        {
            assert_eq!(age(ms), want);
        }
    }
}
