//! Number that a submission carries and its completion returns: the kind of the request, and which of that kind.

/// Receiving, from which of the lane's sockets.
pub(crate) const RECEIVE: u32 = 1;
/// A send, by its slot.
pub(crate) const SEND: u32 = 2;
/// Waiting for room to send.
pub(crate) const WRITABLE: u32 = 3;
/// The end of all others.
pub(crate) const CANCEL: u32 = 4;

#[inline]
pub(crate) fn user_data(what: u32, which: u32) -> u64 {
    u64::from(what) << 32 | u64::from(which)
}

/// Splits the number into the kind of the request and which of that kind.
#[inline]
pub(crate) fn parts(user_data: u64) -> (u32, u32) {
    ((user_data >> 32) as u32, user_data as u32)
}
