//! Byte strings and numbers after one another, as roots and pages hold them.

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends bytes with their length in front.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes bytes with their length off the front.
pub(super) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (own, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back_and_what_is_cut_does_not() {
        for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(take_number(&mut &out[..]), Some(number));
            assert_eq!(take_number(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(take_number(&mut &[0xff; 11][..]), None, "no end");
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(take_bytes(&mut &out[..]), Some(&b"abc"[..]));
        assert_eq!(take_bytes(&mut &out[..3]), None);
    }
}
