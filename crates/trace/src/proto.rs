//! The wire format of protocol buffers, as far as a trace needs it: varints, fixed words and nested messages.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// Wire types.
pub(crate) const VARINT: u32 = 0;
pub(crate) const FIXED64: u32 = 1;
pub(crate) const LENGTH: u32 = 2;
pub(crate) const FIXED32: u32 = 5;

impl Message {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn tag(&mut self, field: u32, kind: u32) {
        put_varint(&mut self.bytes, u64::from(field << 3 | kind));
    }

    pub(crate) fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, VARINT);
        put_varint(&mut self.bytes, value);
        self
    }

    /// Appends an `int32` or `int64`: negative values take ten bytes.
    pub(crate) fn int(&mut self, field: u32, value: i64) -> &mut Self {
        self.uint(field, value as u64)
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) -> &mut Self {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn data(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.tag(field, LENGTH);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) -> &mut Self {
        self.data(field, value.as_bytes())
    }

    /// Appends a nested message.
    pub(crate) fn nest(&mut self, field: u32, fill: impl FnOnce(&mut Self)) -> &mut Self {
        // One byte of length is enough for most; longer ones move up.
        self.tag(field, LENGTH);
        let at = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let length = self.bytes.len() - at - 1;
        if length < 0x80 {
            self.bytes[at] = length as u8;
        } else {
            let mut prefix = Vec::with_capacity(5);
            put_varint(&mut prefix, length as u64);
            self.bytes.splice(at..=at, prefix);
        }
        self
    }
}

/// Appends a number, seven bits per byte.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a number that may be negative, small ones of either sign in few bytes.
pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_varint(bytes, (value << 1 ^ value >> 63) as u64);
}

/// Reader of what the functions above have written. Returns `None` if it ends too early, or is not a number of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'b> {
    left: &'b [u8],
}

/// A field of a message.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'b> {
    /// A varint.
    Uint(u64),
    /// Eight bytes.
    Fixed64,
    /// Four bytes.
    Fixed32,
    /// A string, bytes or a message.
    Data(&'b [u8]),
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { left: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for (place, &byte) in self.left.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has one bit left.
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                self.left = &self.left[place + 1..];
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(bytes)
    }

    /// Returns the next field of a message: its number and value.
    #[cfg(test)]
    pub(crate) fn field(&mut self) -> Option<(u32, Value<'b>)> {
        let tag = u32::try_from(self.varint()?).ok()?;
        let value = match tag & 7 {
            VARINT => Value::Uint(self.varint()?),
            FIXED64 => self.bytes(8).map(|_| Value::Fixed64)?,
            LENGTH => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Data(self.bytes(length)?)
            }
            FIXED32 => self.bytes(4).map(|_| Value::Fixed32)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_signed(&mut bytes, signed);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!((reader.varint(), reader.signed()), (Some(value), Some(signed)));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn nested_messages_of_any_length_come_back(data in proptest::collection::vec(any::<u8>(), 0..40_000), n: u64) {
            let mut message = Message::new();
            message.nest(11, |inner| {
                inner.uint(1, n).nest(2, |deep| { deep.data(3, &data); }).double(4, 0.5);
            });
            let mut outer = Reader::new(message.as_bytes());
            let Some((11, Value::Data(inner))) = outer.field() else { panic!("no message") };
            prop_assert!(outer.is_empty());
            let mut inner = Reader::new(inner);
            prop_assert_eq!(inner.field(), Some((1, Value::Uint(n))));
            let Some((2, Value::Data(deep))) = inner.field() else { panic!("no message") };
            prop_assert_eq!(Reader::new(deep).field(), Some((3, Value::Data(&data[..]))));
            prop_assert_eq!(inner.field(), Some((4, Value::Fixed64)));
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            while reader.field().is_some() {}
        }
    }
}
