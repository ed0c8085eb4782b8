//! Streams by the time of their next departure, the earliest first: a heap in one array.

/// Streams with their next departures. Of two at the same time, the one with the lower number comes first.
#[derive(Debug)]
pub(crate) struct Earliest {
    /// Time of the next departure, ns, and the stream; each entry is not later than the two at twice its place.
    heap: Vec<(u64, u32)>,
}

impl Earliest {
    /// Makes the heap of streams 0, 1, …, whose next departures are at these times, ns; `u64::MAX`: it has none.
    pub(crate) fn new(due: impl Iterator<Item = u64>) -> Self {
        let mut heap: Vec<(u64, u32)> = due.zip(0..).collect();
        // A sorted array is a heap.
        heap.sort_unstable();
        Self { heap }
    }

    /// Returns the earliest departure, ns, and its stream.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        self.heap.first().map(|(due, stream)| (*due, *stream as usize))
    }

    /// Sets the next departures of streams 0, 1, …, of which there are as many as before.
    #[cold]
    pub(crate) fn set_all(&mut self, due: impl Iterator<Item = u64>) {
        for (entry, next) in self.heap.iter_mut().zip(due.zip(0..)) {
            *entry = next;
        }
        self.heap.sort_unstable();
    }

    /// Sets the next departure of the stream that is first.
    #[inline]
    pub(crate) fn set_first(&mut self, due: u64) {
        let Some(&(_, stream)) = self.heap.first() else { return };
        let moved = (due, stream);
        let mut at = 0;
        loop {
            let child = 2 * at + 1;
            let Some(mut least) = self.heap.get(child).copied() else {
                break;
            };
            let mut place = child;
            if let Some(&right) = self.heap.get(child + 1)
                && right < least
            {
                (least, place) = (right, child + 1);
            }
            if moved <= least {
                break;
            }
            self.heap[at] = least;
            at = place;
        }
        self.heap[at] = moved;
    }

    /// Calls `visit` with each stream whose next departure is due by `now_ns`, until it returns false.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64, mut visit: impl FnMut(usize) -> bool) {
        // What is not due has none below it that is.
        let mut open = [0; 64];
        let mut depth = 1;
        while depth > 0 {
            depth -= 1;
            let at: usize = open[depth];
            let Some(&(_, stream)) = self.heap.get(at).filter(|(due, _)| *due <= now_ns) else {
                continue;
            };
            if !visit(stream as usize) {
                return;
            }
            if depth + 2 <= open.len() {
                open[depth] = 2 * at + 1;
                open[depth + 1] = 2 * at + 2;
                depth += 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn departures_come_in_their_order(steps in proptest::collection::vec(1u64..50, 1..300), until in 0u64..400) {
            let mut earliest = Earliest::new(steps.iter().map(|step| step / 2));
            let mut next: Vec<u64> = steps.iter().map(|step| step / 2).collect();
            while let Some((due, stream)) = earliest.first().filter(|(due, _)| *due < until) {
                let least = next.iter().enumerate().map(|(stream, due)| (*due, stream)).min();
                prop_assert_eq!(least, Some((due, stream)));
                next[stream] += steps[stream];
                earliest.set_first(next[stream]);
            }
            let mut due = Vec::new();
            earliest.due(until + 10, |stream| {
                due.push(stream);
                true
            });
            due.sort_unstable();
            let all: Vec<usize> = (0..next.len()).filter(|stream| next[*stream] <= until + 10).collect();
            prop_assert_eq!(due, all);
        }
    }
}
