//! Parts of the kernel's description of its types (`Documentation/bpf/btf.rst`) that are read by hand: the names of an
//! enumeration, and the arguments of tracepoints. The loader reads them, too, but does not give access to them.

use std::collections::HashMap;

const PTR: u32 = 2;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const FUNC_PROTO: u32 = 13;

/// A description of types. Nothing here panics, whatever the bytes are: a type that can't be read counts as missing.
#[derive(Debug)]
pub(crate) struct Types<'a> {
    /// Start of each type, by number; the entry of number 0 (void) is not used.
    starts: Vec<u32>,
    types: &'a [u8],
    strings: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn part(bytes: &[u8], at: u32, length: u32) -> Option<&[u8]> {
    bytes.get(at as usize..)?.get(..length as usize)
}

/// Name, kind and number of members of a type, and the type that it is made of.
#[derive(Clone, Copy, Debug)]
struct Type {
    at: usize,
    name: u32,
    kind: u32,
    members: u32,
    of: u32,
}

impl<'a> Types<'a> {
    /// Finds the starts of the types.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..2)? != [0x9f, 0xeb] {
            return None;
        }
        let body = bytes.get(word(bytes, 4)? as usize..)?;
        let types = part(body, word(bytes, 8)?, word(bytes, 12)?)?;
        let strings = part(body, word(bytes, 16)?, word(bytes, 20)?)?;
        let mut starts = vec![0];
        let mut at = 0;
        while let Some(info) = word(types, at + 4) {
            starts.push(u32::try_from(at).ok()?);
            let members = (info & 0xffff) as usize;
            at += 12
                + match info >> 24 & 0x1f {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * members,
                    ENUM | FUNC_PROTO => 8 * members,
                    _ => 0,
                };
        }
        Some(Self { starts, types, strings })
    }

    fn get(&self, number: u32) -> Option<Type> {
        let at = *self.starts.get(number as usize).filter(|_| number != 0)? as usize;
        let info = word(self.types, at + 4)?;
        Some(Type {
            at,
            name: word(self.types, at)?,
            kind: info >> 24 & 0x1f,
            members: info & 0xffff,
            of: word(self.types, at + 8)?,
        })
    }

    fn text(&self, at: u32) -> &'a [u8] {
        let text = self.strings.get(at as usize..).unwrap_or_default();
        text.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    fn named(&self, kind: u32, name: &str) -> Option<Type> {
        let all = 1..u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        let mut all = all.filter_map(|number| self.get(number));
        all.find(|found| found.kind == kind && found.name != 0 && self.text(found.name) == name.as_bytes())
    }

    /// Returns the members of an enumeration, by value.
    pub(crate) fn enumeration(&self, name: &str) -> HashMap<u32, String> {
        let Some(found) = self.named(ENUM, name) else {
            return HashMap::new();
        };
        let members = (0..found.members as usize).filter_map(|member| {
            let at = found.at + 12 + 8 * member;
            let name = String::from_utf8_lossy(self.text(word(self.types, at)?)).into_owned();
            Some((word(self.types, at + 4)?, name))
        });
        members.collect()
    }

    /// Returns for each argument of a tracepoint whether it is a pointer; `None` if the kernel has no such tracepoint.
    pub(crate) fn tracepoint(&self, name: &str) -> Option<Vec<bool>> {
        let pointer = self.get(self.named(TYPEDEF, &format!("btf_trace_{name}"))?.of)?;
        let function = self.get(pointer.of).filter(|of| of.kind == FUNC_PROTO)?;
        // The first argument is the tracepoint's own.
        let arguments = (1..function.members as usize).map(|argument| {
            let of = word(self.types, function.at + 12 + 8 * argument + 4).and_then(|number| self.get(number));
            of.is_some_and(|of| of.kind == PTR)
        });
        Some(arguments.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_kernels_types_are_read() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return println!("SKIPPED: the kernel does not describe its types");
        };
        let types = Types::new(&bytes).expect("a description of types");
        let switch = types.tracepoint("sched_switch").expect("every kernel has it");
        assert_eq!(switch[..3], [false, true, true]);
        assert_eq!(types.tracepoint("no_such_thing"), None);
        let reasons = types.enumeration("skb_drop_reason");
        if !reasons.is_empty() {
            assert!(
                reasons.values().any(|name| name == "SKB_DROP_REASON_NO_SOCKET"),
                "{reasons:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            right in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if right && bytes.len() >= 24 {
                bytes[..2].copy_from_slice(&[0x9f, 0xeb]);
                let (types, strings) = ((bytes.len() - 24) as u32 / 2, (bytes.len() - 24) as u32 / 4);
                for (at, value) in [(4, 24), (8, 0), (12, types), (16, types), (20, strings)] {
                    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
            }
            if let Some(types) = Types::new(&bytes) {
                types.enumeration("a");
                types.tracepoint("a");
                (0..types.starts.len() as u32 + 2).for_each(|number| {
                    types.get(number).map(|of| types.text(of.name));
                });
            }
        }
    }
}
