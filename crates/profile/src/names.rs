//! Addresses as functions.
//!
//! `blazesym` finds the program's own functions in the files that contain the code: by the tables of lines, which know
//! what was inlined where, else by symbols. Functions of the kernel are in [`Kallsyms`].

use crate::RawSample;
use crate::kallsyms::Kallsyms;
use crate::maps::Maps;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use mpps_trace::{Frame, Sample};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Module name of the kernel's frames.
const KERNEL: &str = "[kernel]";
/// Function in which a thread's own work begins; Rust's own backtraces stop there, too.
const BEGIN: &str = "__rust_begin_short_backtrace";

/// Frames, each once.
#[derive(Default)]
struct Frames {
    all: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
}

impl Frames {
    fn number(&mut self, frame: Frame) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.all.push(frame.clone());
            next
        })
    }
}

/// An address that stands for a place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Spot {
    address: u64,
    kernel: bool,
}

/// Returns the addresses of a sample, the innermost first. The address that a call returns to may be the first of the
/// next function: the address before it belongs to the call.
fn spots(raw: &RawSample) -> impl DoubleEndedIterator<Item = Spot> + '_ {
    raw.stack.iter().enumerate().map(|(place, address)| {
        let exact = place == 0 || place == raw.kernel;
        Spot {
            address: address.saturating_sub(u64::from(!exact)),
            kernel: place < raw.kernel,
        }
    })
}

/// Finds names for samples. Returns the samples, and the frames that they refer to.
pub(crate) fn resolve(raw: &[RawSample], kallsyms: &Kallsyms, maps: &Maps) -> (Vec<Sample>, Vec<Frame>) {
    let all: BTreeSet<Spot> = raw.iter().flat_map(spots).collect();
    let mut frames = Frames::default();
    // The frames of each spot, the outermost first.
    let mut named: HashMap<Spot, Vec<u32>> = HashMap::new();
    let mut by_file: BTreeMap<&str, Vec<(Spot, u64)>> = BTreeMap::new();
    for spot in all {
        if spot.kernel {
            let frame = kernel_frame(kallsyms, spot.address);
            named.insert(spot, vec![frames.number(frame)]);
        } else if let Some((mapped, offset)) = maps.find(spot.address) {
            by_file.entry(&mapped.file).or_default().push((spot, offset));
        } else {
            named.insert(spot, vec![frames.number(frame(None, "[unknown]", spot.address))]);
        }
    }
    let symbolizer = Symbolizer::builder()
        .enable_code_info(false)
        .enable_inlined_fns(true)
        .enable_demangling(true)
        .build();
    for (file, spots) in by_file {
        let module = file.rsplit('/').next().unwrap_or(file);
        let offsets: Vec<u64> = spots.iter().map(|(_, offset)| *offset).collect();
        let source = Source::Elf(Elf::new(file));
        // If the file is gone, or if this user may not read it, the addresses stay without names.
        let told = symbolizer
            .symbolize(&source, Input::FileOffset(&offsets))
            .unwrap_or_default();
        let mut told = told.iter();
        for (spot, offset) in spots {
            let mut numbers = Vec::new();
            if let Some(Symbolized::Sym(symbol)) = told.next() {
                let inlined = symbol.inlined.iter().map(|inlined| &inlined.name);
                for name in std::iter::once(&symbol.name).chain(inlined) {
                    numbers.push(frames.number(frame(Some(name.to_string()), module, offset)));
                }
            }
            if numbers.is_empty() {
                numbers.push(frames.number(frame(None, module, offset)));
            }
            named.insert(spot, numbers);
        }
    }
    let begins: Vec<bool> = frames.all.iter().map(|frame| frame.name.contains(BEGIN)).collect();
    let samples = raw.iter().map(|raw| {
        let outermost_first = spots(raw).rev().filter_map(|spot| named.get(&spot)).flatten().copied();
        let mut stack: Vec<u32> = outermost_first.collect();
        if let Some(last) = stack.iter().rposition(|&number| begins[number as usize]) {
            stack.drain(..=last);
        }
        Sample {
            at_ns: raw.at_ns,
            lane: raw.lane,
            cpu: raw.cpu,
            stack,
        }
    });
    (samples.collect(), frames.all)
}

/// Returns the frame of an address in the kernel. If the kernel hides its addresses from the user, the frame has no
/// address either, so that no file of the user contains it.
fn kernel_frame(kallsyms: &Kallsyms, address: u64) -> Frame {
    let hidden = kallsyms.is_empty().then_some(KERNEL);
    let name = kallsyms.name(address).or(hidden);
    frame(name.map(str::to_owned), KERNEL, address)
}

fn frame(name: Option<String>, module: &str, address: u64) -> Frame {
    Frame {
        name: name.unwrap_or_else(|| format!("{address:#x}")),
        module: module.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_hides_its_addresses_has_them_in_no_profile() {
        let raw = [0xffff_ffff_8100_0010, 0xffff_ffff_8200_0020].map(|address| RawSample {
            at_ns: 1,
            lane: 0,
            cpu: 0,
            kernel: 1,
            stack: Box::new([address]),
        });
        let named = |kallsyms: &str| -> Vec<String> {
            let (_, frames) = resolve(&raw, &Kallsyms::of(kallsyms), &Maps::of(""));
            frames.into_iter().map(|frame| frame.name).collect()
        };
        // The kernel shows zero addresses like these to users who lack the capability.
        assert_eq!(
            named("0000000000000000 T _text\n0000000000000000 T do_syscall_64\n"),
            ["[kernel]"]
        );
        // A user who may read the addresses sees the address of a function that has no name.
        assert_eq!(named("ffffffff82000000 T known\n"), ["0xffffffff81000010", "known"]);
    }
}
