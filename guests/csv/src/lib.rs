//! Fields of one CSV line, without allocation: commas, and quotes with doubled quotes inside.

use std::borrow::Cow;

/// The raw fields of a line, in order. A quoted field keeps its quotes; [`unquoted`] takes them off. The line must not hold
/// a line end, so neither can a field.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// What is left; none after the last field.
    rest: Option<&'a [u8]>,
}

/// The fields of `line`. There is always at least one, maybe empty.
pub fn fields(line: &[u8]) -> Fields<'_> {
    Fields { rest: Some(line) }
}

/// What is wrong with a field's quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadQuotes;

impl std::fmt::Display for BadQuotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a quoted field does not end with its quote")
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<&'a [u8], BadQuotes>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        let end = match rest.first() {
            Some(b'"') => match quoted_end(rest) {
                Some(end) => end,
                None => {
                    self.rest = None;
                    return Some(Err(BadQuotes));
                }
            },
            _ => rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len()),
        };
        self.rest = rest.get(end + 1..);
        Some(Ok(&rest[..end]))
    }
}

/// Where the quoted field at the front of `line` ends: at a comma or at the end of the line.
fn quoted_end(line: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += line.get(at..)?.iter().position(|&byte| byte == b'"')? + 1;
        match line.get(at) {
            Some(b'"') => at += 1,
            Some(b',') | None => return Some(at),
            Some(_) => return None,
        }
    }
}

/// The content of a field: without quotes, and with doubled quotes made single.
pub fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    let inner = match field {
        [b'"', inner @ .., b'"'] => inner,
        plain => return Cow::Borrowed(plain),
    };
    if !inner.contains(&b'"') {
        return Cow::Borrowed(inner);
    }
    let mut content = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        content.push(byte);
        if byte == b'"' {
            // The second one of a pair.
            bytes.next();
        }
    }
    Cow::Owned(content)
}

/// Milliseconds since the Unix epoch of a time such as `2013-01-01T10:00:00Z`; none if it is no such time.
///
/// Days are counted as in Howard Hinnant's `days_from_civil`: years begin in March, so that the leap day comes last.
pub fn time_ms(text: &[u8]) -> Option<i64> {
    let (date, clock) = (text.get(..10)?, text.get(10..)?);
    let ([b'T', .., b'Z'], 10) = (clock, clock.len()) else { return None };
    let [b'-', b'-', b':', b':'] = [date[4], date[7], clock[3], clock[6]] else { return None };
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?);
    let (hour, minute, second) = (number(&clock[1..3])?, number(&clock[4..6])?, number(&clock[7..9])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

/// A number of digits only.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, digit| digit.is_ascii_digit().then(|| n * 10 + i64::from(digit - b'0')))
}

/// A whole number such as `2`, `-5` or `2.0`; a fraction is cut off, towards zero.
pub fn whole(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let float: f64 = text.parse().ok()?;
    // Above 2^53 a float no longer tells whole numbers apart.
    (float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(line: &str) -> Result<Vec<String>, BadQuotes> {
        fields(line.as_bytes()).map(|field| Ok(String::from_utf8_lossy(&unquoted(field?)).into_owned())).collect()
    }

    #[test]
    fn lines_come_apart() {
        let cases: &[(&str, &[&str])] = &[
            ("a,b,c", &["a", "b", "c"]),
            ("", &[""]),
            (",", &["", ""]),
            ("a,", &["a", ""]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"\",x", &["", "x"]),
            ("\"say \"\"hi\"\"\",2", &["say \"hi\"", "2"]),
            ("a\"b,c", &["a\"b", "c"]),
        ];
        for (line, expected) in cases {
            assert_eq!(
                contents(line).as_deref(),
                Ok(&expected.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
        for line in ["\"a", "\"a\"b,c", "x,\"", "\"\"\""] {
            assert_eq!(contents(line), Err(BadQuotes), "{line}");
        }
    }

    #[test]
    fn times_are_milliseconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2013-01-01T10:00:00Z", Some(1_357_034_400_000)),
            ("2000-02-29T23:59:59Z", Some(951_868_799_000)),
            ("2013-12-31T23:00:00Z", Some(1_388_530_800_000)),
            ("1969-12-31T23:59:59Z", Some(-1_000)),
            ("2013-02-29T00:00:00Z", None),
            ("2013-13-01T00:00:00Z", None),
            ("2013-01-01 10:00:00Z", None),
            ("2013-01-01T24:00:00Z", None),
            ("2013-01-01T10:00:00", None),
            ("2013-01-01T1x:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(time_ms(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_cut_towards_zero() {
        for (text, expected) in [
            ("2", Some(2)),
            ("-5", Some(-5)),
            ("2.0", Some(2)),
            ("-2.7", Some(-2)),
            ("", None),
            ("NA", None),
            ("1e300", None),
            ("nan", None),
        ] {
            assert_eq!(whole(text.as_bytes()), expected, "{text}");
        }
    }
}
