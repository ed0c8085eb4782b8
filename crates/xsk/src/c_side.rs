//! The C half of what programs and this process share, for tests that hold the Rust half against it: structs as the
//! compiler has laid them out, from the object's type information (BTF), and enumerations, from the source.
//!
//! Used by the tests of other crates, too, which include this file.

use std::collections::{BTreeMap, HashMap};

/// A member of a struct: name, offset, size and alignment in bytes.
pub(crate) type Field = (String, usize, usize, usize);

/// A struct: its size, and its members in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: usize,
    pub(crate) fields: Vec<Field>,
}

/// A Rust struct as a [`Layout`]. All fields must be named: with one left out it does not compile.
macro_rules! layout_of {
    ($type:ident { $($field:ident),* $(,)? }) => {{
        fn of<S, T>(_: fn(&S) -> &T) -> (usize, usize) {
            (size_of::<T>(), align_of::<T>())
        }
        let _all = |whole: &$type| {
            let $type { $($field: _),* } = whole;
        };
        $crate::c_side::Layout {
            size: size_of::<$type>(),
            fields: vec![$({
                let (size, align) = of(|whole: &$type| &whole.$field);
                (stringify!($field).to_owned(), std::mem::offset_of!($type, $field), size, align)
            }),*],
        }
    }};
}
pub(crate) use layout_of;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const RESTRICT: u32 = 11;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn long(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

fn text(bytes: &[u8], at: usize) -> String {
    let end = bytes[at..].iter().position(|&byte| byte == 0).expect("a zero byte");
    String::from_utf8_lossy(&bytes[at..at + end]).into_owned()
}

/// A section of an ELF file of 64 bits, little-endian.
fn section<'a>(object: &'a [u8], name: &str) -> &'a [u8] {
    assert_eq!(&object[..6], b"\x7fELF\x02\x01");
    let (headers, size) = (long(object, 0x28), usize::from(object[0x3a]));
    let (count, names) = (usize::from(object[0x3c]), usize::from(object[0x3e]));
    let header = |number: usize| &object[headers + number * size..][..size];
    let body = |header: &[u8]| &object[long(header, 0x18)..][..long(header, 0x20)];
    let names = body(header(names));
    let found = (0..count).map(header).find(|h| text(names, word(h, 0)) == name);
    body(found.unwrap_or_else(|| panic!("no section {name}")))
}

/// Bytes that an object has for the place of its instructions in the source.
pub(crate) fn line_info(object: &[u8]) -> usize {
    word(section(object, ".BTF.ext"), 20)
}

/// A BTF type: place of its name, kind, number of members, its size or the type that it refers to, and the bytes that
/// follow.
struct Type<'a> {
    name: usize,
    kind: u32,
    members: usize,
    of: usize,
    rest: &'a [u8],
}

/// The types of an object: `Documentation/bpf/btf.rst` of the kernel.
struct Types<'a> {
    all: Vec<Type<'a>>,
    strings: &'a [u8],
}

impl<'a> Types<'a> {
    fn of(object: &'a [u8]) -> Self {
        let btf = section(object, ".BTF");
        assert_eq!(btf[..2], [0x9f, 0xeb]);
        let body = &btf[word(btf, 4)..];
        let mut types = &body[word(btf, 8)..][..word(btf, 12)];
        let strings = &body[word(btf, 16)..][..word(btf, 20)];
        // Number 0 is void.
        let mut all = vec![Type {
            name: 0,
            kind: 0,
            members: 0,
            of: 0,
            rest: &[],
        }];
        while !types.is_empty() {
            let info = word(types, 4);
            let (kind, members) = ((info >> 24 & 0x1f) as u32, info & 0xffff);
            let more = match kind {
                INT | 14 | 17 => 4,
                ARRAY => 12,
                STRUCT | UNION | 15 | 19 => 12 * members,
                ENUM | 13 => 8 * members,
                _ => 0,
            };
            all.push(Type {
                name: word(types, 0),
                kind,
                members,
                of: word(types, 8),
                rest: &types[12..12 + more],
            });
            types = &types[12 + more..];
        }
        Self { all, strings }
    }

    /// Size and alignment of a type.
    fn measures(&self, number: usize) -> (usize, usize) {
        let of = &self.all[number];
        match of.kind {
            INT | ENUM => (of.of, of.of),
            PTR => (8, 8),
            ARRAY => {
                let (size, align) = self.measures(word(of.rest, 0));
                (size * word(of.rest, 8), align)
            }
            STRUCT | UNION => {
                let members = (0..of.members).map(|i| self.measures(word(of.rest, 12 * i + 4)).1);
                (of.of, members.max().unwrap_or(1))
            }
            TYPEDEF | VOLATILE..=RESTRICT => self.measures(of.of),
            kind => panic!("a member of kind {kind}"),
        }
    }
}

/// All structs of an object that have a name.
pub(crate) fn structs(object: &[u8]) -> HashMap<String, Layout> {
    let types = Types::of(object);
    let of_struct = |of: &Type<'_>| {
        let fields = of.rest.chunks(12).map(|member| {
            let (size, align) = types.measures(word(member, 4));
            let name = text(types.strings, word(member, 0));
            assert_eq!(word(member, 8) % 8, 0, "{name} is a bit field");
            (name, word(member, 8) / 8, size, align)
        });
        Layout {
            size: of.of,
            fields: fields.collect(),
        }
    };
    let structs = types.all.iter().filter(|of| of.kind == STRUCT && of.name != 0);
    structs
        .map(|of| (text(types.strings, of.name), of_struct(of)))
        .collect()
}

/// Without its comments.
fn bare(source: &str) -> String {
    let mut rest = source;
    let mut bare = String::new();
    while let Some((code, comment)) = rest.split_once("/*") {
        bare.push_str(code);
        rest = comment.split_once("*/").expect("the end of a comment").1;
    }
    bare + rest
}

/// The enumerators of the one enumeration that has `member`, by value. They are numbers, or 1 moved to the left.
pub(crate) fn enumeration(source: &str, member: &str) -> BTreeMap<u64, String> {
    let source = bare(source);
    let lists = source.split("enum ").skip(1).filter_map(|rest| {
        let list = rest.split_once('{')?.1.split_once('}')?.0;
        Some(
            list.split(',')
                .map(str::trim)
                .filter(|one| !one.is_empty())
                .collect::<Vec<_>>(),
        )
    });
    let name = |one: &str| one.split('=').next().unwrap_or(one).trim().to_owned();
    let list = lists
        .into_iter()
        .find(|list| list.iter().any(|one| name(one) == member));
    let mut next = 0;
    let mut all = BTreeMap::new();
    for one in list.unwrap_or_else(|| panic!("no enumeration with {member}")) {
        if let Some((_, value)) = one.split_once('=') {
            let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{one}"));
            next = value
                .split_once("<<")
                .map_or_else(|| number(value), |(base, by)| number(base) << number(by));
        }
        assert_eq!(all.insert(next, name(one)), None, "{one}");
        next += 1;
    }
    all
}
