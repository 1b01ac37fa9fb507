//! A running job as the user sees it: on a terminal one live line per stage and one for the checkpoint, otherwise a log
//! line every ten seconds.

use crate::job::{CheckpointProgress, JobEvent, Progress, StageProgress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::Duration;
use weir_protocol::CheckpointId;

/// Time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

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
            JobEvent::Started { generation, from: Some(checkpoint) } => {
                tracing::info!("generation {generation} resumes from checkpoint {checkpoint}");
            }
            JobEvent::Started { generation, from: None } => tracing::info!("generation {generation} starts at the beginning"),
            JobEvent::CheckpointCompleted(checkpoint) => tracing::debug!("{} completed", checkpoint_text(&checkpoint)),
            JobEvent::CheckpointAborted { checkpoint, reason } => tracing::warn!("checkpoint {checkpoint} was aborted: {reason}"),
            JobEvent::Committed { checkpoint } => tracing::debug!("committed up to checkpoint {checkpoint}"),
            JobEvent::Restarting { failures, attempts, delay, why } => {
                let (place, next) = (&why.place, &why.next);
                tracing::warn!("failure {failures} of at most {attempts}: {place}: {}; {next}", why.why);
                tracing::warn!("restarting from the last completed checkpoint in {delay:?}");
            }
            JobEvent::Suspending => tracing::info!("taking the final checkpoint"),
            JobEvent::Notice(text) => tracing::warn!("{text}"),
            JobEvent::Progress(progress) => self.show(progress),
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
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line.clone());
        }
    }
}

/// One line a stage, in columns, and one for the checkpoint.
fn live_lines(before: Option<&Progress>, now: &Progress, colours: bool) -> Vec<String> {
    let width = now.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = now
        .stages
        .iter()
        .enumerate()
        .map(|(index, stage)| {
            let rate = rate(before, now, index);
            let name = paint(&format!("{:width$}", stage.name), "1", colours);
            let backlog = size(stage.backlog_bytes);
            format!("{name} ×{:<3} {:>10}/s  backlog {backlog:>9}  {}", stage.subtasks, count(rate), shares(stage, colours))
        })
        .collect();
    lines.push(checkpoint_line(now.checkpoint.as_ref(), now.committed));
    lines
}

/// Everything in one line, with mean rates since the run began.
fn log_line(now: &Progress) -> String {
    let seconds = now.elapsed.as_secs_f64().max(0.001);
    let stages: Vec<String> = now
        .stages
        .iter()
        .map(|stage| {
            let mean = stage_records(stage) as f64 / seconds;
            let (records, backlog) = (stage_records(stage), size(stage.backlog_bytes));
            format!("{}: {records} records, {}/s, backlog {backlog}, {}", stage.name, count(mean), shares(stage, false))
        })
        .collect();
    format!("{} | {}", stages.join(" | "), checkpoint_line(now.checkpoint.as_ref(), now.committed))
}

/// A source takes nothing in but what it reads; every stage's figure is what its root took in.
fn stage_records(stage: &StageProgress) -> u64 {
    stage.records_in
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

fn shares(stage: &StageProgress, colours: bool) -> String {
    let percent = |share: f32| (share.clamp(0.0, 1.0) * 100.0).round() as u32;
    let (busy, blocked) = (percent(stage.busy), percent(stage.backpressured));
    let blocked_text = format!("backpressured {blocked:>3} %");
    // What is backpressured is not the culprit, but shows where to look: downstream.
    let blocked_text = if blocked >= 50 { paint(&blocked_text, "33", colours) } else { blocked_text };
    format!("busy {busy:>3} %  {blocked_text}")
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
        }
    }

    #[test]
    fn live_lines_stand_in_columns_and_rates_are_those_of_the_last_interval() {
        let (before, now) = (progress(1_000, 1_000), progress(1_500, 26_000));
        assert_eq!(
            live_lines(Some(&before), &now, false),
            [
                "in → parse ×2       50.0 k/s  backlog   1.5 KiB  busy  25 %  backpressured  75 %",
                "stats      ×2       25.0 k/s  backlog   1.5 KiB  busy  25 %  backpressured  75 %",
                "checkpoint 3-17 in 12 ms, 3.0 MiB new of 1.0 GiB; committed up to 3-16",
            ]
        );
        let coloured = live_lines(Some(&before), &now, true);
        assert!(coloured[0].starts_with("\u{1b}[1min → parse\u{1b}[0m"), "{}", coloured[0]);
        assert!(coloured[0].contains("\u{1b}[33mbackpressured  75 %\u{1b}[0m"), "{}", coloured[0]);
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
            "in → parse: 5 records, 0.5/s, backlog 1.5 KiB, busy  25 %  backpressured  75 % | \
             stats: 2 records, 0.2/s, backlog 1.5 KiB, busy  25 %  backpressured  75 % | \
             checkpoint 3-17 in 12 ms, 3.0 MiB new of 1.0 GiB; committed up to 3-16"
        );
        assert_eq!(checkpoint_line(None, None), "no checkpoint yet; nothing committed yet");
    }

    #[test]
    fn figures_are_short() {
        for (value, want) in [(0.0, "0.0"), (9.94, "9.9"), (10.0, "10"), (9_999.0, "9999"), (123_456.0, "123.5 k"), (12_345_678.0, "12.3 M")] {
            assert_eq!(count(value), want);
        }
        for (bytes, want) in [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")] {
            assert_eq!(size(bytes), want);
        }
    }
}
