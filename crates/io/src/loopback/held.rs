//! Frames held back until later ones of their flow have overtaken them.
//!
//! A frame is found by flow for each frame that arrives, and by age when nothing overtakes it. So each sits in two
//! linked lists over one slab: the chain of its hash bucket, and the list of all by age. Neither grows: there are never
//! more frames held than the pool has, so nothing allocates on the packet path and no flow count makes it slow.

/// No node.
const NIL: u32 = u32::MAX;

struct Node<F> {
    /// `None` while the node is free.
    frame: Option<F>,
    flow: Option<u32>,
    /// Frames that must still overtake it.
    remaining: u32,
    overtaken: bool,
    deadline_ns: u64,
    /// Next in the bucket's chain, or next free node.
    next: u32,
    older: u32,
    newer: u32,
}

/// Frames held back.
pub(super) struct Held<F> {
    nodes: Vec<Node<F>>,
    /// First and last node of each hash bucket's chain; a power of two of them.
    buckets: Box<[(u32, u32)]>,
    free: u32,
    oldest: u32,
    newest: u32,
}

impl<F> Held<F> {
    /// Room for `capacity` frames; more make it allocate.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
            buckets: vec![(NIL, NIL); capacity.max(1).next_power_of_two()].into_boxed_slice(),
            free: NIL,
            oldest: NIL,
            newest: NIL,
        }
    }

    /// Time in ns when the frame held longest is to be released; `None` when none is held.
    #[inline]
    pub(super) fn deadline(&self) -> Option<u64> {
        if self.oldest == NIL {
            None
        } else {
            Some(self.nodes[self.oldest as usize].deadline_ns)
        }
    }

    /// Holds a frame until `distance` others of its flow have overtaken it, or its deadline has come. Deadlines must
    /// not decrease from call to call.
    pub(super) fn hold(&mut self, frame: F, flow: Option<u32>, distance: u32, deadline_ns: u64) {
        let node = Node {
            frame: Some(frame),
            flow,
            remaining: distance.max(1),
            overtaken: false,
            deadline_ns,
            next: NIL,
            older: self.newest,
            newer: NIL,
        };
        let at = if self.free == NIL {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        match self.newest {
            NIL => self.oldest = at,
            newest => self.nodes[newest as usize].newer = at,
        }
        self.newest = at;
        let bucket = self.bucket(flow);
        match self.buckets[bucket] {
            (NIL, _) => self.buckets[bucket] = (at, at),
            (first, last) => {
                self.nodes[last as usize].next = at;
                self.buckets[bucket] = (first, at);
            }
        }
    }

    /// A frame of `flow` has arrived: passes every frame that it was the last to overtake to `release`, in the order
    /// they were held.
    #[inline]
    pub(super) fn overtake(&mut self, flow: Option<u32>, mut release: impl FnMut(F)) {
        if self.oldest == NIL {
            return;
        }
        let bucket = self.bucket(flow);
        let (mut before, mut at) = (NIL, self.buckets[bucket].0);
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            let next = node.next;
            let mut gone = false;
            if node.flow == flow {
                node.overtaken = true;
                node.remaining -= 1;
                gone = node.remaining == 0;
            }
            if gone {
                if let Some(frame) = self.unlink(bucket, before, at) {
                    release(frame);
                }
            } else {
                before = at;
            }
            at = next;
        }
    }

    /// Releases the frame held longest, and returns whether any frame has overtaken it.
    pub(super) fn expire(&mut self) -> Option<(F, bool)> {
        let at = self.oldest;
        if at == NIL {
            return None;
        }
        let Node { flow, overtaken, .. } = self.nodes[at as usize];
        let bucket = self.bucket(flow);
        let (mut before, mut here) = (NIL, self.buckets[bucket].0);
        while here != at {
            before = here;
            here = self.nodes[here as usize].next;
        }
        self.unlink(bucket, before, at).map(|frame| (frame, overtaken))
    }

    /// Takes node `at`, which follows `before` in the chain of `bucket`, out of both lists.
    fn unlink(&mut self, bucket: usize, before: u32, at: u32) -> Option<F> {
        let free = self.free;
        let node = &mut self.nodes[at as usize];
        let (frame, next, older, newer) = (node.frame.take(), node.next, node.older, node.newer);
        node.next = free;
        self.free = at;
        let (first, last) = &mut self.buckets[bucket];
        if *last == at {
            *last = before;
        }
        match before {
            NIL => *first = next,
            before => self.nodes[before as usize].next = next,
        }
        match older {
            NIL => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        frame
    }

    /// Fibonacci hashing: the high bits of the product.
    #[inline]
    fn bucket(&self, flow: Option<u32>) -> usize {
        let key = flow.map_or(0, |flow| u64::from(flow) + 1);
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.buckets.len() - 1)
    }
}
