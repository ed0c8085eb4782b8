//! Finds the flow of a packet on a receiver that does not know its senders: a fixed-size hash table, never grown.

/// Maps a flow's identity to a small number, in the order of first sight. IPv4 flows are identified by all 96 bits of
/// their addresses and ports, IPv6 flows by a keyed 126-bit hash of them. The place of a flow in the table is keyed, so
/// nobody can choose addresses that collide.
#[derive(Debug)]
pub(crate) struct FlowTable {
    slots: Box<[(u128, u32)]>,
    len: u32,
    max: u32,
    key: u64,
}

/// Marks of the key's origin, so that no key is 0 (an empty slot) and families never meet.
const V4: u128 = 1 << 126;
const V6: u128 = 1 << 127;
const MAC: u128 = 1 << 125;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl FlowTable {
    fn slots(max_flows: u32) -> u64 {
        (u64::from(max_flows.max(1)) * 2).next_power_of_two()
    }

    /// Returns bytes of a table for so many flows.
    pub(crate) fn bytes(max_flows: u32) -> u64 {
        Self::slots(max_flows) * size_of::<(u128, u32)>() as u64
    }

    pub(crate) fn new(max_flows: u32, key: u64) -> Self {
        let slots = Self::slots(max_flows) as usize;
        Self {
            slots: vec![(0, 0); slots].into_boxed_slice(),
            len: 0,
            max: max_flows,
            key,
        }
    }

    /// Returns the number of the flow with these addresses and ports (source in the upper half); `None` when the table
    /// is full.
    #[inline]
    pub(crate) fn flow_v4(&mut self, src: u32, dst: u32, ports: u32) -> Option<u32> {
        self.find(V4 | u128::from(ports) << 64 | u128::from(src) << 32 | u128::from(dst))
    }

    /// Returns the number of an IPv6 flow, as [`FlowTable::flow_v4`] does.
    #[inline]
    pub(crate) fn flow_v6(&mut self, src: u128, dst: u128, ports: u32) -> Option<u32> {
        let words = [
            src as u64,
            (src >> 64) as u64,
            dst as u64,
            (dst >> 64) as u64,
            u64::from(ports),
        ];
        let (mut a, mut b) = (
            self.key ^ 0x9E37_79B9_7F4A_7C15,
            self.key.rotate_left(32) ^ 0xD6E8_FEB8_6659_FD93,
        );
        for word in words {
            a = fold(a ^ word, 0xA076_1D64_78BD_642F ^ self.key);
            b = fold(b ^ word, 0xE703_7ED1_A0B4_28DB ^ self.key.rotate_left(17)).wrapping_add(a);
        }
        self.find(V6 | ((u128::from(a) << 64 | u128::from(b)) >> 2))
    }

    /// Returns the number of a flow that is identified by its source's MAC address and a number, as
    /// [`FlowTable::flow_v4`] does.
    #[inline]
    pub(crate) fn flow_mac(&mut self, src: [u8; 6], number: u32) -> Option<u32> {
        let src = src.iter().fold(0, |src, byte| src << 8 | u128::from(*byte));
        self.find(MAC | src << 32 | u128::from(number))
    }

    #[inline]
    fn find(&mut self, wanted: u128) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = fold(wanted as u64 ^ self.key, (wanted >> 64) as u64 ^ 0x9E37_79B9_7F4A_7C15) as usize & mask;
        loop {
            let (key, flow) = self.slots[at];
            if key == wanted {
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
        self.slots[at] = (wanted, self.len);
        self.len += 1;
        Some(self.len - 1)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
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
                let found = match i % 3 {
                    0 => table.flow_v4(i % 7, 1, i),
                    1 => table.flow_v6(u128::from(i % 7), 1, i),
                    _ => table.flow_mac([0, 0, 0, 0, 0, 1], i),
                };
                assert_eq!(found, Some(i), "round {round}");
            }
        }
        assert_eq!(table.flow_v4(0, 1, 5000), None);
        assert_eq!(table.flow_v4(0, 1, 0), Some(0));
        assert_eq!(table.len(), 1000);
    }
}
