//! How map keys become bytes: so that the order of the bytes, which is that of a scan, is the order of the values.

/// A key of a [`Map`](crate::Map). Integers, texts and bytes are; and pairs and triples of which all but the last are integers.
pub trait MapKey: Sized {
    /// Bytes of every encoding, if all have the same number: only then something can follow it in a tuple.
    const WIDTH: Option<usize>;

    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// The value that these bytes are, from the first to the last; none if they are none.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// What can stand for a `K` where a map is asked for an entry: a `K`, and `str` for a `String`, `[u8]` for a `Vec<u8>`.
pub trait AsMapKey<K> {
    /// Appends the encoding, that of the `K`.
    fn encode_key(&self, out: &mut Vec<u8>);
}

impl<K: MapKey> AsMapKey<K> for K {
    fn encode_key(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl AsMapKey<String> for str {
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl AsMapKey<Vec<u8>> for [u8] {
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! unsigned {
    ($($number:ty)*) => {$(
        impl MapKey for $number {
            const WIDTH: Option<usize> = Some(size_of::<$number>());
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                Some(<$number>::from_be_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 u128);

macro_rules! signed {
    ($($number:ty, $unsigned:ty;)*) => {$(
        impl MapKey for $number {
            const WIDTH: Option<usize> = Some(size_of::<$number>());
            fn encode(&self, out: &mut Vec<u8>) {
                // With the sign turned over the negative ones come first.
                MapKey::encode(&(*self as $unsigned ^ <$number>::MIN as $unsigned), out);
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                Some((<$unsigned as MapKey>::decode(bytes)? ^ <$number>::MIN as $unsigned) as $number)
            }
        }
    )*};
}

signed!(i8, u8; i16, u16; i32, u32; i64, u64; i128, u128;);

impl MapKey for String {
    const WIDTH: Option<usize> = None;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl MapKey for Vec<u8> {
    const WIDTH: Option<usize> = None;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// Width of what all but the last of a tuple take.
const fn fixed(width: Option<usize>) -> usize {
    match width {
        Some(width) => width,
        None => panic!("all but the last part of a map key must be integers"),
    }
}

const fn both(first: usize, last: Option<usize>) -> Option<usize> {
    match last {
        Some(last) => Some(first + last),
        None => None,
    }
}

impl<A: MapKey, B: MapKey> MapKey for (A, B) {
    const WIDTH: Option<usize> = both(fixed(A::WIDTH), B::WIDTH);
    fn encode(&self, out: &mut Vec<u8>) {
        const { fixed(A::WIDTH) };
        self.0.encode(out);
        self.1.encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, last) = bytes.split_at_checked(const { fixed(A::WIDTH) })?;
        Some((A::decode(first)?, B::decode(last)?))
    }
}

impl<A: MapKey, B: MapKey, C: MapKey> MapKey for (A, B, C) {
    const WIDTH: Option<usize> = both(fixed(A::WIDTH) + fixed(B::WIDTH), C::WIDTH);
    fn encode(&self, out: &mut Vec<u8>) {
        const { fixed(A::WIDTH) + fixed(B::WIDTH) };
        self.0.encode(out);
        self.1.encode(out);
        self.2.encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_at_checked(const { fixed(A::WIDTH) })?;
        let (second, last) = rest.split_at_checked(const { fixed(B::WIDTH) })?;
        Some((A::decode(first)?, B::decode(second)?, C::decode(last)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// They come back, and the order of their bytes is theirs.
    fn check<K: MapKey + Ord + Debug>(ascending: &[K]) {
        let bytes = |key: &K| {
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            bytes
        };
        for pair in ascending.windows(2) {
            assert!(bytes(&pair[0]) < bytes(&pair[1]), "{pair:?}");
        }
        for key in ascending {
            assert_eq!(K::decode(&bytes(key)).as_ref(), Some(key));
        }
    }

    #[test]
    fn the_order_of_the_bytes_is_that_of_the_keys() {
        check(&[0u64, 1, 255, 256, u64::MAX]);
        check(&[i64::MIN, -256, -1, 0, 1, i64::MAX]);
        check(&[i8::MIN, -1, 0, i8::MAX]);
        check(&["".to_owned(), "a".to_owned(), "ab".to_owned(), "b".to_owned()]);
        check(&[(1u32, "b".to_owned()), (2, String::new()), (2, "a".to_owned()), (256, String::new())]);
        check(&[(-1i64, 5u8, vec![9u8]), (0, 0, vec![]), (0, 1, vec![0, 0])]);
        assert_eq!(<(u32, String)>::decode(&[0, 0, 1]), None);
        assert_eq!(u16::decode(&[0; 3]), None);
    }
}
