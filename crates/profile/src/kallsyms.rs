//! Functions of the kernel by address: `/proc/kallsyms`, read while it shows addresses.

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    /// Start address of each function, and the place of its name in [`names`](Self::names).
    functions: Vec<(u64, u32)>,
    /// Names of the functions; each ends with a line feed.
    names: String,
}

impl Kallsyms {
    /// Reads lines such as `ffffffff81000000 T _stext` and `ffffffffc0201000 t veth_xmit\t[veth]`. Other lines are left
    /// out, and so are all lines if addresses are hidden (0).
    pub(crate) fn of(text: &str) -> Self {
        let mut told = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let (Ok(address @ 1..), Ok(place)) = (u64::from_str_radix(address, 16), u32::try_from(told.names.len()))
            else {
                continue;
            };
            told.functions.push((address, place));
            told.names.push_str(name);
            told.names.push('\n');
        }
        // If a function has several names, the first is kept: the sort is stable.
        told.functions.sort_by_key(|(address, _)| *address);
        told.functions.dedup_by_key(|(address, _)| *address);
        told
    }

    /// Whether no function is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the function that contains this address; the last function has no end.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (_, place) = self.functions.get(after.checked_sub(1)?)?;
        self.names.get(*place as usize..)?.lines().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_has_the_name_of_the_function_that_it_is_in() {
        let text = "ffffffff81000000 T _text\nffffffff81000000 T startup\nffffffff81000100 d data\n\
                    ffffffff81000080 t inner\nffffffffc0001000 t veth_xmit\t[veth]\n";
        let known = Kallsyms::of(text);
        assert_eq!(known.name(0xffff_ffff_8100_007f), Some("_text"));
        assert_eq!(known.name(0xffff_ffff_8100_0180), Some("inner"));
        assert_eq!(known.name(0xffff_ffff_c000_1001), Some("veth_xmit"));
        assert_eq!(known.name(5), None);
        assert!(Kallsyms::of("0000000000000000 T _text\n").is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-fT \t\nx\u{e9}]{0,300}", address in any::<u64>()) {
            let _ = Kallsyms::of(&text).name(address);
        }
    }
}
