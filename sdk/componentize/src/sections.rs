//! The names that a core module exports.

/// Id of the export section.
const EXPORTS: u8 = 7;

/// Exported names in order; none if the module is damaged.
pub(crate) fn exports(module: &[u8]) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let Some(mut section) = section(module, EXPORTS)? else { return Some(names) };
    for _ in 0..u32_leb(&mut section)? {
        names.push(std::str::from_utf8(bytes(&mut section)?).ok()?);
        section = section.get(1..)?;
        u32_leb(&mut section)?;
    }
    Some(names)
}

/// The first section of this id; none in it if there is no such section.
fn section(module: &[u8], wanted: u8) -> Option<Option<&[u8]>> {
    let mut rest = module.get(8..)?;
    while !rest.is_empty() {
        let id = byte(&mut rest)?;
        let section = bytes(&mut rest)?;
        if id == wanted {
            return Some(Some(section));
        }
    }
    Some(None)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

/// Takes a length and so many bytes off the front.
fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32_leb(rest)? as usize;
    let (front, back) = rest.split_at_checked(length)?;
    *rest = back;
    Some(front)
}

fn u32_leb(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_damage_is_seen() {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        assert_eq!(exports(&module), Some(vec![]));
        module.extend(b"\0\x02\x01x\x07\x0f\x02\x06memory\x02\0\x01f\0\x81\x01");
        assert_eq!(exports(&module), Some(vec!["memory", "f"]));
        module.truncate(module.len() - 1);
        assert_eq!(exports(&module), None);
    }
}
