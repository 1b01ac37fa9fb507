//! The work of the bench operators on one value. Guest and native twin call the same functions, so that what differs is where
//! they run.
//!
//! A value is one of connector `sequence` with at least [`VALUE_BYTES`] bytes: 20 decimal digits, then letters `a` to `p`.

/// Digits of a value's number.
pub const DIGITS: usize = 20;
/// Where the two fields of letters begin and end.
const LETTERS: [std::ops::Range<usize>; 2] = [20..36, 36..52];
/// A value must be so long.
pub const VALUE_BYTES: usize = 52;

/// Parses three fields (a decimal number, and two numbers of sixteen half bytes written as letters) and gives what the first one
/// becomes. None if a field is not what it should be.
#[inline]
pub fn rewritten(value: &[u8]) -> Option<[u8; DIGITS]> {
    let number = decimal(value.get(..DIGITS)?)?;
    let (a, b) = (letters(value.get(LETTERS[0].clone())?)?, letters(value.get(LETTERS[1].clone())?)?);
    Some(digits(number.wrapping_mul(a | 1) ^ b))
}

/// A number that is written in decimal, modulo 2⁶⁴.
#[inline]
fn decimal(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number.wrapping_mul(10).wrapping_add(u64::from(digit)))
    })
}

/// A number that is written as letters `a` to `p`, the highest half byte first.
#[inline]
fn letters(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0u64, |number, &byte| {
        let half = byte.wrapping_sub(b'a');
        (half < 16).then(|| number << 4 | u64::from(half))
    })
}

/// A number in decimal, padded with zeros.
#[inline]
fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// The constant that [`mixed`] mixes in.
const MIXED_IN: u64 = 0x0505_0a0a_0505_0a0a;

/// The first eight bytes as a number, mixed with a constant: the cheapest map that changes a value. None if it is shorter.
#[inline]
pub fn mixed(value: &[u8]) -> Option<[u8; 8]> {
    let (first, _) = value.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first) ^ MIXED_IN).to_le_bytes())
}

/// Whether the filter lets a mixed value pass: half of them do.
#[inline]
pub fn passes(mixed: [u8; 8], value: &[u8]) -> bool {
    (mixed[0] ^ value[value.len() - 1]) & 1 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_fields_make_the_first_one() {
        let value = b"00000000000000000002aaaaaaaaaaaaaaabaaaaaaaaaaaaaaapabc";
        assert_eq!(rewritten(value), Some(*b"00000000000000000013"), "2 × 1 xor 15");
        assert_eq!(rewritten(&value[..VALUE_BYTES - 1]), None, "too short");
        assert_eq!(rewritten(b"0000000000000000000x aaaaaaaaaaaaaaabaaaaaaaaaaaaaaap"), None, "no number");
        assert_eq!(digits(u64::MAX), *b"18446744073709551615");
    }

    #[test]
    fn half_of_the_values_pass() {
        let values = (0..1000u64).map(|i| format!("{i:020}{}", (b'a' + (i * 7 % 16) as u8) as char));
        let passing = values.filter(|value| passes(mixed(value.as_bytes()).expect("long enough"), value.as_bytes())).count();
        assert_eq!(passing, 500);
        assert_eq!(mixed(b"short"), None);
    }
}
