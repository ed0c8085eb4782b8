//! The sends that the kernel has not finished, and the buffers that are theirs until then. Pure book-keeping.
//!
//! A send is one submission: a datagram, or a run of them as one segmented packet. It ends with a completion; a
//! zero-copy send has a second one, the notification, and only that frees its buffers. A send that the kernel did not
//! take for now (the socket is full) waits for another try, in the order of the first.

use std::collections::VecDeque;

/// Event that a send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None: the slot has no send.
    Free,
    /// The result of the send.
    Submitted,
    /// Another try.
    Retry,
    /// Notifications: the kernel may still read its buffers.
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    /// Datagrams, each with a hold of its buffer.
    frames: u16,
    /// Notifications that are due: one for each try by zero copy.
    notifications: u16,
    /// Tries that ended with an error which a second try clears.
    tries: u8,
    socket: u32,
    /// Order of the first try.
    number: u64,
}

const FREE: Slot = Slot {
    state: State::Free,
    frames: 0,
    notifications: 0,
    tries: 0,
    socket: 0,
    number: 0,
};

/// The sends of a lane. None of this allocates once it is made.
#[derive(Debug)]
pub(crate) struct Sends {
    slots: Box<[Slot]>,
    /// Buffers of the sends: those of slot `i` begin at `i * run`.
    buffers: Box<[u32]>,
    /// Most datagrams of one send.
    run: usize,
    free: Vec<u16>,
    retry: VecDeque<u16>,
    unresolved: usize,
    frames: usize,
    next: u64,
}

impl Sends {
    /// At most `slots` sends of at most `run` datagrams each.
    pub(crate) fn new(slots: u16, run: usize) -> Self {
        Self {
            slots: vec![FREE; usize::from(slots)].into_boxed_slice(),
            buffers: vec![0; usize::from(slots) * run].into_boxed_slice(),
            run,
            free: (0..slots).rev().collect(),
            retry: VecDeque::with_capacity(usize::from(slots)),
            unresolved: 0,
            frames: 0,
            next: 0,
        }
    }

    /// Begins a send on `socket`; `None`: as many as there may be are under way.
    #[inline]
    pub(crate) fn begin(&mut self, socket: u32) -> Option<u16> {
        let slot = self.free.pop()?;
        self.slots[usize::from(slot)] = Slot {
            state: State::Submitted,
            socket,
            number: self.next,
            ..FREE
        };
        self.next += 1;
        self.unresolved += 1;
        Some(slot)
    }

    /// Gives the send another datagram, whose buffer it holds from now on.
    #[inline]
    pub(crate) fn hold(&mut self, slot: u16, buffer: u32) {
        let at = usize::from(slot);
        let frames = usize::from(self.slots[at].frames);
        assert!(frames < self.run);
        self.buffers[at * self.run + frames] = buffer;
        self.slots[at].frames += 1;
        self.frames += 1;
    }

    /// The result of a send has come, and is final; `notification`: one is still due.
    #[inline]
    pub(crate) fn finished(&mut self, slot: u16, notification: bool, release: impl FnMut(u32)) {
        let at = usize::from(slot);
        debug_assert_eq!(self.slots[at].state, State::Submitted);
        self.unresolved -= 1;
        self.slots[at].notifications += u16::from(notification);
        self.slots[at].state = State::Done;
        self.free_if_over(slot, release);
    }

    /// The kernel did not take a send for now.
    pub(crate) fn again(&mut self, slot: u16, notification: bool) {
        let at = usize::from(slot);
        debug_assert_eq!(self.slots[at].state, State::Submitted);
        self.unresolved -= 1;
        self.slots[at].notifications += u16::from(notification);
        self.slots[at].state = State::Retry;
        let number = self.slots[at].number;
        let after = self
            .retry
            .iter()
            .rposition(|&other| self.slots[usize::from(other)].number < number);
        self.retry.insert(after.map_or(0, |i| i + 1), slot);
    }

    /// The kernel has done with the buffers of one try of a send.
    pub(crate) fn notified(&mut self, slot: u16, release: impl FnMut(u32)) {
        let at = usize::from(slot);
        debug_assert!(self.slots[at].notifications > 0);
        self.slots[at].notifications = self.slots[at].notifications.saturating_sub(1);
        self.free_if_over(slot, release);
    }

    #[inline]
    fn free_if_over(&mut self, slot: u16, mut release: impl FnMut(u32)) {
        let at = usize::from(slot);
        let Slot {
            state: State::Done,
            notifications: 0,
            frames,
            ..
        } = self.slots[at]
        else {
            return;
        };
        for &buffer in &self.buffers[at * self.run..][..usize::from(frames)] {
            release(buffer);
        }
        self.frames -= usize::from(frames);
        self.slots[at].state = State::Free;
        self.free.push(slot);
    }

    /// The send whose turn it is to be tried again.
    pub(crate) fn first_retry(&self) -> Option<u16> {
        self.retry.front().copied()
    }

    /// Sends that wait for another try.
    pub(crate) fn retries(&self) -> usize {
        self.retry.len()
    }

    /// The send of [`Sends::first_retry`] is with the kernel again.
    pub(crate) fn resubmitted(&mut self) {
        if let Some(slot) = self.retry.pop_front() {
            self.slots[usize::from(slot)].state = State::Submitted;
            self.unresolved += 1;
        }
    }

    /// Counts a try that ended with an error which a second try clears; returns how many there were.
    pub(crate) fn tried(&mut self, slot: u16) -> u8 {
        let tries = &mut self.slots[usize::from(slot)].tries;
        *tries = tries.saturating_add(1);
        *tries
    }

    /// Whether this slot waits for a result, so that a completion may name it.
    pub(crate) fn awaits_result(&self, slot: u16) -> bool {
        self.slots
            .get(usize::from(slot))
            .is_some_and(|s| s.state == State::Submitted)
    }

    /// Whether a notification may name this slot.
    pub(crate) fn awaits_notification(&self, slot: u16) -> bool {
        self.slots.get(usize::from(slot)).is_some_and(|s| s.notifications > 0)
    }

    /// Whether a send that was begun before this one still waits for another try.
    pub(crate) fn overtakes(&self, slot: u16) -> bool {
        let number = |slot: u16| self.slots[usize::from(slot)].number;
        self.first_retry().is_some_and(|first| number(first) < number(slot))
    }

    /// Datagrams of a send.
    #[inline]
    pub(crate) fn frames_of(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].frames.into()
    }

    /// The socket that a send is for.
    #[inline]
    pub(crate) fn socket_of(&self, slot: u16) -> u32 {
        self.slots[usize::from(slot)].socket
    }

    /// Sends whose result is not known.
    #[inline]
    pub(crate) fn unresolved(&self) -> usize {
        self.unresolved
    }

    /// Sends that can be begun.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Datagrams of all sends that are under way.
    #[inline]
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Sends that hold buffers.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The buffers of all sends that are under way, one for each hold.
    pub(crate) fn held(&self) -> impl Iterator<Item = u32> + '_ {
        let busy = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.state != State::Free);
        busy.flat_map(|(at, slot)| {
            self.buffers[at * self.run..][..usize::from(slot.frames)]
                .iter()
                .copied()
        })
    }

    /// Gives up all sends, when the ring is gone; returns the number of datagrams that were never known to be sent.
    pub(crate) fn abandon(&mut self, mut release: impl FnMut(u32)) -> u64 {
        let mut unsent = 0;
        for at in 0..self.slots.len() {
            let slot = self.slots[at];
            if slot.state == State::Free {
                continue;
            }
            if slot.state != State::Done {
                unsent += u64::from(slot.frames);
            }
            for &buffer in &self.buffers[at * self.run..][..usize::from(slot.frames)] {
                release(buffer);
            }
            self.slots[at] = FREE;
            self.free.push(at as u16);
        }
        self.retry.clear();
        (self.unresolved, self.frames) = (0, 0);
        unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A buffer is released once, and only when the result is final and every notification has come: whatever the
        /// kernel answers, in whatever order.
        #[test]
        fn each_buffer_is_released_once(steps in prop::collection::vec((0u8..5, any::<u8>(), any::<bool>()), 0..400)) {
            let mut sends = Sends::new(8, 4);
            let mut next = 0;
            let mut out = std::collections::HashSet::new();
            let mut open: Vec<(u16, u64)> = Vec::new();
            let mut due: Vec<u16> = Vec::new();
            let mut number = 0;
            for (step, pick, more) in steps {
                let mut released = Vec::new();
                match step {
                    0 => if let Some(slot) = sends.begin(7) {
                        for _ in 0..1 + pick % 4 {
                            sends.hold(slot, next);
                            out.insert(next);
                            next += 1;
                        }
                        open.push((slot, number));
                        number += 1;
                        prop_assert_eq!(sends.socket_of(slot), 7);
                    },
                    1 | 2 if !open.is_empty() => {
                        let (slot, _) = open.swap_remove(usize::from(pick) % open.len());
                        prop_assert!(sends.awaits_result(slot));
                        if more { due.push(slot); }
                        if step == 1 {
                            sends.finished(slot, more, |b| released.push(b));
                        } else {
                            sends.again(slot, more);
                        }
                    }
                    3 if !due.is_empty() => {
                        let slot = due.swap_remove(usize::from(pick) % due.len());
                        prop_assert!(sends.awaits_notification(slot));
                        sends.notified(slot, |b| released.push(b));
                    }
                    4 => if let Some(slot) = sends.first_retry() {
                        sends.resubmitted();
                        open.push((slot, 0));
                    },
                    _ => {}
                }
                for buffer in released {
                    prop_assert!(out.remove(&buffer), "released twice");
                }
                prop_assert_eq!(sends.unresolved(), open.len());
                prop_assert_eq!(sends.frames(), out.len());
                let mut held: Vec<_> = sends.held().collect();
                held.sort_unstable();
                let mut all: Vec<_> = out.iter().copied().collect();
                all.sort_unstable();
                prop_assert_eq!(held, all);
            }
            let mut left = 0;
            sends.abandon(|b| { assert!(out.remove(&b)); left += 1; });
            prop_assert!(out.is_empty());
            prop_assert_eq!((sends.room(), sends.under_way(), sends.frames()), (8, 0, 0));
        }

        #[test]
        fn sends_are_tried_again_in_the_order_of_their_first_try(
            order in Just((0u16..8).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut sends = Sends::new(8, 1);
            let slots: Vec<u16> = (0..8).map(|_| sends.begin(0).expect("room")).collect();
            prop_assert_eq!(sends.begin(0), None);
            for &i in &order {
                sends.again(slots[usize::from(i)], false);
            }
            for &slot in &slots {
                prop_assert_eq!(sends.first_retry(), Some(slot));
                sends.resubmitted();
            }
            prop_assert_eq!((sends.retries(), sends.unresolved()), (0, 8));
        }
    }

    #[test]
    fn a_send_that_was_put_off_is_overtaken_by_later_ones_only() {
        let mut sends = Sends::new(4, 1);
        let slots: Vec<u16> = (0..3).map(|_| sends.begin(0).expect("room")).collect();
        sends.again(slots[1], false);
        assert!(!sends.overtakes(slots[0]) && sends.overtakes(slots[2]));
        assert_eq!((sends.tried(slots[1]), sends.tried(slots[1])), (1, 2));
        // Sends that were given up were never sent; a send that only waits for its notification was.
        for slot in &slots {
            sends.hold(*slot, u32::from(*slot));
        }
        sends.finished(slots[0], true, |_| panic!("the kernel still reads it"));
        assert_eq!(sends.abandon(|_| {}), 2);
    }
}
