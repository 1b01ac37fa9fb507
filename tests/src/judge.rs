//! Judges of committed output, written from the data alone: whatever order the records took, each must be there exactly once.

use std::collections::BTreeMap;
use std::path::Path;

/// Every line of the committed files below a folder; dot files and dot folders are staging and are not read.
///
/// # Errors
/// A file whose last record is cut off.
pub fn lines(folder: &Path) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(all) };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            all.extend(lines(&path)?);
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(format!("{}: the last record is cut off", path.display()));
        }
        all.extend(text.lines().map(str::to_owned));
    }
    Ok(all)
}

/// How often each line stands there.
pub fn counted(lines: impl IntoIterator<Item = String>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line).or_insert(0) += 1;
    }
    counts
}

/// Compares two multisets of lines.
///
/// # Errors
/// How many are lost and too many, with examples.
pub fn same(what: &str, expected: &BTreeMap<String, i64>, got: &BTreeMap<String, i64>) -> Result<(), String> {
    let differences = |a: &BTreeMap<String, i64>, b: &BTreeMap<String, i64>| -> (i64, Vec<String>) {
        let rows = a.iter().map(|(line, n)| (line, n - b.get(line).copied().unwrap_or(0))).filter(|(_, n)| *n > 0);
        let rows: Vec<_> = rows.collect();
        (rows.iter().map(|(_, n)| n).sum(), rows.iter().take(3).map(|(line, _)| (*line).clone()).collect())
    };
    let (lost, lost_rows) = differences(expected, got);
    let (extra, extra_rows) = differences(got, expected);
    if lost + extra == 0 {
        return Ok(());
    }
    Err(format!("{what}: {lost} lost (as {lost_rows:?}), {extra} repeated or wrong (as {extra_rows:?})"))
}

/// Judges the flights job: for each (carrier, origin) the running counts are exactly 1 … n, each once, and the last sum and
/// maximum are the input's; rejected flights are there byte for byte.
///
/// `flights`: lines without the header.
pub fn flights(flights: &[String], stats: &Path, rejected: &Path) -> Result<(), String> {
    #[derive(Default)]
    struct Key {
        count: i64,
        sum: i64,
        max: i64,
    }
    let mut keys: BTreeMap<(String, String), Key> = BTreeMap::new();
    let mut without_delay = Vec::new();
    for line in flights {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[5] == "NA" {
            without_delay.push(line.clone());
            continue;
        }
        let delay = fields[5].parse::<f64>().map_err(|error| format!("{line}: {error}"))? as i64;
        let key = keys.entry((fields[9].to_owned(), fields[12].to_owned())).or_default();
        key.max = if key.count == 0 { delay } else { key.max.max(delay) };
        key.count += 1;
        key.sum += delay;
    }
    let mut seen: BTreeMap<(String, String), BTreeMap<i64, (i64, i64, i64)>> = BTreeMap::new();
    for line in lines(stats)? {
        let fields: Vec<&str> = line.split(',').collect();
        let [carrier, origin, count, sum, max] = fields[..] else { return Err(format!("stats: '{line}' has not five fields")) };
        let number = |text: &str| text.parse::<i64>().map_err(|error| format!("stats: {line}: {error}"));
        let (count, sum, max) = (number(count)?, number(sum)?, number(max)?);
        let key = seen.entry((carrier.to_owned(), origin.to_owned())).or_default();
        key.entry(count).or_insert((0, sum, max)).0 += 1;
    }
    let mut faults = Vec::new();
    for (key, expected) in &keys {
        let got = seen.remove(key).unwrap_or_default();
        let lost = (1..=expected.count).filter(|count| !got.contains_key(count)).count();
        let repeated = got.values().filter(|(times, _, _)| *times > 1).count();
        let beyond = got.keys().filter(|count| !(1..=expected.count).contains(*count)).count();
        let last = got.get(&expected.count).map(|(_, sum, max)| (*sum, *max));
        if lost + repeated + beyond > 0 || last != Some((expected.sum, expected.max)) {
            faults.push(format!("{key:?}: of {} {lost} lost, {repeated} repeated, {beyond} beyond the input", expected.count));
        }
    }
    faults.extend(seen.keys().map(|key| format!("{key:?} is not in the input")));
    if !faults.is_empty() {
        return Err(format!("stats: {} keys differ: {}", faults.len(), faults[..faults.len().min(5)].join("; ")));
    }
    same("rejected", &counted(without_delay), &counted(lines(rejected)?))
}

/// Judges the join: every flight with its weather's `temp,wind_speed`, or among the unmatched.
///
/// Both inputs: lines without the header.
pub fn join(flights: &[String], weather: &[String], matched: &Path, unmatched: &Path) -> Result<(), String> {
    let mut at = BTreeMap::new();
    for line in weather {
        let fields: Vec<&str> = line.split(',').collect();
        at.insert((fields[0].to_owned(), fields[14].to_owned()), format!("{},{}", fields[5], fields[9]));
    }
    let (mut want, mut alone) = (Vec::new(), Vec::new());
    for line in flights {
        let fields: Vec<&str> = line.split(',').collect();
        match at.get(&(fields[12].to_owned(), fields[18].to_owned())) {
            Some(weather) => want.push(format!("{line},{weather}")),
            None => alone.push(line.clone()),
        }
    }
    same("matched", &counted(want), &counted(lines(matched)?))?;
    same("unmatched", &counted(alone), &counted(lines(unmatched)?))
}
