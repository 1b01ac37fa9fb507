//! A running job as the user sees it: on a terminal one live line per stage and one for the checkpoint, otherwise a log
//! line every ten seconds.

use super::checkpoint::age;
use crate::job::{CheckpointProgress, EventTimeProgress, JobEvent, OutsideWait, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::Duration;
use tracing::Level;
use weir_protocol::CheckpointId;

/// Time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Columns of a stage's name at most.
const NAME_WIDTH: usize = 30;

/// Columns of a line at most.
const LINE_WIDTH: usize = 80;

/// How figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    /// Live lines on a terminal.
    Live {
        /// With colours.
        colours: bool,
    },
    /// Log lines.
    Log,
    /// Not at all (`-q`).
    Silent,
}

/// Hears a job's events and shows them.
pub(super) struct Reporter {
    display: Display,
    live: MultiProgress,
    lines: Vec<ProgressBar>,
    last: Option<Progress>,
    logged: Duration,
}

impl Reporter {
    /// A reporter that has heard nothing yet.
    pub fn new(display: Display, live: MultiProgress) -> Self {
        Reporter { display, live, lines: Vec::new(), last: None, logged: Duration::ZERO }
    }

    /// The last figures.
    pub fn last(&self) -> Option<&Progress> {
        self.last.as_ref()
    }

    /// Takes the live lines away: what follows is the result.
    pub fn finish(&mut self) {
        for line in self.lines.drain(..) {
            line.finish_and_clear();
        }
        // A terminal that is gone needs no tidying.
        let _ = self.live.clear();
    }

    /// Shows one event.
    pub fn hear(&mut self, event: JobEvent) {
        match event {
            JobEvent::Progress(progress) => self.show(progress),
            event => log(&event, ""),
        }
    }

    fn show(&mut self, progress: Progress) {
        match self.display {
            Display::Live { colours } => {
                let lines = live_lines(self.last.as_ref(), &progress, colours);
                self.draw(&lines);
                self.last = Some(progress);
            }
            Display::Log => {
                if progress.elapsed >= self.logged + LOG_INTERVAL {
                    tracing::info!("{}", log_line(&progress));
                    self.logged = progress.elapsed;
                }
                self.last = Some(progress);
            }
            Display::Silent => self.last = Some(progress),
        }
    }

    fn draw(&mut self, lines: &[String]) {
        while self.lines.len() < lines.len() {
            let style = ProgressStyle::with_template("{wide_msg}").expect("the template is a constant without errors");
            self.lines.push(self.live.add(ProgressBar::new_spinner().with_style(style)));
        }
        // A line of a wait goes when it is over.
        let lines = lines.iter().map(String::as_str).chain(std::iter::repeat(""));
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line.to_owned());
        }
    }
}

/// Writes into the log what an event says, each line after `prefix`. Figures say nothing there.
pub(super) fn log(event: &JobEvent, prefix: &str) {
    for (level, line) in told(event) {
        match level {
            Level::WARN => tracing::warn!("{prefix}{line}"),
            Level::INFO => tracing::info!("{prefix}{line}"),
            _ => tracing::debug!("{prefix}{line}"),
        }
    }
}

/// What an event says, in lines, and how loudly; nothing of figures.
pub(super) fn told(event: &JobEvent) -> Vec<(Level, String)> {
    let (level, line) = match event {
        JobEvent::Started { generation, from: Some(checkpoint) } => {
            (Level::INFO, format!("generation {generation} resumes from checkpoint {checkpoint}"))
        }
        JobEvent::Started { generation, from: None } => (Level::INFO, format!("generation {generation} starts at the beginning")),
        JobEvent::CheckpointCompleted(checkpoint) => (Level::DEBUG, format!("{} completed", checkpoint_text(checkpoint))),
        JobEvent::CheckpointAborted { checkpoint, reason } => {
            (Level::WARN, format!("checkpoint {checkpoint} was aborted: {reason}"))
        }
        JobEvent::Committed { checkpoint } => (Level::DEBUG, format!("committed up to checkpoint {checkpoint}")),
        JobEvent::Restarting { failures, attempts, delay, why } => {
            let (place, next) = (&why.place, &why.next);
            return vec![
                (Level::WARN, format!("failure {failures} of at most {attempts}: {place}: {}; {next}", why.why)),
                (Level::WARN, format!("restarting from the last completed checkpoint in {:.1} s", delay.as_secs_f64())),
            ];
        }
        JobEvent::Suspending => (Level::INFO, "taking the final checkpoint".to_owned()),
        JobEvent::Notice(text) => (Level::WARN, text.clone()),
        JobEvent::Progress(_) => return Vec::new(),
    };
    vec![(level, line)]
}

/// A header, one line a stage, and one for the checkpoint. Eighty columns hold them.
fn live_lines(before: Option<&Progress>, now: &Progress, colours: bool) -> Vec<String> {
    let names: Vec<String> = now.stages.iter().map(|stage| shortened(&stage.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let header = format!("{:width$} {:>5} {:>9} {:>10} {:>6} {:>14}", "", "", "records/s", "backlog", "busy", "backpressured");
    let mut lines = vec![paint(&header, "2", colours)];
    for (index, (stage, name)) in now.stages.iter().zip(&names).enumerate() {
        let (rate, backlog) = (count(rate(before, now, index)), size(stage.backlog_bytes));
        let subtasks = format!("×{}", stage.subtasks);
        let blocked = format!("{:>12} %", percent(stage.backpressured));
        // What is backpressured is not the culprit, but shows where to look: downstream.
        let blocked = if percent(stage.backpressured) >= 50 { paint(&blocked, "33", colours) } else { blocked };
        let name = paint(&format!("{name:width$}"), "1", colours);
        lines.push(format!("{name} {subtasks:>5} {rate:>9} {backlog:>10} {:>4} % {blocked}", percent(stage.busy)));
    }
    lines.extend(event_time_line(now).map(|line| cut(&line, LINE_WIDTH)));
    lines.push(checkpoint_line(now.checkpoint.as_ref(), now.committed));
    lines.extend(now.waits.iter().map(|wait| paint(&wait_line(wait), "33", colours)));
    lines
}

fn wait_line(wait: &OutsideWait) -> String {
    format!("sink {} waits: {} for {} s", wait.sink, wait.what, wait.time.as_secs())
}

/// How far event time is behind in sources and operators; none if the job has no watermarks.
fn event_time_line(now: &Progress) -> Option<String> {
    let nodes = now.stages.iter().flat_map(|stage| &stage.nodes).filter(|node| !node.is_sink);
    let told: Vec<String> = nodes.filter_map(|node| Some(format!("{} {}", node.name, behind(&node.event_time?)))).collect();
    (!told.is_empty()).then(|| format!("event time behind: {}", told.join(", ")))
}

fn behind(time: &EventTimeProgress) -> String {
    let lag = match (time.has_ended, time.lag_ms) {
        (true, _) => return "ended".to_owned(),
        (false, None) => "none yet".to_owned(),
        // It is ahead of the clock.
        (false, Some(lag)) if lag < 0 => format!("-{}", age(lag.unsigned_abs())),
        (false, Some(lag)) => age(lag.unsigned_abs()),
    };
    if time.is_idle { format!("{lag} (idle)") } else { lag }
}

/// A stage's name, cut in the middle of the chain: its ends tell most.
fn shortened(name: &str) -> String {
    let nodes: Vec<&str> = name.split(" → ").collect();
    match nodes[..] {
        [first, .., last] if name.chars().count() > NAME_WIDTH => cut(&format!("{first} → … → {last}"), NAME_WIDTH),
        _ => cut(name, NAME_WIDTH),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// Everything in one line, with mean rates since the run began.
fn log_line(now: &Progress) -> String {
    let seconds = now.elapsed.as_secs_f64().max(0.001);
    let stages: Vec<String> = now
        .stages
        .iter()
        .map(|stage| {
            let (records, mean, backlog) = (stage.records_in, stage.records_in as f64 / seconds, size(stage.backlog_bytes));
            let (busy, blocked) = (percent(stage.busy), percent(stage.backpressured));
            let name = &stage.name;
            format!("{name}: {records} records, {}/s, backlog {backlog}, busy {busy} %, backpressured {blocked} %", count(mean))
        })
        .collect();
    let parts = stages.into_iter().chain(event_time_line(now));
    let parts = parts.chain([checkpoint_line(now.checkpoint.as_ref(), now.committed)]);
    let parts: Vec<String> = parts.chain(now.waits.iter().map(wait_line)).collect();
    parts.join(" | ")
}

/// Records per second of a stage since the figures before; since the beginning if there are none or the stages changed.
fn rate(before: Option<&Progress>, now: &Progress, stage: usize) -> f64 {
    let records = now.stages[stage].records_in;
    let same = before.filter(|before| before.stages.get(stage).is_some_and(|old| old.name == now.stages[stage].name));
    let (old_records, old_elapsed) = same.map_or((0, Duration::ZERO), |before| (before.stages[stage].records_in, before.elapsed));
    let seconds = now.elapsed.saturating_sub(old_elapsed).as_secs_f64();
    // A restart counts anew, and two figures of one moment have no rate.
    if seconds <= 0.0 { 0.0 } else { records.saturating_sub(old_records) as f64 / seconds }
}

fn percent(share: f32) -> u32 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u32
}

fn checkpoint_line(checkpoint: Option<&CheckpointProgress>, committed: Option<CheckpointId>) -> String {
    let done = checkpoint.map_or_else(|| "no checkpoint yet".to_owned(), checkpoint_text);
    match committed {
        Some(id) => format!("{done}; committed up to {id}"),
        None => format!("{done}; nothing committed yet"),
    }
}

fn checkpoint_text(checkpoint: &CheckpointProgress) -> String {
    let (id, duration) = (checkpoint.checkpoint, checkpoint.duration.as_millis());
    format!("checkpoint {id} in {duration} ms, {} new of {}", size(checkpoint.uploaded_bytes), size(checkpoint.state_bytes))
}

fn paint(text: &str, code: &str, colours: bool) -> String {
    if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A count in at most four digits and a unit.
fn count(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.1}"),
        v if v < 10_000.0 => format!("{v:.0}"),
        v if v < 10_000_000.0 => format!("{:.1} k", v / 1e3),
        v => format!("{:.1} M", v / 1e6),
    }
}

/// Bytes in at most four digits and a unit.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{NodeProfile, StageProgress};
    use weir_protocol::Generation;

    fn stage(name: &str, records_in: u64) -> StageProgress {
        StageProgress {
            name: name.to_owned(),
            subtasks: 2,
            records_in,
            records_out: records_in,
            backlog_bytes: 1536,
            busy: 0.254,
            backpressured: 0.75,
            idle: 0.0,
            thread: Duration::ZERO,
            nodes: Vec::new(),
        }
    }

    fn progress(elapsed_ms: u64, records: u64) -> Progress {
        Progress {
            elapsed: Duration::from_millis(elapsed_ms),
            stages: vec![stage("in → parse", records), stage("stats", records / 2)],
            checkpoint: Some(CheckpointProgress {
                checkpoint: CheckpointId::new(Generation(3), 17),
                duration: Duration::from_millis(12),
                uploaded_bytes: 3 << 20,
                state_bytes: 1 << 30,
            }),
            committed: Some(CheckpointId::new(Generation(3), 16)),
            waits: Vec::new(),
        }
    }

    #[test]
    fn a_sink_that_waits_is_shown_until_it_goes_on() {
        let wait = OutsideWait {
            sink: "out".to_owned(),
            what: "the brokers take no records".to_owned(),
            time: Duration::from_millis(8_400),
        };
        let now = Progress { waits: vec![wait], ..progress(1_000, 1) };
        let lines = live_lines(None, &now, false);
        assert_eq!(lines.last().expect("there are some"), "sink out waits: the brokers take no records for 8 s");
        assert!(log_line(&now).ends_with("up to 3-16 | sink out waits: the brokers take no records for 8 s"));
    }

    #[test]
    fn live_lines_stand_in_columns_and_rates_are_those_of_the_last_interval() {
        let (before, now) = (progress(1_000, 1_000), progress(1_500, 26_000));
        assert_eq!(
            live_lines(Some(&before), &now, false),
            [
                "                 records/s    backlog   busy  backpressured",
                "in → parse    ×2    50.0 k    1.5 KiB   25 %           75 %",
                "stats         ×2    25.0 k    1.5 KiB   25 %           75 %",
                "checkpoint 3-17 in 12 ms, 3.0 MiB new of 1.0 GiB; committed up to 3-16",
            ]
        );
        let coloured = live_lines(Some(&before), &now, true);
        assert!(coloured[1].starts_with("\u{1b}[1min → parse\u{1b}[0m"), "{}", coloured[1]);
        assert!(coloured[1].ends_with("\u{1b}[33m          75 %\u{1b}[0m"), "{:?}", coloured[1]);
    }

    #[test]
    fn event_time_is_told_where_there_is_any() {
        let time = |watermark_ms: Option<i64>, lag_ms, is_idle, has_ended| EventTimeProgress {
            watermark_ms,
            lag_ms,
            is_idle,
            has_ended,
        };
        let node = |name: &str, event_time| NodeProfile {
            name: name.to_owned(),
            records: 0,
            is_sink: false,
            stages: Vec::new(),
            event_time,
        };
        let mut now = progress(1_000, 0);
        now.stages[0].nodes = vec![node("in", Some(time(Some(1), Some(3_210), true, false))), node("parse", None)];
        now.stages[1].nodes = vec![
            node("stats", Some(time(None, None, false, false))),
            node("late", Some(time(Some(2), Some(-1_500), false, false))),
            node("done", Some(time(None, None, false, true))),
        ];
        let line = "event time behind: in 3.2 s (idle), stats none yet, late -1.5 s, done ended";
        assert_eq!(event_time_line(&now).as_deref(), Some(line));
        assert!(log_line(&now).contains(line));
        assert_eq!(live_lines(None, &now, false)[3], line);
        now.stages[1].nodes[2].is_sink = true;
        assert_eq!(event_time_line(&now).as_deref(), line.strip_suffix(", done ended"));
        now.stages[1].nodes[2].is_sink = false;
        now.stages[1].nodes[1].name = "x".repeat(64);
        let live = live_lines(None, &now, false);
        assert_eq!((live.len(), live[3].chars().count()), (5, 80), "{live:?}");
    }

    #[test]
    fn eighty_columns_hold_a_long_chain() {
        for (name, want) in [
            ("flights → parse → rejected-out", "flights → parse → rejected-out"),
            ("flights → parse → enrich → rejected-out", "flights → … → rejected-out"),
            ("a-source-of-many-letters → a-sink-of-many-letters", "a-source-of-many-letters → … …"),
            (&"x".repeat(40), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"),
        ] {
            assert_eq!(shortened(name), want);
            let now = Progress { stages: vec![stage(name, 12_345_678)], ..progress(1_000, 0) };
            for line in live_lines(None, &now, false) {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn rates_survive_a_restart_and_a_second_figure_of_the_same_moment() {
        assert_eq!(rate(None, &progress(2_000, 1_000), 0), 500.0);
        assert_eq!(rate(Some(&progress(1_000, 5_000)), &progress(2_000, 1_000), 0), 0.0);
        assert_eq!(rate(Some(&progress(1_000, 5_000)), &progress(1_000, 6_000), 0), 0.0);
    }

    #[test]
    fn a_log_line_follows_every_ten_seconds() {
        let mut reporter = Reporter::new(Display::Log, MultiProgress::new());
        let mut logged = Vec::new();
        for second in 1..=31 {
            reporter.hear(JobEvent::Progress(progress(second * 1_000, second * 10)));
            logged.push(reporter.logged.as_secs());
        }
        logged.dedup();
        assert_eq!(logged, [0, 10, 20, 30]);
        assert_eq!(
            log_line(&progress(10_000, 5)),
            "in → parse: 5 records, 0.5/s, backlog 1.5 KiB, busy 25 %, backpressured 75 % | \
             stats: 2 records, 0.2/s, backlog 1.5 KiB, busy 25 %, backpressured 75 % | \
             checkpoint 3-17 in 12 ms, 3.0 MiB new of 1.0 GiB; committed up to 3-16"
        );
        assert_eq!(checkpoint_line(None, None), "no checkpoint yet; nothing committed yet");
    }

    #[test]
    fn figures_are_short() {
        for (value, want) in
            [(0.0, "0.0"), (9.94, "9.9"), (10.0, "10"), (9_999.0, "9999"), (123_456.0, "123.5 k"), (12_345_678.0, "12.3 M")]
        {
            assert_eq!(count(value), want);
        }
        for (bytes, want) in [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")] {
            assert_eq!(size(bytes), want);
        }
    }
}
