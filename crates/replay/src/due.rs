//! Times at which packets are due, from the times of a capture, which may go backwards.

use crate::error::Fault;

/// Due times of packets in the order of the file: each is the latest time so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dues {
    /// Time of the first packet that has one, ns since 1970.
    first: Option<i128>,
    /// Latest time so far, ns after the first.
    pub(crate) latest_ns: u64,
    /// Packets with an earlier time than one before them.
    pub(crate) backwards: u64,
    /// Largest time by which one was earlier, ns.
    pub(crate) step_back_ns: u64,
}

impl Dues {
    /// Returns when the next packet is due, ns after the first: at its time (ns since 1970), but not before the packet
    /// before it; without a time, with that one.
    ///
    /// # Errors
    /// [`Fault::Time`]: 2^64 ns or more after the first.
    #[inline]
    pub(crate) fn next(&mut self, time: Option<i128>) -> Result<u64, Fault> {
        if let Some(time) = time {
            let after = time - *self.first.get_or_insert(time);
            let latest = i128::from(self.latest_ns);
            if after < latest {
                self.backwards += 1;
                let back = u64::try_from(latest - after).unwrap_or(u64::MAX);
                self.step_back_ns = self.step_back_ns.max(back);
            } else {
                self.latest_ns = u64::try_from(after).map_err(|_| Fault::Time)?;
            }
        }
        Ok(self.latest_ns)
    }
}
