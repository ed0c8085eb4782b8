//! Flow rules on a device: from a rule to the driver's rte_flow, checked, made, counted and removed.

use crate::counters::interned;
use crate::eal;
use dpdk_sys::{self as sys, FLOW_ACTIONS, FLOW_BYTES, FLOW_ITEMS, FLOW_QUEUES, FlowAction, FlowItem, FlowRule};
use mpps_flow::{Action, Item, Masked, Rule};
use mpps_io::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Rules in force on one port, removed with [`Flows::remove`].
#[derive(Default)]
pub(crate) struct Flows {
    port: u16,
    rules: Mutex<Vec<(NonNull<c_void>, bool)>>,
}

// SAFETY: the handles are only given back to DPDK, under the mutex.
unsafe impl Send for Flows {}
// SAFETY: as above.
unsafe impl Sync for Flows {}

impl Flows {
    /// Checks all rules with the driver, then makes them.
    ///
    /// # Errors
    /// The driver's reason for the first that it refuses; none is then in force.
    pub(crate) fn make(port: u16, name: &str, driver: &str, rules: &[Rule]) -> Result<Self> {
        let flows = Self {
            port,
            rules: Mutex::new(Vec::with_capacity(rules.len())),
        };
        let encoded: Vec<FlowRule> = rules
            .iter()
            .map(|rule| encode(rule).map_err(|cause| refused("check", rule, name, cause)))
            .collect::<Result<_>>()?;
        for (rule, encoded) in rules.iter().zip(&encoded) {
            let mut why: [c_char; 256] = [0; 256];
            // SAFETY: the port is started, and both structures are ours.
            let result = unsafe { sys::mpps_flow_validate(port, encoded, why.as_mut_ptr(), why.len()) };
            if result < 0 {
                return Err(refused("check", rule, name, reason(driver, result, &why)));
            }
        }
        for (rule, encoded) in rules.iter().zip(&encoded) {
            let (mut failed, mut why): (c_int, [c_char; 256]) = (0, [0; 256]);
            // SAFETY: as above.
            let flow = unsafe { sys::mpps_flow_create(port, encoded, &mut failed, why.as_mut_ptr(), why.len()) };
            let Some(flow) = NonNull::new(flow) else {
                flows.remove();
                return Err(refused("make", rule, name, reason(driver, failed, &why)));
            };
            let counts = rule.actions.contains(&Action::Count);
            flows.lock().push((flow, counts));
        }
        Ok(flows)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(NonNull<c_void>, bool)>> {
        self.rules.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Packets that the rules with `count` matched.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let rules = self.lock();
        let counting = rules.iter().enumerate().filter(|(_, (_, counts))| *counts);
        counting
            .filter_map(|(place, &(flow, _))| {
                let mut packets = 0;
                // SAFETY: the handle is of this port and not yet destroyed: that is done under the same lock.
                let result = unsafe { sys::mpps_flow_count(self.port, flow.as_ptr(), &mut packets) };
                (result == 0).then(|| (interned(&format!("flow_rule_{place}_packets")), packets))
            })
            .collect()
    }

    /// Takes all rules out of force.
    pub(crate) fn remove(&self) {
        for (flow, _) in self.lock().drain(..) {
            // SAFETY: made by `mpps_flow_create` on this port, destroyed once: it has left the list.
            unsafe { sys::mpps_flow_destroy(self.port, flow.as_ptr()) };
        }
    }
}

fn refused(op: &'static str, rule: &Rule, name: &str, cause: String) -> Error {
    let op = match op {
        "check" => "check the flow rule on",
        _ => "make the flow rule on",
    };
    Error::new(op, name, format!("--flow '{rule}': {cause}"), ErrorKind::Unsupported)
}

/// Why the driver refused, in words.
fn reason(driver: &str, result: c_int, why: &[c_char]) -> String {
    let said = crate::counters::text(why);
    let log = eal::logged();
    let plain = eal::errno_text(result).unwrap_or_else(|| "refused".to_owned());
    let told = match (said.is_empty(), log) {
        (false, _) => format!("{driver} says: {said} ({plain})"),
        (true, Some(log)) => format!("{driver} says: {log} ({plain})"),
        (true, None) => format!("{driver} says: {plain}"),
    };
    if driver == "net_tap" {
        let more = match -result == rustix::io::Errno::OPNOTSUPP.raw_os_error() {
            true => crate::tap::RULES.to_owned(),
            false => crate::tap::flower(),
        };
        return format!("{told}; {more}");
    }
    if -result == rustix::io::Errno::NOSYS.raw_os_error() || told.contains("not implemented") {
        return format!("{driver} takes no flow rules at all ({plain}): want a device whose driver does");
    }
    told
}

/// A rule as the shim takes it.
fn encode(rule: &Rule) -> std::result::Result<FlowRule, String> {
    let none = FlowItem {
        kind: 0,
        any: 1,
        range: 0,
        spec: [0; FLOW_BYTES],
        last: [0; FLOW_BYTES],
        mask: [0; FLOW_BYTES],
    };
    let mut out = FlowRule {
        group: rule.attributes.group,
        priority: rule.attributes.priority,
        ingress: u8::from(rule.attributes.ingress),
        egress: u8::from(rule.attributes.egress),
        transfer: u8::from(rule.attributes.transfer),
        items: rule.pattern.len() as u8,
        actions: rule.actions.len() as u8,
        rss_queues: 0,
        item: [none; FLOW_ITEMS],
        action: [FlowAction::default(); FLOW_ACTIONS],
        rss_queue: [0; FLOW_QUEUES],
    };
    if rule.pattern.len() > FLOW_ITEMS {
        return Err(format!("{} headers: want {FLOW_ITEMS} at the most", rule.pattern.len()));
    }
    if rule.actions.len() > FLOW_ACTIONS {
        return Err(format!(
            "{} actions: want {FLOW_ACTIONS} at the most",
            rule.actions.len()
        ));
    }
    if rule
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Rss(_)))
        .count()
        > 1
    {
        return Err("rss is given twice: want it once".to_owned());
    }
    for (to, item) in out.item.iter_mut().zip(&rule.pattern) {
        *to = encode_item(item);
    }
    for (to, action) in out.action.iter_mut().zip(&rule.actions) {
        *to = match action {
            Action::Queue(queue) => FlowAction {
                kind: 0,
                value: u32::from(*queue),
            },
            Action::Rss(queues) if queues.len() > FLOW_QUEUES => {
                return Err(format!("{} queues: want {FLOW_QUEUES} at the most", queues.len()));
            }
            Action::Rss(queues) => {
                out.rss_queues = queues.len() as u16;
                out.rss_queue[..queues.len()].copy_from_slice(queues);
                FlowAction { kind: 1, value: 0 }
            }
            Action::Drop => FlowAction { kind: 2, value: 0 },
            Action::Mark(id) => FlowAction { kind: 3, value: *id },
            Action::Count => FlowAction { kind: 4, value: 0 },
            Action::Passthru => FlowAction { kind: 5, value: 0 },
        };
    }
    Ok(out)
}

/// Header of a pattern, with each field at its offset on the wire.
struct Header {
    item: FlowItem,
}

impl Header {
    fn new(kind: u32) -> Self {
        let zero = [0; FLOW_BYTES];
        let item = FlowItem {
            kind,
            any: 1,
            range: 0,
            spec: zero,
            last: zero,
            mask: zero,
        };
        Self { item }
    }

    fn field<const N: usize, T: Copy + PartialEq>(
        mut self,
        at: usize,
        field: Option<Masked<T>>,
        bytes: impl Fn(T) -> [u8; N],
    ) -> Self {
        if let Some(field) = field {
            self.item.any = 0;
            self.item.range |= u8::from(field.last != field.spec);
            self.item.spec[at..at + N].copy_from_slice(&bytes(field.spec));
            self.item.last[at..at + N].copy_from_slice(&bytes(field.last));
            self.item.mask[at..at + N].copy_from_slice(&bytes(field.mask));
        }
        self
    }
}

fn encode_item(item: &Item) -> FlowItem {
    let same = |bytes: [u8; 6]| bytes;
    let byte = |b: u8| [b];
    let header = match item {
        Item::Eth(eth) => {
            Header::new(0)
                .field(0, eth.dst, same)
                .field(6, eth.src, same)
                .field(12, eth.ethertype, u16::to_be_bytes)
        }
        Item::Vlan(vlan) => {
            Header::new(1)
                .field(0, vlan.tci, u16::to_be_bytes)
                .field(2, vlan.inner_type, u16::to_be_bytes)
        }
        Item::Ipv4(ip) => Header::new(2)
            .field(1, ip.tos, byte)
            .field(8, ip.ttl, byte)
            .field(9, ip.proto, byte)
            .field(12, ip.src, |bytes: [u8; 4]| bytes)
            .field(16, ip.dst, |bytes: [u8; 4]| bytes),
        // The traffic class lies across the first two bytes, between version and flow label.
        Item::Ipv6(ip) => Header::new(3)
            .field(0, ip.tc, |class: u8| [class >> 4, class << 4])
            .field(6, ip.proto, byte)
            .field(7, ip.hop, byte)
            .field(8, ip.src, |bytes: [u8; 16]| bytes)
            .field(24, ip.dst, |bytes: [u8; 16]| bytes),
        Item::Udp(ports) | Item::Tcp(ports) => Header::new(if matches!(item, Item::Udp(_)) { 4 } else { 5 })
            .field(0, ports.src, u16::to_be_bytes)
            .field(2, ports.dst, u16::to_be_bytes),
    };
    header.item
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_flow::{Attributes, Ipv4Match, Ipv6Match, PortMatch};

    fn exact<T: Copy>(spec: T, mask: T) -> Option<Masked<T>> {
        Some(Masked { spec, last: spec, mask })
    }

    #[test]
    fn fields_lie_where_the_header_has_them() {
        let item = encode_item(&Item::Ipv4(Ipv4Match {
            dst: exact([10, 0, 0, 1], [255, 255, 255, 0]),
            ttl: exact(64, 0xff),
            ..Ipv4Match::default()
        }));
        assert_eq!((item.kind, item.any, item.range), (2, 0, 0));
        assert_eq!((item.spec[8], item.mask[8]), (64, 0xff));
        assert_eq!(
            (&item.spec[16..20], &item.mask[16..20]),
            (&[10, 0, 0, 1][..], &[255, 255, 255, 0][..])
        );
        let item = encode_item(&Item::Udp(PortMatch {
            dst: Some(Masked {
                spec: 9000,
                last: 9009,
                mask: 0xffff,
            }),
            src: None,
        }));
        assert_eq!((item.kind, item.range), (4, 1));
        assert_eq!(
            (&item.spec[..4], &item.last[2..4]),
            (&[0, 0, 0x23, 0x28][..], &[0x23, 0x31][..])
        );
        let item = encode_item(&Item::Ipv6(Ipv6Match {
            tc: exact(0xb8, 0xff),
            ..Ipv6Match::default()
        }));
        assert_eq!(
            (&item.spec[..2], &item.mask[..2]),
            (&[0x0b, 0x80][..], &[0x0f, 0xf0][..])
        );
    }

    #[test]
    fn a_header_without_fields_compares_nothing() {
        assert_eq!(encode_item(&Item::Udp(PortMatch::default())).any, 1);
    }

    #[test]
    fn a_rule_with_more_queues_than_there_is_room_for_is_refused() {
        let rule = Rule {
            attributes: Attributes {
                ingress: true,
                ..Attributes::default()
            },
            pattern: Vec::new(),
            actions: vec![Action::Rss((0..129).collect())],
        };
        assert!(encode(&rule).err().is_some_and(|e| e.contains("129 queues")));
    }
}
