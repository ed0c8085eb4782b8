//! Bytes of a file, unpacked if they are gzipped.

use crate::error::Fault;
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Chain, Cursor, Read};

/// Bytes by which kinds of files are distinguished.
const HEAD: usize = 6;
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Files of other kinds: first bytes, name, and a command that makes a right one.
const OTHERS: [(&[u8], &str, &str); 5] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed by zstd", "zstd -d FILE"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "compressed by xz", "xz -d FILE"),
    (b"BZh", "compressed by bzip2", "bzip2 -d FILE"),
    (&[0x04, 0x22, 0x4d, 0x18], "compressed by lz4", "lz4 -d FILE"),
    (b"snoop\0", "a file of snoop", "editcap FILE NEW"),
];
/// Bytes that are read at once of a compressed file.
const PACKED: usize = 128 * 1024;

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Source of a capture file's bytes.
#[derive(Debug)]
pub(crate) enum Source<R> {
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes.
    ///
    /// # Errors
    /// Names an empty file, or one of another known kind.
    pub(crate) fn new(mut file: R) -> Result<Self, Fault> {
        let mut head = Vec::with_capacity(HEAD);
        file.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        if head.is_empty() {
            return Err(Fault::Empty);
        }
        let other = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic));
        if let Some((_, kind, command)) = other {
            return Err(Fault::OtherKind(kind, command));
        }
        let packed = head.starts_with(GZIP);
        let whole = Cursor::new(head).chain(file);
        Ok(match packed {
            true => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED, whole)))),
            false => Self::Plain(whole),
        })
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(file) => file.read(buffer),
        }
    }
}
