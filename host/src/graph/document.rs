//! Reads the TOML of a job file with every problem collected, each with its line and column.
//!
//! A [`Section`] hands out typed values by key, remembers which keys it was asked for, and refuses the others at the end
//! with the nearest known one. It also keeps what each value was and, where the user left it out, why the default is what
//! it is, for `weir check`.

use super::environment::{self, Lookup};
use super::problem::Problem;
use super::units::{self, DURATION_HINT, SIZE_HINT};
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One value of the job, for `weir check`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// `[checkpoint]`, `[[operator]] parse`.
    pub section: String,
    /// Key, dotted inside inline tables.
    pub key: String,
    /// The value as TOML, `${NAME}` as it stands.
    pub value: String,
    /// Why it has this value, if the user left it out.
    pub default: Option<String>,
}

/// A job file being read: its text, and what was found so far.
pub(super) struct Document<'a> {
    file: String,
    text: &'a str,
    lookup: Lookup<'a>,
    problems: RefCell<Vec<(usize, Problem)>>,
    settings: RefCell<Vec<Setting>>,
}

/// A string of the file.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// With variables replaced: never for output.
    pub resolved: String,
    /// As the user wrote it.
    pub raw: String,
    /// Where.
    pub span: Range<usize>,
}

impl<'a> Document<'a> {
    /// A document without problems yet. `file`: as messages shall name it.
    pub fn new(file: String, text: &'a str, lookup: Lookup<'a>) -> Self {
        Document { file, text, lookup, problems: RefCell::default(), settings: RefCell::default() }
    }

    /// Parses the TOML; syntax errors become problems, and what could be read is handed out all the same.
    pub fn parse(&self) -> Spanned<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            self.problem(span, "", format!("this is not TOML: {}", error.message()), "");
        }
        table
    }

    /// Adds a problem. `title`: the section, empty for none.
    pub fn problem(&self, span: Range<usize>, title: &str, what: impl Into<String>, next: impl Into<String>) {
        let (line, column) = self.line_column(span.start);
        let place = match title {
            "" => format!("{}:{line}:{column}", self.file),
            title => format!("{}:{line}:{column}: {title}", self.file),
        };
        self.problems.borrow_mut().push((span.start, Problem::new(place, what, next)));
    }

    /// Whether something is wrong already.
    pub fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// All problems in the order of the file, or every setting in the order of reading.
    pub fn finish(self) -> Result<Vec<Setting>, Vec<Problem>> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok(self.settings.into_inner());
        }
        problems.sort_by_key(|(at, _)| *at);
        Err(problems.into_iter().map(|(_, problem)| problem).collect())
    }

    /// Line and column, both from 1, the column in characters.
    fn line_column(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// A string with its variables replaced; a problem and none if one is unset.
    pub fn resolve(&self, raw: &str, span: Range<usize>, title: &str) -> Option<Text> {
        match environment::replace(raw, self.lookup) {
            Ok(resolved) => Some(Text { resolved, raw: raw.to_owned(), span }),
            Err((what, next)) => {
                self.problem(span, title, what, next);
                None
            }
        }
    }
}

/// A table of the file, read key by key.
pub(super) struct Section<'d, 'a> {
    /// The document that it belongs to.
    pub document: &'d Document<'a>,
    /// For messages: `[checkpoint]`, `[[operator]] parse`.
    pub title: String,
    /// Where it begins.
    pub span: Range<usize>,
    /// For inline tables: `limits.`.
    prefix: String,
    table: &'d DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'d, 'a> Section<'d, 'a> {
    /// A section that was asked for nothing yet.
    pub fn new(document: &'d Document<'a>, title: impl Into<String>, span: Range<usize>, table: &'d DeTable<'a>) -> Self {
        Section { document, title: title.into(), span, prefix: String::new(), table, known: Vec::new() }
    }

    /// Adds a problem at `span`.
    pub fn problem(&self, span: Range<usize>, what: impl Into<String>, next: impl Into<String>) {
        self.document.problem(span, &self.title, what, next);
    }

    /// The value of a key, which is known from now on.
    pub fn get(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// A string with its variables replaced, without a word about what is wrong with it: the key is read again later.
    pub fn peek_text(&self, key: &str) -> Option<String> {
        match self.table.get(key)?.get_ref() {
            DeValue::String(raw) => environment::replace(raw, self.document.lookup).ok(),
            _ => None,
        }
    }

    /// Whether a key stands there, with whatever value.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where a key's value stands; where the section begins if it is left out.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or(self.span.clone(), Spanned::span)
    }

    /// Remembers a value for `weir check`.
    pub fn note(&self, key: &str, value: impl Into<String>, default: Option<&str>) {
        self.document.settings.borrow_mut().push(Setting {
            section: self.title.clone(),
            key: format!("{}{key}", self.prefix),
            value: value.into(),
            default: default.map(str::to_owned),
        });
    }

    /// Refuses a key of a later version if it stands there.
    pub fn later(&mut self, key: &'static str) {
        if let Some(value) = self.get(key) {
            self.problem(value.span(), format!("'{}{key}' is not in this version", self.prefix), "leave it out");
        }
    }

    /// A string, if it is there.
    pub fn text(&mut self, key: &'static str) -> Option<Text> {
        let value = self.get(key)?;
        let DeValue::String(raw) = value.get_ref() else {
            self.wrong_type(key, value, "a string");
            return None;
        };
        self.note(key, quote(raw), None);
        self.document.resolve(raw, value.span(), &self.title)
    }

    /// A string that must be there.
    pub fn required_text(&mut self, key: &'static str, next: &str) -> Option<Text> {
        if !self.has(key) {
            self.known.push(key);
            self.missing(key, next);
            return None;
        }
        self.text(key)
    }

    /// A key that must be there is not.
    pub fn missing(&self, key: &str, next: &str) {
        self.problem(self.span.clone(), format!("'{}{key}' is missing", self.prefix), next);
    }

    /// A duration.
    pub fn duration(&mut self, key: &'static str, default: Duration, why: &str) -> Duration {
        self.unit(key, units::parse_duration, DURATION_HINT).unwrap_or_else(|| {
            self.default(key, quote(&units::show_duration(default)), why);
            default
        })
    }

    /// A duration, if it is there.
    pub fn optional_duration(&mut self, key: &'static str) -> Option<Duration> {
        self.unit(key, units::parse_duration, DURATION_HINT)
    }

    /// A size in bytes.
    pub fn size(&mut self, key: &'static str, default: u64, why: &str) -> u64 {
        self.unit(key, units::parse_size, SIZE_HINT).unwrap_or_else(|| {
            self.default(key, quote(&units::show_size(default)), why);
            default
        })
    }

    fn unit<T>(&mut self, key: &'static str, parse: fn(&str) -> Option<T>, hint: &str) -> Option<T> {
        if let Some(value) = self.table.get(key)
            && !value.get_ref().is_str()
        {
            self.known.push(key);
            self.problem(value.span(), format!("'{}{key}' is {}, not a string", self.prefix, kind(value)), hint);
            return None;
        }
        let text = self.text(key)?;
        let parsed = parse(&text.resolved);
        if parsed.is_none() {
            self.problem(text.span, format!("'{}{key}' can't be {}", self.prefix, quote(&text.raw)), hint);
        }
        parsed
    }

    /// A whole number in a range.
    pub fn whole(&mut self, key: &'static str, range: RangeInclusive<u64>, default: u64, why: &str) -> u64 {
        self.optional_whole(key, range).unwrap_or_else(|| {
            self.default(key, default.to_string(), why);
            default
        })
    }

    /// A whole number in a range, if it is there. It may stand in a string, so that the environment can give it.
    pub fn optional_whole(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(key)?;
        let (shown, number) = match value.get_ref() {
            DeValue::Integer(integer) => (integer.to_string(), i128::from_str_radix(integer.as_str(), integer.radix()).ok()),
            DeValue::String(raw) => {
                let text = self.document.resolve(raw, value.span(), &self.title)?;
                (quote(raw), text.resolved.parse().ok())
            }
            DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.wrong_type(key, value, "a whole number");
                return None;
            }
        };
        self.note(key, shown.clone(), None);
        let number = number.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            let next = match *range.end() {
                u64::MAX => format!("it must be a whole number, {} or more", range.start()),
                end => format!("it must be a whole number from {} to {end}", range.start()),
            };
            self.problem(value.span(), format!("'{}{key}' can't be {shown}", self.prefix), next);
        }
        number
    }

    /// One of a few words. `later`: words that a later version will know.
    pub fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        later: &[&str],
        default: Option<(&str, &str)>,
    ) -> Option<T> {
        if !self.has(key) {
            self.known.push(key);
            let (word, why) = default?;
            self.default(key, quote(word), why);
            return words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        }
        let text = self.text(key)?;
        let found = words.iter().find(|(known, _)| *known == text.resolved);
        if found.is_none() {
            let shown = quote(&text.raw);
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            let (what, next) = if later.contains(&text.resolved.as_str()) {
                (format!("{key} = {shown} is not in this version"), format!("it can be {}", join_or(&known)))
            } else {
                (format!("'{}{key}' can't be {shown}", self.prefix), suggestion(&text.resolved, &known))
            };
            self.problem(text.span, what, next);
        }
        found.map(|(_, value)| *value)
    }

    /// True or false, if it is there.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let DeValue::Boolean(boolean) = value.get_ref() else {
            self.wrong_type(key, value, "true or false");
            return None;
        };
        self.note(key, boolean.to_string(), None);
        Some(*boolean)
    }

    /// An inline table or a sub-table, if it is there; read it as a section of its own and finish it.
    pub fn table(&mut self, key: &'static str) -> Option<Section<'d, 'a>> {
        let value = self.get(key)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, value, "a table");
            return None;
        };
        let mut section = Section::new(self.document, self.title.clone(), value.span(), table);
        section.prefix = format!("{}{key}.", self.prefix);
        Some(section)
    }

    /// The table of a key that is the user's own; none if it is none.
    pub fn entry_table(&self, key: &str) -> Option<Section<'d, 'a>> {
        let value = self.table.get(key)?;
        let table = value.get_ref().as_table()?;
        let mut section = Section::new(self.document, self.title.clone(), value.span(), table);
        section.prefix = format!("{}{key}.", self.prefix);
        Some(section)
    }

    /// An empty section in the place of a table that was left out, so that its defaults are read alike.
    pub fn absent(&self, key: &str, empty: &'d DeTable<'a>) -> Section<'d, 'a> {
        let mut section = Section::new(self.document, self.title.clone(), self.span.clone(), empty);
        section.prefix = format!("{}{key}.", self.prefix);
        section
    }

    /// Every key that stands there, with its value: for tables whose keys are the user's.
    pub fn entries(&self) -> impl Iterator<Item = (&'d str, Range<usize>, &'d Spanned<DeValue<'a>>)> + use<'d, 'a> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
    }

    /// Refuses every key that nobody asked for.
    pub fn finish(self) {
        for (key, span, _) in self.entries() {
            if !self.known.contains(&key) {
                let what = format!("unknown key '{}{key}'", self.prefix);
                self.problem(span, what, suggestion(key, &self.known));
            }
        }
    }

    fn default(&self, key: &str, value: String, why: &str) {
        // A value that is there but wrong is no default.
        if !self.has(key) {
            self.note(key, value, Some(why));
        }
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'a>>, wanted: &str) {
        self.problem(value.span(), format!("'{}{key}' is {}, not {wanted}", self.prefix, kind(value)), "");
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Spanned<DeValue<'_>>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A string as TOML and JSON write it.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// "did you mean …", if something is near, and what is known.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(word.len()) / 4)
        .min();
    match near {
        Some((_, candidate)) => format!("did you mean '{candidate}'?"),
        None if known.is_empty() => String::new(),
        None => format!("it can be {}", join_or(known)),
    }
}

fn join_or(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("'{one}'"),
        [init @ .., last] => {
            let init: Vec<String> = init.iter().map(|word| format!("'{word}'")).collect();
            format!("{} or '{last}'", init.join(", "))
        }
    }
}
