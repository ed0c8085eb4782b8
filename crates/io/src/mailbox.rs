//! How a lane that only receives gets its rare answers (ARP, neighbour discovery, ping) out.
//!
//! A queue of the device has one TX ring, and that belongs to the lane that sends. It looks here once per burst, which
//! is one load of a flag that hardly ever changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most answers that wait; more are dropped, as a full ring would.
const ROOM: usize = 64;

/// Frames that one lane leaves for another to send.
#[derive(Debug, Default)]
pub struct Mailbox {
    waiting: AtomicBool,
    letters: Mutex<Vec<Box<[u8]>>>,
}

impl Mailbox {
    /// Whether there is something to be sent.
    #[inline]
    pub fn waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Leaves a frame to be sent.
    pub fn post(&self, frame: &[u8]) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < ROOM {
            letters.push(frame.into());
            self.waiting.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all that waits.
    pub fn take(&self) -> Vec<Box<[u8]>> {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.store(false, Ordering::Relaxed);
        std::mem::take(&mut letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_out_in_order_and_once_and_a_full_box_takes_no_more() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.waiting() && mailbox.take().is_empty());
        for i in 0..ROOM as u8 + 3 {
            mailbox.post(&[i]);
        }
        assert!(mailbox.waiting());
        let letters = mailbox.take();
        assert_eq!(letters.len(), ROOM);
        assert!(letters.iter().enumerate().all(|(i, letter)| **letter == [i as u8]));
        assert!(!mailbox.waiting() && mailbox.take().is_empty());
    }
}
