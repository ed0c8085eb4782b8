//! Names of abstract Unix sockets in this network namespace, and the users that hold them.
//!
//! An abstract name lives as long as its socket: a process that ends, however it ends, gives it back.

use crate::netlink::{Request, attributes, u32_at};
use std::io;

/// Constants of `linux/sock_diag.h` and `linux/unix_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_UID: u32 = 1 << 6;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
/// Length of `struct unix_diag_msg`.
const UNIX_DIAG_MSG: usize = 16;

/// An abstract name, and the user that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbstractName {
    /// The name, without the zero byte in front of it.
    pub name: Vec<u8>,
    /// User that made the socket; `None` if the kernel does not report it.
    pub uid: Option<u32>,
}

/// Abstract names that begin with `prefix`, from the kernel's socket diagnosis, else from `/proc/net/unix`, which knows
/// no users.
///
/// # Errors
/// When neither can be read.
pub fn abstract_names(prefix: &[u8]) -> io::Result<Vec<AbstractName>> {
    diagnosed(prefix).or_else(|_| listed(prefix))
}

fn diagnosed(prefix: &[u8]) -> io::Result<Vec<AbstractName>> {
    let mut fixed = [0; 24];
    fixed[0] = libc::AF_UNIX as u8;
    // In any state.
    fixed[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    fixed[12..16].copy_from_slice(&(UDIAG_SHOW_NAME | UDIAG_SHOW_UID).to_ne_bytes());
    let mut names = Vec::new();
    Request::diagnosis(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &fixed).run(|kind, body| {
        if kind == SOCK_DIAG_BY_FAMILY {
            names.extend(name_in(body, prefix));
        }
    })?;
    Ok(names)
}

/// The name that an answer holds, if it is abstract and begins with `prefix`.
fn name_in(body: &[u8], prefix: &[u8]) -> Option<AbstractName> {
    let (mut name, mut uid) = (None, None);
    for (kind, value) in attributes(body, UNIX_DIAG_MSG) {
        match kind {
            UNIX_DIAG_NAME => name = value.strip_prefix(&[0]).filter(|name| name.starts_with(prefix)),
            UNIX_DIAG_UID => uid = u32_at(value, 0),
            _ => {}
        }
    }
    let name = name?.to_vec();
    Some(AbstractName { name, uid })
}

/// From `/proc/net/unix`: the last word of a line is the name, with `@` in place of the zero byte.
fn listed(prefix: &[u8]) -> io::Result<Vec<AbstractName>> {
    let text = std::fs::read("/proc/thread-self/net/unix")?;
    let names = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let name = line.rsplit(|byte| *byte == b' ').next()?.strip_prefix(b"@")?;
        let name = name.starts_with(prefix).then(|| name.to_vec())?;
        Some(AbstractName { name, uid: None })
    });
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn a_name_is_found_with_its_user_for_as_long_as_its_socket_is_open() {
        let prefix = format!("mpps-test-{}-", std::process::id());
        let name = format!("{prefix}one");
        let address = SocketAddr::from_abstract_name(&name).expect("short enough");
        let socket = UnixDatagram::bind_addr(&address).expect("a name that nobody has");
        let me = std::fs::metadata("/proc/self")
            .map(|me| std::os::unix::fs::MetadataExt::uid(&me))
            .expect("/proc");
        let held = |uid| {
            vec![AbstractName {
                name: name.clone().into_bytes(),
                uid,
            }]
        };
        // A sandbox may refuse one of the two.
        if let Ok(found) = diagnosed(prefix.as_bytes()) {
            assert_eq!(found, held(Some(me)));
        }
        assert_eq!(listed(prefix.as_bytes()).expect("/proc/net/unix"), held(None));
        assert_eq!(abstract_names(b"no such name").expect("a list"), []);
        drop(socket);
        assert_eq!(abstract_names(prefix.as_bytes()).expect("a list"), []);
    }

    #[test]
    fn answers_that_are_no_abstract_name_are_passed_over() {
        let mut body = vec![0; UNIX_DIAG_MSG];
        assert_eq!(name_in(&body, b""), None);
        body.extend([9, 0, 0, 0]);
        body.extend(b"/run/x\0\0");
        assert_eq!(name_in(&body, b""), None);
        body.truncate(UNIX_DIAG_MSG);
        body.extend([8, 0, 0, 0, 0, b'a', b'b', b'c']);
        body.extend([8, 0, 7, 0, 5, 0, 0, 0]);
        let found = name_in(&body, b"ab").map(|found| (found.name, found.uid));
        assert_eq!(found, Some((b"abc".to_vec(), Some(5))));
        assert_eq!(name_in(&body, b"b"), None);
    }
}
