//! `weir txn list | commit | abort`: transactions that have no end yet, whose they are, and how they get one.

use super::args::{Common, JobArgs, TxnAbortArgs};
use super::checkpoint::{age, give};
use super::exit::Exit;
use super::main::{data_folder, load, refuse};
use super::output::Output;
use crate::graph::Problem;
use crate::job::Runtime;
use crate::transactions::{SinkTransactions, TransactionPlace, TransactionReport, TransactionRow, TransactionWish};

/// Lists them.
pub(super) fn list(args: &JobArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    answer(args, &TransactionWish::List, common, runtime, output)
}

/// Commits what the newest checkpoint holds.
pub(super) fn commit(args: &JobArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    answer(args, &TransactionWish::Commit, common, runtime, output)
}

/// Aborts some, or all that no checkpoint holds.
pub(super) fn abort(args: &TxnAbortArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    let wish = TransactionWish::Abort { names: args.names.clone(), lose_output: args.lose_output };
    answer(&args.job(), &wish, common, runtime, output)
}

fn answer(args: &JobArgs, wish: &TransactionWish, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    let report = match place(args).and_then(|place| runtime.transactions(&place, wish)) {
        Ok(report) => report,
        Err(problems) => return refuse(&problems, common, output),
    };
    give(&report, render(&report), common, output);
    match wish {
        // Who lets output be lost knows it.
        TransactionWish::Abort { .. } if !report.has_failed() => Exit::Success,
        _ if report.has_lost() => Exit::CommitLost,
        _ if report.has_failed() => Exit::Failed,
        TransactionWish::List | TransactionWish::Commit | TransactionWish::Abort { .. } => Exit::Success,
    }
}

/// Where the job's checkpoints lie. A folder in the job file's place is the data folder of a job whose file is gone.
fn place(args: &JobArgs) -> Result<TransactionPlace, Vec<Problem>> {
    if args.job.is_dir() {
        if args.data.is_some() {
            let what = "it is a data folder, and --data names another one";
            return Err(vec![Problem::new(args.job.display().to_string(), what, "leave one of them out")]);
        }
        let data = std::path::absolute(&args.job)
            .map_err(|error| vec![Problem::new(args.job.display().to_string(), error.to_string(), "")])?;
        return Ok(TransactionPlace { job: None, storage: data.join("checkpoints"), data, sinks: Vec::new() });
    }
    let graph = load(args)?;
    let data = data_folder(args, &graph)?;
    let storage = graph.checkpoint.folder(&data);
    Ok(TransactionPlace { job: Some(graph.name), storage, data, sinks: graph.sinks })
}

fn render(report: &TransactionReport) -> Vec<String> {
    let checkpoint = report.checkpoint.as_deref().unwrap_or("none");
    let mut lines = vec![format!("job '{}', newest checkpoint {checkpoint}", report.job)];
    if let Some(running) = &report.running {
        lines.push(format!("it seems to run: {running} has its data folder"));
    }
    for sink in &report.sinks {
        lines.push(format!("sink '{}' ({})", sink.sink, sink.connector));
        lines.extend(rows(sink).into_iter().map(|line| format!("  {line}")));
    }
    if report.sinks.is_empty() {
        lines.push("none of its sinks has transactions".to_owned());
    }
    lines
}

fn rows(sink: &SinkTransactions) -> Vec<String> {
    let mut lines = Vec::new();
    if !sink.transactions.is_empty() {
        let width = sink.transactions.iter().map(|row| row.name.len()).max().unwrap_or(0);
        lines.push(format!("{:width$}  {:13}  {:>12}  {:>12}  WRITTEN TO", "ID", "STATE", "AGE", "ENDS IN"));
        lines.extend(sink.transactions.iter().flat_map(|row| one(row, width)));
    }
    lines.extend(sink.aborted.iter().map(|name| format!("aborted {name}")));
    if sink.committed > 0 {
        lines.push(format!("{} of the newest checkpoint are committed", sink.committed));
    }
    if let Some(failure) = &sink.failure {
        lines.push(format!("error: {failure}"));
    } else if sink.transactions.is_empty() {
        let idle = match sink.idle {
            Some(idle) if idle > 0 => format!(", {idle} idle names"),
            _ => String::new(),
        };
        lines.push(format!("nothing dangling{idle}"));
    }
    lines
}

fn one(row: &TransactionRow, width: usize) -> Vec<String> {
    let time = |ms: Option<u64>| ms.map_or("-".to_owned(), age);
    let (age, left) = (time(row.age_ms), time(row.left_ms));
    let line = format!("{:width$}  {:13}  {age:>12}  {left:>12}  {}", row.name, row.state, row.places.join(" "));
    let mut lines = vec![line.trim_end().to_owned(), format!("  {}", row.end)];
    for (source, split, first, last) in &row.sources {
        lines.push(format!("  records of '{source}', {split}, positions {first} to {last}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::Standing;

    #[test]
    fn a_report_tells_whose_each_transaction_is() {
        let row = TransactionRow {
            name: "weir-orders-out-3-0-1".into(),
            standing: Standing::InCheckpoint,
            state: "Ongoing".into(),
            age_ms: Some(12_300),
            left_ms: Some(61_000),
            places: vec!["balances/0,2".into()],
            sources: vec![("orders".into(), "orders/0".into(), 5, 9)],
            end: "checkpoint 3-17 holds it".into(),
        };
        let sink = |transactions| SinkTransactions {
            sink: "out".into(),
            connector: "kafka".into(),
            transactions,
            committed: 2,
            idle: Some(4),
            ..SinkTransactions::default()
        };
        let report = |rows| TransactionReport {
            job: "orders".into(),
            checkpoint: Some("3-17".into()),
            running: None,
            sinks: vec![sink(rows)],
        };
        let lines = render(&report(vec![row]));
        assert_eq!(
            lines,
            [
                "job 'orders', newest checkpoint 3-17",
                "sink 'out' (kafka)",
                "  ID                     STATE                   AGE       ENDS IN  WRITTEN TO",
                "  weir-orders-out-3-0-1  Ongoing              12.3 s     1 min 1 s  balances/0,2",
                "    checkpoint 3-17 holds it",
                "    records of 'orders', orders/0, positions 5 to 9",
                "  2 of the newest checkpoint are committed",
            ]
        );
        let lines = render(&report(Vec::new()));
        assert_eq!(lines[2..], ["  2 of the newest checkpoint are committed", "  nothing dangling, 4 idle names"]);
    }
}
