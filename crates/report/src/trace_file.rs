//! Traces as files: packed on their way out, unpacked on their way in.

use crate::{JsonTarget, ReportError};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use mpps_trace::{Recording, ctf, perfetto};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Memory that a trace may take if the host does not report how much it has, bytes.
const MEMORY: u64 = 1 << 30;
/// First bytes of a gzipped file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Returns the bytes of a trace file: a Perfetto trace, gzipped.
pub fn packed_trace(recording: &Recording) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
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
/// When it can't be read, or is not a trace of this program.
pub fn read_trace(path: &Path) -> Result<Recording, ReportError> {
    trace_from(path, File::open(path).map_err(|e| ReportError::io("read", path, e))?)
}

/// Reads a trace like [`read_trace`], from the bytes of a file of that name.
///
/// # Errors
/// Same as [`read_trace`].
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
    // Half of the free memory: tables and pictures of the trace need room too.
    let most = mpps_sys::memory::available().map_or(MEMORY, |there| there.bytes / 2);
    // Unpacked while it is read: a few packed bytes from a stranger may become gigabytes.
    let read = match begin == GZIP {
        true => mpps_trace::read_from(&mut BufReader::new(MultiGzDecoder::new(whole)), most),
        false => mpps_trace::read_from(&mut BufReader::new(whole), most),
    };
    // The part that could be unpacked of a truncated file is not a whole trace either.
    let read = read.map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ReportError::malformed(path, format!("it is damaged: {e}"))
        }
        _ => error(e),
    })?;
    read.map_err(|e| ReportError::malformed(path, e.to_string()))
}

/// Writes the three traces in the Common Trace Format into a folder that is new or empty. Returns the number of events
/// in each.
///
/// # Errors
/// When the folder is not empty, or can't be written.
pub fn write_ctf(folder: &Path, recording: &Recording) -> Result<ctf::Counts, ReportError> {
    let error = |op| move |e: io::Error| ReportError::io(op, folder, e);
    let was_there = folder.symlink_metadata().is_ok();
    mpps_sys::private::open_folder(folder).map_err(error("open"))?;
    if std::fs::read_dir(folder).map_err(error("read"))?.next().is_some() {
        return Err(ReportError::malformed(
            folder,
            "it holds files: want a folder that is new or empty",
        ));
    }
    let mut made: Vec<PathBuf> = Vec::new();
    let written = ctf::write(recording, |path| {
        let path = folder.join(path);
        made.push(path.clone());
        if let Some(parent) = path.parent() {
            mpps_sys::private::open_folder(parent)?;
        }
        mpps_sys::private::create(&path, rustix::fs::OFlags::empty())
    });
    written.map_err(|e| {
        // An incomplete trace is useless, and would block the next attempt.
        let at = made.last().map_or(folder, PathBuf::as_path).to_owned();
        made.iter().rev().for_each(|path| _ = mpps_sys::private::remove(path));
        let folders = made.iter().filter_map(|path| path.parent());
        folders
            .filter(|above| *above != folder)
            .for_each(|above| _ = std::fs::remove_dir(above));
        if !was_there {
            let _ = std::fs::remove_dir(folder);
        }
        ReportError::io("write", &at, e)
    })
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
