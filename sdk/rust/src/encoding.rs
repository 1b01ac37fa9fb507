//! How state values become bytes: fixed and small, without a schema language.
//!
//! Integers and floats are little-endian. Byte strings, texts, lists and options carry their length or presence in front,
//! so that any value can stand inside another one. The encoding is part of what a checkpoint stores: changing a type means
//! another schema version.

/// A value that keyed state can hold.
///
/// Implement it for a struct with [`state_value!`](crate::state_value), or use a tuple.
pub trait StateValue: Sized {
    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes a value off the front of `input`; none if the bytes are no such value.
    fn decode(input: &mut &[u8]) -> Option<Self>;

    /// Appends the values of a list; bytes do it in one copy.
    #[doc(hidden)]
    fn encode_list(list: &[Self], out: &mut Vec<u8>) {
        for value in list {
            value.encode(out);
        }
    }

    /// Takes `length` values off the front of `input`.
    #[doc(hidden)]
    fn decode_list(length: usize, input: &mut &[u8]) -> Option<Vec<Self>> {
        // The claimed length may be nonsense: no room is made beyond the bytes that are there.
        let mut values = Vec::with_capacity(length.min(input.len()));
        for _ in 0..length {
            values.push(Self::decode(input)?);
        }
        Some(values)
    }
}

/// The value that `bytes` hold from the first to the last.
#[inline]
pub(crate) fn decode_all<T: StateValue>(mut bytes: &[u8]) -> Option<T> {
    let value = T::decode(&mut bytes)?;
    bytes.is_empty().then_some(value)
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl StateValue for $number {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn decode(input: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = input.split_first_chunk()?;
                *input = rest;
                Some(<$number>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl StateValue for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        Some(byte)
    }
    fn encode_list(list: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(list);
    }
    fn decode_list(length: usize, input: &mut &[u8]) -> Option<Vec<u8>> {
        let (bytes, rest) = input.split_at_checked(length)?;
        *input = rest;
        Some(bytes.to_vec())
    }
}

impl StateValue for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        match u8::decode(input)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: StateValue> StateValue for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        // A guest's memory ends at 4 GiB, so a length always fits.
        (self.len() as u32).encode(out);
        T::encode_list(self, out);
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        let length = u32::decode(input)? as usize;
        T::decode_list(length, input)
    }
}

impl StateValue for String {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::decode(input)?).ok()
    }
}

impl<T: StateValue> StateValue for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        Some(if bool::decode(input)? { Some(T::decode(input)?) } else { None })
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))*) => {$(
        impl<$($name: StateValue),+> StateValue for ($($name,)+) {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)+
            }
            #[inline]
            fn decode(input: &mut &[u8]) -> Option<Self> {
                Some(($($name::decode(input)?,)+))
            }
        }
    )*};
}

tuples!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5));

/// Makes a struct with named fields a [`StateValue`]: its fields are encoded in the order given here, which must name all.
///
/// ```
/// struct Stats { count: u64, sum: i64 }
/// weir_sdk::state_value!(Stats { count, sum });
/// ```
#[macro_export]
macro_rules! state_value {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::StateValue for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::StateValue::encode(&self.$field, out);)+
            }
            #[inline]
            fn decode(input: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::StateValue::decode(input)?),+ })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    #[derive(Debug, PartialEq)]
    struct Stats {
        count: u64,
        names: Vec<String>,
        top: Option<i64>,
    }
    state_value!(Stats { count, names, top });

    /// The value comes back, and no shorter or longer bytes are taken for it.
    fn check<T: StateValue + PartialEq + Debug>(value: T, length: usize) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(bytes.len(), length, "{value:?}");
        assert_eq!(decode_all::<T>(&bytes), Some(value));
        for shorter in 0..length {
            assert_eq!(decode_all::<T>(&bytes[..shorter]), None, "cut to {shorter} of {length} bytes");
        }
        bytes.push(0);
        assert_eq!(decode_all::<T>(&bytes), None, "one byte too many");
    }

    #[test]
    fn values_come_back_and_other_lengths_are_refused() {
        check(7u64, 8);
        check((1u64, -2i64, i64::MIN), 24);
        check(true, 1);
        check(1.5f64, 8);
        check(String::from("äb"), 4 + 3);
        check(vec![1u8, 2, 3], 4 + 3);
        check(vec![(String::from("x"), Some(3u16)), (String::new(), None)], 4 + (5 + 3) + (4 + 1));
        check(Stats { count: 3, names: vec!["a".into()], top: Some(-1) }, 8 + 4 + 5 + 9);
    }

    #[test]
    fn nonsense_is_no_value_and_takes_no_memory() {
        assert_eq!(decode_all::<bool>(&[2]), None);
        assert_eq!(decode_all::<String>(&[1, 0, 0, 0, 0xff]), None);
        assert_eq!(decode_all::<Vec<u64>>(&[0xff; 12]), None);
    }
}
