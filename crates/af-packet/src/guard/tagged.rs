//! Guard for packets that are known by their tags: a program in C, compiled beforehand and embedded as an object.

use aya::programs::SchedClassifier;
use aya::{EbpfError, EbpfLoader};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The loader reads ELF structures in place.
#[repr(align(8))]
struct Object<T>(T);

/// Object file that `scripts/xdp.sh` builds. The folder is a link to the repository's `xdp/`.
static OBJECT: Object<[u8; include_bytes!("../../bpf/guard.bpf.o").len()]> =
    Object(*include_bytes!("../../bpf/guard.bpf.o"));

/// Loads the program that drops frames with a tag of `seed`.
pub(super) fn load(seed: u64) -> io::Result<OwnedFd> {
    let mut loaded = EbpfLoader::new()
        // No relocation against the kernel's types: reading them would take longer than all the rest.
        .btf(None)
        .override_global("SEED", &seed, true)
        .load(&OBJECT.0)
        .map_err(|e| match e {
            // Without CAP_BPF the loader takes the kernel for one before Linux 5.2, which has no constants.
            EbpfError::RelocationError(_) => io::Error::from_raw_os_error(libc::EPERM),
            e => cause(&e),
        })?;
    let program = loaded.program_mut("mpps_guard").ok_or(io::ErrorKind::NotFound)?;
    let program: &mut SchedClassifier = program.try_into().map_err(|e| cause(&e))?;
    program.load().map_err(|e| cause(&e))?;
    program.fd().map_err(|e| cause(&e))?.as_fd().try_clone_to_owned()
}

/// Returns the kernel's refusal behind a loader's error, or the error's own text.
fn cause(error: &(dyn Error + 'static)) -> io::Error {
    let mut behind = Some(error);
    while let Some(error) = behind {
        if let Some(number) = error.downcast_ref().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        behind = error.source();
    }
    io::Error::other(error.to_string())
}
