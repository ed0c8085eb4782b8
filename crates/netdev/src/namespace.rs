//! Which network namespace this thread is in.

use std::io;
use std::os::fd::AsRawFd;

/// The cookie of the calling thread's network namespace: a number that no other has as long as the kernel runs, where
/// that of its inode goes to the next that is made. Source: `SO_NETNS_COOKIE` of socket(7).
///
/// # Errors
/// The kernel's; it has none before Linux 5.14.
pub fn netns_cookie() -> io::Result<u64> {
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: both point to values of ours that outlive the call; `len` says how large `cookie` is, and the kernel
    // writes at most as many bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_at_every_look() {
        match netns_cookie() {
            Ok(cookie) => assert!(cookie > 0 && netns_cookie().ok() == Some(cookie)),
            Err(error) => println!("SKIPPED: {error}"),
        }
    }
}
