//! Traces as files: packed on their way out, unpacked on their way in.

use crate::{JsonTarget, ReportError};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use mpps_trace::{NotATrace, Recording, ctf, perfetto};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The longest trace that is read, unpacked, bytes: beyond that it is no file that this program wrote.
const LONGEST: u64 = 4 << 30;
/// What a gzipped file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a trace file: a Perfetto trace, gzipped.
pub fn packed_trace(recording: &Recording) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    // Memory takes all that it is given.
    let _ = perfetto::write(recording, &mut packed);
    packed.finish().unwrap_or_default()
}

/// Writes a trace to a file whose place was checked before.
///
/// # Errors
/// When it can't be written.
pub fn write_trace(target: &JsonTarget, recording: &Recording) -> Result<(), ReportError> {
    target.write_bytes(&packed_trace(recording))
}

/// Reads a trace that this program wrote, packed or not.
///
/// # Errors
/// When it can't be read, or is no trace of this program's.
pub fn read_trace(path: &Path) -> Result<Recording, ReportError> {
    trace_from(path, File::open(path).map_err(|e| ReportError::io("read", path, e))?)
}

/// As [`read_trace`], from the bytes of a file of that name.
///
/// # Errors
/// As [`read_trace`].
pub fn trace_from(path: &Path, mut file: impl Read) -> Result<Recording, ReportError> {
    let error = |e: io::Error| ReportError::io("read", path, e);
    let mut begin = [0; 2];
    let mut read = 0;
    while read < begin.len() {
        match file.read(&mut begin[read..]).map_err(error)? {
            0 => break,
            n => read += n,
        }
    }
    let whole = begin[..read].chain(file);
    let mut bytes = Vec::new();
    let unpacked = match begin == GZIP {
        true => MultiGzDecoder::new(whole).take(LONGEST + 1).read_to_end(&mut bytes),
        false => whole.take(LONGEST + 1).read_to_end(&mut bytes),
    };
    // What could be unpacked of a file that was cut off is no whole trace either.
    unpacked.map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ReportError::malformed(path, format!("it is damaged: {e}"))
        }
        _ => error(e),
    })?;
    if bytes.len() as u64 > LONGEST {
        return Err(ReportError::malformed(path, NotATrace::Foreign.to_string()));
    }
    mpps_trace::read(&bytes).map_err(|e| ReportError::malformed(path, e.to_string()))
}

/// Writes the three traces in the Common Trace Format into a folder that is new or empty; gives how many events each
/// holds.
///
/// # Errors
/// When the folder holds something, or can't be written.
pub fn write_ctf(folder: &Path, recording: &Recording) -> Result<ctf::Counts, ReportError> {
    let error = |op| move |e: io::Error| ReportError::io(op, folder, e);
    mpps_sys::private::open_folder(folder).map_err(error("open"))?;
    if std::fs::read_dir(folder).map_err(error("read"))?.next().is_some() {
        return Err(ReportError::malformed(
            folder,
            "it holds files: want a folder that is new or empty",
        ));
    }
    let (files, counts) = ctf::files(recording);
    for file in files {
        let path = folder.join(&file.path);
        let write = || {
            if let Some(parent) = path.parent() {
                mpps_sys::private::open_folder(parent)?;
            }
            mpps_sys::private::create(&path, rustix::fs::OFlags::empty())?.write_all(&file.bytes)
        };
        write().map_err(|e| ReportError::io("write", &path, e))?;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_or_no_trace_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.gz");
        let packed = packed_trace(&Recording::default());
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            read_trace(&path)
        };
        assert_eq!(read(&packed).expect("a trace"), Recording::default());
        for cut in 0..packed.len() {
            assert!(read(&packed[..cut]).is_err(), "{cut}");
        }
        let told = read(b"#!/bin/sh\n").expect_err("no trace").to_string();
        assert!(told.contains("no trace of mpps"), "{told}");
        // Unpacked it is read, too.
        let mut plain = Vec::new();
        perfetto::write(&Recording::default(), &mut plain).expect("memory takes it");
        assert_eq!(read(&plain).expect("a trace"), Recording::default());
    }
}
