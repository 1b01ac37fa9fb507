//! Durations ("200ms") and sizes ("64KiB") as the job file writes them, both ways.

use std::time::Duration;

const DURATION_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// How to write a duration, for messages.
pub const DURATION_HINT: &str = "a duration is a whole number and one of ms, s, m, h, d, as in \"200ms\" or \"2m\"";

/// How to write a size, for messages.
pub const SIZE_HINT: &str = "a size is a whole number and one of B, KiB, MiB, GiB, as in \"64KiB\"";

/// Reads a duration; none if it isn't one.
pub fn parse_duration(text: &str) -> Option<Duration> {
    parse(text, DURATION_UNITS).map(Duration::from_millis)
}

/// Reads a size in bytes; none if it isn't one.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, SIZE_UNITS)
}

/// Writes a duration in the largest unit that loses nothing below a millisecond.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), DURATION_UNITS)
}

/// Writes a duration in minutes and seconds, rounded down: nobody compares milliseconds of minutes.
pub fn show_minutes(time: Duration) -> String {
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, 0) => show_duration(time),
        (0, seconds) => format!("{seconds}s"),
        (minutes, 0) => show_duration(Duration::from_secs(minutes * 60)),
        (minutes, seconds) => format!("{minutes}m {seconds}s"),
    }
}

/// Writes a size in the largest unit that loses nothing.
pub fn show_size(bytes: u64) -> String {
    show(bytes, SIZE_UNITS)
}

/// Writes so many of something.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Writes a time, in ms since the Unix epoch, as a date of UTC.
pub fn show_utc(ms: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(ms) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
        None => "in no year of the calendar".to_owned(),
    }
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// `units` ascends from a unit of 1. Days are read, and shown as hours: people compare hours.
fn show(amount: u64, units: &[(&str, u64)]) -> String {
    if amount == 0 {
        // Zero is zero in every unit; seconds and bytes read best.
        return if units[0].0 == "ms" { "0s".to_owned() } else { "0B".to_owned() };
    }
    let (unit, factor) = units
        .iter()
        .filter(|(unit, factor)| *unit != "d" && amount.is_multiple_of(*factor))
        .max_by_key(|(_, factor)| *factor)
        .expect("everything is a multiple of the first unit, 1");
    // Up to two minutes seconds are what people wrote.
    if *unit == "m" && amount / factor == 1 {
        return format!("{}s", amount / 1_000);
    }
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_exactly_or_not_at_all() {
        for (text, want) in [
            ("1s", Some(1_000)),
            ("200ms", Some(200)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("10 s", Some(10_000)),
            ("0s", Some(0)),
            ("1", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1.5s", None),
            ("1sec", None),
            ("1S", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(parse_duration(text), want.map(Duration::from_millis), "{text}");
        }
        for (text, want) in [
            ("64KiB", Some(65_536)),
            ("256MiB", Some(268_435_456)),
            ("1GiB", Some(1 << 30)),
            ("7B", Some(7)),
            ("1KB", None),
            ("64", None),
        ] {
            assert_eq!(parse_size(text), want, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for (ms, want) in
            [(0, "0s"), (1, "1ms"), (1_500, "1500ms"), (60_000, "60s"), (120_000, "2m"), (3_600_000, "1h"), (86_400_000, "24h")]
        {
            let shown = show_duration(Duration::from_millis(ms));
            assert_eq!(shown, want);
            assert_eq!(parse_duration(&shown), Some(Duration::from_millis(ms)));
        }
        for (bytes, want) in [(0, "0B"), (1, "1B"), (1_025, "1025B"), (65_536, "64KiB"), (1 << 30, "1GiB")] {
            assert_eq!(show_size(bytes), want);
            assert_eq!(parse_size(want), Some(bytes));
        }
    }

    #[test]
    fn times_are_dates() {
        for (ms, want) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (-1, "1969-12-31 23:59:59.999 UTC"),
            (1_709_251_199_004, "2024-02-29 23:59:59.004 UTC"),
            (i64::MAX - 1, "in no year of the calendar"),
        ] {
            assert_eq!(show_utc(ms), want);
        }
    }
}
