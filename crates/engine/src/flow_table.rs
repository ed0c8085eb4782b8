//! Finds the flow of a packet on a receiver that does not know its senders: a fixed-size hash table, never grown.

/// Maps a flow's identity to a small number, in the order of first sight. Keys are 128-bit keyed hashes, so two flows
/// are taken for one with probability 2^-100 and nobody can choose addresses that collide.
#[derive(Debug)]
pub(crate) struct FlowTable {
    slots: Box<[(u128, u32)]>,
    len: u32,
    max: u32,
    key: u64,
}

impl FlowTable {
    pub(crate) fn new(max_flows: u32, key: u64) -> Self {
        let slots = (u64::from(max_flows.max(1)) * 2).next_power_of_two() as usize;
        Self { slots: vec![(0, 0); slots].into_boxed_slice(), len: 0, max: max_flows, key }
    }

    /// The number of the flow with these addresses (16 bytes each) and ports; `None` when the table is full.
    #[inline]
    pub(crate) fn flow(&mut self, src: u128, dst: u128, ports: u32) -> Option<u32> {
        let hash = self.hash(src, dst, ports);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (key, flow) = self.slots[at];
            if key == hash {
                return Some(flow);
            }
            if key == 0 {
                break;
            }
            at = (at + 1) & mask;
        }
        if self.len == self.max {
            return None;
        }
        self.slots[at] = (hash, self.len);
        self.len += 1;
        Some(self.len - 1)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Two independent multiply-fold lanes over the five words; never 0.
    #[inline]
    fn hash(&self, src: u128, dst: u128, ports: u32) -> u128 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let words = [src as u64, (src >> 64) as u64, dst as u64, (dst >> 64) as u64, u64::from(ports)];
        let (mut a, mut b) = (self.key ^ 0x9E37_79B9_7F4A_7C15, self.key.rotate_left(32) ^ 0xD6E8_FEB8_6659_FD93);
        for word in words {
            a = fold(a ^ word, 0xA076_1D64_78BD_642F ^ self.key);
            b = fold(b ^ word, 0xE703_7ED1_A0B4_28DB ^ self.key.rotate_left(17)).wrapping_add(a);
        }
        ((u128::from(a) << 64) | u128::from(b)) | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_numbered_in_order_of_sight_until_the_table_is_full() {
        let mut table = FlowTable::new(1000, 12345);
        for round in 0..2 {
            for i in 0..1000u32 {
                assert_eq!(table.flow(u128::from(i % 7), 1, i), Some(i), "round {round}");
            }
        }
        assert_eq!(table.flow(0, 1, 5000), None);
        assert_eq!(table.flow(0, 1, 0), Some(0));
        assert_eq!(table.len(), 1000);
    }
}
