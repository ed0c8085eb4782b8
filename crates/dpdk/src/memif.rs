//! The socket by which the two ends of a memif find each other, and who may connect to it.
//!
//! DPDK's own default is a name without a file: every user of the host can connect to it, and gets to write the memory
//! that packets are in. Ours is a file in a folder of the user's own. A socket that is named is as DPDK has it, with a
//! remark if others may be at the other end.

use crate::Config;
use dpdk_sys as sys;
use mpps_io::{Error, ErrorKind, Result};
use mpps_sys::memory::available;
use mpps_sys::private;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// The driver's name for a socket if none is given: that of DPDK since 22.11.
const DRIVERS: &str = "/run/memif.sock";
/// The name of ours, in the user's own folder.
const OURS: &str = "memif.sock";
/// Bytes of a buffer, as the driver has them.
const BUFFER: u16 = 2048;

/// The socket of a memif.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) path: String,
    /// A name without a file.
    pub(crate) is_abstract: bool,
    /// Nobody named it: it lies in the user's own folder.
    pub(crate) is_ours: bool,
    /// A secret is asked for, or given.
    secret: bool,
    server: bool,
}

impl Socket {
    /// The socket of a memif that lies at `folder` if none is named; `None`: another device.
    fn of(config: &Config, folder: &dyn Fn() -> io::Result<std::path::PathBuf>) -> io::Result<Option<Self>> {
        if config.driver() != "net_memif" {
            return Ok(None);
        }
        let named = config.driver_arg("socket");
        let kind = config.driver_arg("socket-abstract");
        let is_ours = named.is_none() && kind != Some("yes");
        let path = match named {
            Some(path) => path.to_owned(),
            None if is_ours => folder()?.join(OURS).display().to_string(),
            None => DRIVERS.to_owned(),
        };
        Ok(Some(Self {
            path,
            is_abstract: !is_ours && kind != Some("no"),
            is_ours,
            secret: config.driver_arg("secret").is_some(),
            server: !config.is_memif_client(),
        }))
    }

    /// The socket of a memif; its folder is made if it is ours.
    pub(crate) fn find(config: &Config) -> Result<Option<Self>> {
        Self::of(config, &private::runtime_folder).map_err(|error| {
            let cause = format!("no folder of your own for its socket: {error}: want socket=PATH,socket-abstract=no");
            Error::new("open", config.name.as_str(), cause, ErrorKind::Other)
        })
    }

    /// Returns the device arguments: those that the user wrote, and the path of the socket if it is ours.
    pub(crate) fn devargs(&self, written: String) -> String {
        match self.is_ours {
            true if written.contains(",socket-abstract=no") => format!("{written},socket={}", self.path),
            true => format!("{written},socket={},socket-abstract=no", self.path),
            false => written,
        }
    }

    /// The file that a server makes.
    pub(crate) fn file(&self) -> Option<&str> {
        (self.server && !self.is_abstract).then_some(self.path.as_str())
    }

    /// Removes the socket of a server that was killed: nobody listens on it any more, and DPDK would refuse to. What is
    /// no socket, or another user's, stays, and so does one that somebody has open, whether or not they listen or
    /// accept. A socket of this process's own stays, too: several servers share it, and the driver listens on it once.
    ///
    /// # Errors
    /// The obstacle at that path, and what would be right.
    pub(crate) fn remove_stale(&self) -> std::result::Result<(), (String, ErrorKind)> {
        let Some(path) = self.file().filter(|path| !served().iter().any(|own| own == path)) else {
            return Ok(());
        };
        let want = "want another socket=PATH";
        let there = match std::fs::symlink_metadata(path) {
            Ok(there) => there,
            Err(_) => return Ok(()),
        };
        if !there.file_type().is_socket() {
            let wrong = format!("socket={path}: there is a file of this name that is no socket: {want}");
            return Err((wrong, ErrorKind::NotFound));
        }
        let in_the_way = |what: String| Err((format!("socket={path}: {what}: {want}"), ErrorKind::Other));
        if there.uid() != rustix::process::geteuid().as_raw() {
            return in_the_way(format!("there is a socket of user {}", there.uid()));
        }
        match is_held(Path::new(path)) {
            Ok(false) => std::fs::remove_file(path).or_else(|error| in_the_way(error.to_string())),
            Ok(true) => in_the_way("another process listens there".to_owned()),
            Err(error) => in_the_way(error.to_string()),
        }
    }

    /// The server has made its file, or listens on that of one before it.
    pub(crate) fn serve(&self) -> Option<Served> {
        let path = self.file()?.to_owned();
        served().push(path.clone());
        Some(Served(path))
    }

    /// Nobody else may connect to a file of ours.
    pub(crate) fn close_to_others(&self) {
        if let Some(path) = self.file().filter(|_| self.is_ours) {
            // Its folder is closed to others already.
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
        }
    }

    /// Returns a note if other users may be at the other end.
    pub(crate) fn remark(&self, name: &str) -> Option<String> {
        if self.secret {
            return None;
        }
        let path = &self.path;
        if self.is_abstract {
            let can = if self.server { "connect to" } else { "listen on" };
            return Some(format!(
                "{name}: every user of this host can {can} the socket {path}, a name without a file: want no socket=, \
                 socket-abstract=no, or a secret="
            ));
        }
        let mode = std::fs::metadata(self.file()?).ok()?.permissions().mode();
        let closed = |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0);
        let open = mode & 0o022 != 0 && !Path::new(path).parent().is_some_and(closed);
        open.then(|| {
            format!("{name}: other users of this host can connect to the socket {path}: want no socket=, or umask 077")
        })
    }
}

/// Files that servers of this process listen on, one for each server.
static SERVED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn served() -> MutexGuard<'static, Vec<String>> {
    SERVED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A server of this process listens on the file, until this is dropped.
pub(crate) struct Served(String);

impl Drop for Served {
    fn drop(&mut self) {
        let mut served = served();
        if let Some(at) = served.iter().position(|path| *path == self.0) {
            served.swap_remove(at);
        }
    }
}

/// Whether somebody has a socket open, of whichever type. Asked by a datagram, which connects to none that a memif
/// or a vhost-user server could have: a DPDK of 22.11 aborts when one connects to its memif's server and goes at once.
pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    match connect(&socket, &address) {
        Err(Errno::CONNREFUSED) => Ok(false),
        // Another type than its own; EPERM: of its own, and it hears one sender only.
        Ok(()) | Err(Errno::PROTOTYPE | Errno::PERM) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that the host, and the limits of control groups, leave to this process, as they are now.
extern "C" fn memory_left() -> u64 {
    available().map_or(u64::MAX, |available| available.bytes)
}

/// Returns the shim's settings for a memif; `None`: its driver is left alone. Zero-copy is between ends that trust each
/// other: the server gets all of DPDK's memory.
pub(crate) fn conf(config: &Config, path: &std::ffi::CStr, queues: (u16, u16)) -> Option<sys::MemifConf> {
    let client = config.is_memif_client();
    let zero_copy = client
        && config
            .driver_arg("zero-copy")
            .is_some_and(|value| value.contains("yes"));
    (sys::MEMIF_CHECKED && !zero_copy).then(|| sys::MemifConf {
        path: path.as_ptr(),
        memory_left,
        id: config.driver_arg("id").and_then(|id| id.parse().ok()).unwrap_or(0),
        buffer: config
            .driver_arg("bsize")
            .and_then(|size| size.parse().ok())
            .unwrap_or(BUFFER),
        rx_queues: queues.0,
        tx_queues: queues.1,
        server: u8::from(!client),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(port: &str) -> Socket {
        let config = crate::check(&port.parse().expect("a port")).expect("valid");
        let found = Socket::of(&config, &|| Ok("/own".into())).expect("a folder");
        found.expect("a memif")
    }

    #[test]
    fn a_socket_that_nobody_names_is_a_file_of_ones_own_and_one_that_is_named_is_as_it_is_written() {
        let both = ["dpdk:net_memif0,role=server", "dpdk:net_memif0"].map(socket);
        for ours in &both {
            assert_eq!(
                (ours.path.as_str(), ours.is_abstract, ours.remark("x")),
                ("/own/memif.sock", false, None)
            );
        }
        assert_eq!((both[0].file(), both[1].file()), (Some("/own/memif.sock"), None));
        assert_eq!(
            both[1].devargs("net_memif0".into()),
            "net_memif0,socket=/own/memif.sock,socket-abstract=no"
        );
        let file = socket("dpdk:net_memif0,role=server,socket-abstract=no");
        assert_eq!(
            file.devargs("net_memif0,role=server,socket-abstract=no".into()),
            "net_memif0,role=server,socket-abstract=no,socket=/own/memif.sock"
        );
        let named = socket("dpdk:net_memif0,role=server,socket=/x/y");
        assert_eq!((named.is_abstract, named.file()), (true, None));
        assert_eq!(named.devargs("as,written".into()), "as,written");
    }

    #[test]
    fn a_name_without_a_file_or_a_secret_is_remarked_on_at_both_ends() {
        for (port, word) in [
            ("dpdk:net_memif0,role=server,socket=/x/y", "connect to the socket /x/y"),
            ("dpdk:net_memif0,socket=/x/y", "listen on the socket /x/y"),
            (
                "dpdk:net_memif0,role=server,socket-abstract=yes",
                "connect to the socket /run/memif.sock",
            ),
        ] {
            let remark = socket(port).remark("NAME").expect(port);
            assert!(
                remark.starts_with("NAME: every user") && remark.contains(word),
                "{remark}"
            );
        }
        assert_eq!(
            socket("dpdk:net_memif0,role=server,socket=/x/y,secret=s").remark("x"),
            None
        );
    }
}
