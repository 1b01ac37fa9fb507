//! Looks through the bytes of an answer before they are decoded: every length in them must fit what is really there.
//!
//! The decoder (crate `kafka-protocol`) reserves memory for as many elements as an array claims to have. Four hostile or
//! garbled bytes would so ask for hundreds of gigabytes, which ends the process, not the call. After this look an array's
//! memory is in proportion to the bytes that were received.

/// What a field is on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// That many bytes: numbers, booleans, uuids.
    Fixed(usize),
    /// A string, or null.
    Text,
    /// Bytes, or null.
    Blob,
    /// An array, or null, of elements of that many bytes.
    Items(usize),
    /// An array, or null, of strings.
    Texts,
    /// An array, or null, of structures.
    List(&'static [Field]),
}

/// One field, and the versions that have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    kind: Kind,
    since: i16,
    until: i16,
}

/// A field of every version.
pub(crate) const fn field(kind: Kind) -> Field {
    Field { kind, since: 0, until: i16::MAX }
}

/// One byte: a boolean or an int8.
pub(crate) const INT8: Field = field(Kind::Fixed(1));
/// An int16.
pub(crate) const INT16: Field = field(Kind::Fixed(2));
/// An int32.
pub(crate) const INT32: Field = field(Kind::Fixed(4));
/// An int64.
pub(crate) const INT64: Field = field(Kind::Fixed(8));
/// A string.
pub(crate) const TEXT: Field = field(Kind::Text);

impl Field {
    /// The same, from a version on.
    pub(crate) const fn since(self, since: i16) -> Field {
        Field { since, ..self }
    }

    /// The same, up to a version.
    pub(crate) const fn until(self, until: i16) -> Field {
        Field { until, ..self }
    }

    fn is_in(&self, version: i16) -> bool {
        (self.since..=self.until).contains(&version)
    }
}

/// The fields of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// First version with the compact encoding and tagged fields.
    pub flexible_from: i16,
    pub fields: &'static [Field],
}

/// What is wrong with the bytes.
pub(crate) type Fault = String;

/// Looks through a whole answer without its header. It must end where the bytes end.
pub(crate) fn check(shape: &Shape, version: i16, bytes: &[u8]) -> Result<(), Fault> {
    let flexible = version >= shape.flexible_from;
    let mut walk = Walk { rest: bytes, version, flexible };
    walk.fields(shape.fields)?;
    if walk.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes are left over", walk.rest.len())) }
}

/// Skips the tagged fields of a header and gives what follows.
pub(crate) fn skip_tags(bytes: &[u8]) -> Result<&[u8], Fault> {
    let mut walk = Walk { rest: bytes, version: 0, flexible: true };
    walk.tags()?;
    Ok(walk.rest)
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &'static [Field]) -> Result<(), Fault> {
        for field in fields {
            if field.is_in(self.version) {
                self.one(field.kind)?;
            }
        }
        if self.flexible { self.tags() } else { Ok(()) }
    }

    fn one(&mut self, kind: Kind) -> Result<(), Fault> {
        match kind {
            Kind::Fixed(bytes) => self.skip(bytes),
            Kind::Text => self.text(),
            Kind::Blob => {
                let bytes = self.length()?;
                self.skip(bytes)
            }
            Kind::Items(bytes) => {
                let count = self.count(bytes)?;
                self.skip(count * bytes)
            }
            Kind::Texts => {
                let count = self.count(self.least(Kind::Text))?;
                (0..count).try_for_each(|_| self.text())
            }
            Kind::List(fields) => {
                let count = self.count(self.least_of(fields))?;
                (0..count).try_for_each(|_| self.fields(fields))
            }
        }
    }

    /// Bytes that a field takes at least.
    fn least(&self, kind: Kind) -> usize {
        match kind {
            Kind::Fixed(bytes) => bytes,
            _ if self.flexible => 1,
            Kind::Text => 2,
            Kind::Blob | Kind::Items(_) | Kind::Texts | Kind::List(_) => 4,
        }
    }

    fn least_of(&self, fields: &'static [Field]) -> usize {
        let fixed: usize = fields.iter().filter(|field| field.is_in(self.version)).map(|field| self.least(field.kind)).sum();
        fixed + usize::from(self.flexible)
    }

    fn text(&mut self) -> Result<(), Fault> {
        let bytes = if self.flexible { self.length()? } else { usize::try_from(self.int16()?).unwrap_or(0) };
        self.skip(bytes)
    }

    /// The number of elements of an array, which must have room in what is left. Null counts as none.
    fn count(&mut self, each: usize) -> Result<usize, Fault> {
        let count = self.length()?;
        if count > self.rest.len() / each.max(1) {
            return Err(format!("an array of {count} elements can't stand in {} bytes", self.rest.len()));
        }
        Ok(count)
    }

    /// A length of four bytes or, flexible, of one to five; null counts as none.
    fn length(&mut self) -> Result<usize, Fault> {
        if !self.flexible {
            return Ok(usize::try_from(self.int32()?).unwrap_or(0));
        }
        Ok(self.varint()?.saturating_sub(1) as usize)
    }

    /// Tagged fields; none of those that our versions know holds an array, so that their bytes needn't be looked at.
    fn tags(&mut self) -> Result<(), Fault> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let bytes = self.varint()? as usize;
            self.skip(bytes)?;
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u32, Fault> {
        let mut value = 0u64;
        for i in 0..5 {
            let byte = self.take::<1>()?[0];
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| "a length has more than 32 bits".to_owned());
            }
        }
        Err("a length has more than five bytes".to_owned())
    }

    fn int16(&mut self) -> Result<i16, Fault> {
        self.take().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Result<i32, Fault> {
        self.take().map(i32::from_be_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(N))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Fault> {
        self.rest = self.rest.get(bytes..).ok_or_else(|| self.short(bytes))?;
        Ok(())
    }

    fn short(&self, wanted: usize) -> Fault {
        format!("a field of {wanted} bytes can't stand in {}", self.rest.len())
    }
}
