//! From an object to loaded programs and maps in our memory.

use crate::abi::Plan;
use crate::error::of;
use aya::maps::{DevMap, Map, MapData};
use aya::programs::{RawTracePoint, Xdp};
use aya::{Ebpf, EbpfLoader};
use mpps_io::{Error, ErrorKind, Result};
use mpps_sys::map::{Mapping, Shared};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The loader reads ELF structures in place.
#[repr(align(8))]
pub(crate) struct Object<T>(pub(crate) T);

/// An object as `scripts/xdp.sh` builds it. The folder is a link to the repository's `xdp/`.
macro_rules! object {
    ($name:ident, $file:literal) => {
        static $name: Object<[u8; include_bytes!(concat!("../bpf/", $file)).len()]> =
            Object(*include_bytes!(concat!("../bpf/", $file)));
    };
}

object!(TRAFFIC, "traffic.bpf.o");
object!(REFLECT, "reflect.bpf.o");
object!(DROP, "drop.bpf.o");
object!(FORWARD, "forward.bpf.o");

/// Which programs are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Traffic,
    Reflect,
    Drop,
    Forward,
}

impl Which {
    pub(crate) fn object(self) -> &'static [u8] {
        match self {
            Self::Traffic => &TRAFFIC.0,
            Self::Reflect => &REFLECT.0,
            Self::Drop => &DROP.0,
            Self::Forward => &FORWARD.0,
        }
    }
}

/// Maps and constants that an object is to have.
pub(crate) struct Wanted<'a> {
    pub(crate) which: Which,
    pub(crate) plan: &'a Plan,
    /// Further constants by name, as they lie in the program's memory.
    pub(crate) constants: Vec<(&'static str, Vec<u8>)>,
    /// Entries of maps by name; others have the one of their source.
    pub(crate) entries: &'a [(&'static str, u32)],
}

/// An object in the kernel: its maps, and those of its programs that were asked for.
#[derive(Debug)]
pub(crate) struct Loaded {
    object: Arc<str>,
    ebpf: Ebpf,
    /// The kernel's types are known, so that programs which read its structures can be loaded.
    typed: bool,
}

const LOAD: &str = "load XDP programs for";
/// File in which a kernel describes its types (BTF), if it does.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

impl Loaded {
    /// Makes the maps.
    pub(crate) fn new(device: &str, wanted: &Wanted<'_>) -> Result<Loaded> {
        let object: Arc<str> = device.into();
        // The loader reads the kernel's types, some megabytes, by itself.
        let mut loader = EbpfLoader::new();
        loader.override_global("PLAN", wanted.plan, true);
        for (name, value) in &wanted.constants {
            loader.override_global(name, &value[..], true);
        }
        for (name, entries) in wanted.entries {
            loader.map_max_entries(name, *entries);
        }
        let ebpf = loader
            .load(wanted.which.object())
            .map_err(|e| of(xsk::load_failure("make the maps of XDP programs for", &object, &e)))?;
        Ok(Loaded {
            object,
            ebpf,
            typed: File::open(KERNEL_TYPES).is_ok(),
        })
    }

    fn missing(&self, what: &str) -> Error {
        let cause = format!("the object has no {what}");
        Error::new(LOAD, self.object.clone(), cause, ErrorKind::Other)
    }

    fn failed(&self, error: &dyn std::error::Error) -> Error {
        of(xsk::load_failure(LOAD, &self.object, error))
    }

    /// The elements of a map, in our memory.
    pub(crate) fn map<T: Shared>(&self, name: &str, entries: u32) -> Result<Mapping<T>> {
        let map = self.ebpf.map(name).and_then(data).ok_or_else(|| self.missing(name))?;
        Mapping::new(map.fd().as_fd(), entries as usize)
            .map_err(|e| Error::os("map the counters of", self.object.clone(), &e))
    }

    /// Puts interfaces, by index, into a map of devices.
    pub(crate) fn devices(&mut self, name: &str, indices: &[u32]) -> Result<()> {
        let missing = self.missing(name);
        let object = self.object.clone();
        let failed = |e: &dyn std::error::Error| of(xsk::load_failure("lead packets between devices from", &object, e));
        let map = self.ebpf.map_mut(name).ok_or(missing)?;
        let mut map = DevMap::try_from(map).map_err(|e| failed(&e))?;
        for (place, &index) in indices.iter().enumerate() {
            map.set(place as u32, index, None, 0).map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    /// Loads an XDP program, and returns a descriptor of it.
    pub(crate) fn xdp(&mut self, name: &str) -> Result<OwnedFd> {
        let missing = self.missing(name);
        let object = self.object.clone();
        let failed = |e: &dyn std::error::Error| of(xsk::load_failure(LOAD, &object, e));
        let program = self.ebpf.program_mut(name).ok_or(missing)?;
        let program: &mut Xdp = program
            .try_into()
            .map_err(|e: aya::programs::ProgramError| failed(&e))?;
        program.load().map_err(|e| failed(&e))?;
        let descriptor = program.fd().map_err(|e| failed(&e))?;
        descriptor
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| Error::os(LOAD, object.clone(), &e))
    }

    /// The programs that are in the kernel, by name.
    pub(crate) fn programs(&self) -> Vec<(String, OwnedFd)> {
        let loaded = self.ebpf.programs().filter_map(|(name, program)| {
            let descriptor = program.fd().ok()?.as_fd().try_clone_to_owned().ok()?;
            Some((name.to_owned(), descriptor))
        });
        let mut loaded: Vec<_> = loaded.collect();
        loaded.sort_by(|a, b| a.0.cmp(&b.0));
        loaded
    }

    /// Loads a program for a tracepoint and attaches it, until this is dropped. Returns false if the kernel has no such
    /// tracepoint, or does not describe its types and the program needs them.
    pub(crate) fn tap(&mut self, name: &str, tracepoint: &str, typed: bool) -> Result<bool> {
        if typed && !self.typed {
            return Ok(false);
        }
        let missing = self.missing(name);
        let program = self.ebpf.program_mut(name).ok_or(missing)?;
        let attached = (|| {
            let program: &mut RawTracePoint = program.try_into()?;
            program.load()?;
            program.attach(tracepoint)
        })();
        match attached {
            Ok(_) => Ok(true),
            Err(aya::programs::ProgramError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => {
                Ok(false)
            }
            Err(e) => Err(self.failed(&e)),
        }
    }
}

/// Returns the data that all kinds of maps have in common.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::PerCpuArray(data) | Map::DevMap(data) => Some(data),
        _ => None,
    }
}
