//! Files mapped at the addresses of this process: `/proc/self/maps`.

/// A stretch of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    /// Path of the file; `[vdso]` and the like if it is not a file.
    pub(crate) file: String,
}

/// All stretches of code, by address.
#[derive(Debug, Default)]
pub(crate) struct Maps(Vec<Mapped>);

impl Maps {
    /// Reads lines such as `7f1200000000-7f1200001000 r-xp 00002000 08:01 77   /usr/lib/libc.so.6`.
    pub(crate) fn of(text: &str) -> Self {
        let mut all: Vec<_> = text.lines().filter_map(mapped).collect();
        all.sort_by_key(|mapped| mapped.start);
        Self(all)
    }

    /// Returns the stretch at an address, and the place of the address in its file.
    pub(crate) fn find(&self, address: u64) -> Option<(&Mapped, u64)> {
        let after = self.0.partition_point(|mapped| mapped.start <= address);
        let mapped = self.0.get(after.checked_sub(1)?)?;
        (address < mapped.end).then(|| (mapped, mapped.offset.saturating_add(address - mapped.start)))
    }
}

fn mapped(line: &str) -> Option<Mapped> {
    let mut rest = line;
    let mut word = || {
        let text = rest.trim_start_matches(' ');
        let (word, after) = text.split_once(' ').unwrap_or((text, ""));
        rest = after;
        word
    };
    let (range, rights, offset, _device, _inode) = (word(), word(), word(), word(), word());
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    // A name may have blanks in it.
    let file = rest.trim_start_matches(' ');
    (rights.contains('x') && !file.is_empty()).then_some(())?;
    Some(Mapped {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        file: file.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn code_is_found_in_its_file() {
        let text = "1000-3000 r-xp 00000500 08:01 77                   /opt/a b/mpps\n\
                    3000-4000 rw-p 00002000 08:01 77 /opt/a b/mpps\n5000-6000 r-xp 00000000 00:00 0   [vdso]\n\
                    7000-8000 r-xp 00000000 00:00 0\n";
        let maps = Maps::of(text);
        let found = |address| {
            maps.find(address)
                .map(|(mapped, offset)| (mapped.file.as_str(), offset))
        };
        assert_eq!(found(0x1010), Some(("/opt/a b/mpps", 0x510)));
        assert_eq!(found(0x5fff), Some(("[vdso]", 0xfff)));
        for nowhere in [0, 0x3000, 0x6000, 0x7000] {
            assert_eq!(found(nowhere), None);
        }
    }

    #[test]
    fn this_process_has_code() {
        let maps = Maps::of(&std::fs::read_to_string("/proc/self/maps").expect("proc"));
        assert!(maps.find(code_is_found_in_its_file as fn() as usize as u64).is_some());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-f rxp/\\-\nx\u{e9}]{0,300}", address in any::<u64>()) {
            let _ = Maps::of(&text).find(address);
        }
    }
}
