//! Keys as a terminal sends them: bytes, and escape sequences for keys without a letter (ECMA-48 and xterm's
//! additions).

/// A key that the view knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    Escape,
}

const ESCAPE: u8 = 0x1b;
/// Longest escape sequence. A longer one is not a sequence.
const LONGEST: usize = 16;

/// Reads keys from bytes, which may end in the middle of a key.
#[derive(Default)]
pub(crate) struct Keys(Vec<u8>);

/// Start of a byte sequence.
enum Start {
    /// A key of this many bytes; `None`: an unknown one.
    Of(usize, Option<Key>),
    /// The start of a key that needs more bytes.
    Part,
}

impl Keys {
    /// Returns the keys in these bytes and in the rest of the bytes before.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.0.extend_from_slice(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        while at < self.0.len() {
            match start(&self.0[at..]) {
                Start::Of(length, key) => {
                    keys.extend(key);
                    at += length;
                }
                Start::Part => break,
            }
        }
        self.0.drain(..at);
        keys
    }

    /// Handles a pause: an escape without further bytes was the key Escape.
    pub(crate) fn pause(&mut self) -> Option<Key> {
        let left = std::mem::take(&mut self.0);
        (left == [ESCAPE]).then_some(Key::Escape)
    }
}

fn start(bytes: &[u8]) -> Start {
    match bytes {
        [ESCAPE] => Start::Part,
        [ESCAPE, b'[' | b'O', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            match end {
                Some(end) => Start::Of(end + 3, sequence(&rest[..=end])),
                None if rest.len() >= LONGEST => Start::Of(bytes.len(), None),
                None => Start::Part,
            }
        }
        // Escape with Alt, or Escape twice: only the byte after it decides.
        [ESCAPE, ..] => Start::Of(1, None),
        [b'\t', ..] => Start::Of(1, Some(Key::Tab)),
        [byte @ 0x20..=0x7e, ..] => Start::Of(1, Some(Key::Char(char::from(*byte)))),
        _ => Start::Of(1, None),
    }
}

fn sequence(rest: &[u8]) -> Option<Key> {
    Some(match rest {
        [.., b'A'] => Key::Up,
        [.., b'B'] => Key::Down,
        [.., b'C'] => Key::Right,
        [.., b'D'] => Key::Left,
        [.., b'H'] | b"1~" | b"7~" => Key::Home,
        [.., b'Z'] => Key::BackTab,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_told_apart_wherever_the_bytes_are_cut() {
        let bytes = b"1\t\x1b[A\x1bOB\x1b[5~q\x1b[Z\x1b[1;5C?";
        let want = [
            Key::Char('1'),
            Key::Tab,
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Char('q'),
            Key::BackTab,
            Key::Right,
            Key::Char('?'),
        ];
        for cut in 0..bytes.len() {
            let mut keys = Keys::default();
            let mut told = keys.read(&bytes[..cut]);
            told.extend(keys.read(&bytes[cut..]));
            assert_eq!(told, want, "cut at {cut}");
        }
    }

    #[test]
    fn an_escape_that_nothing_follows_is_a_key() {
        let mut keys = Keys::default();
        assert!(keys.read(b"\x1b").is_empty());
        assert_eq!(keys.pause(), Some(Key::Escape));
        assert_eq!(keys.pause(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_kept_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut keys = Keys::default();
            for part in bytes.chunks(7) {
                keys.read(part);
                prop_assert!(keys.0.len() < LONGEST + 10);
            }
        }
    }
}
