//! The processor's name, as `/proc/cpuinfo` gives it: on x86 in words, on arm64 as numbers.

/// Names by implementer and part (`MIDR_EL1`), as in the table of lscpu(1): servers, DPUs and small boards.
const ARM: [(u32, u32, &str); 45] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x42, 0x516, "ThunderX2"),
    (0x43, 0x0a1, "ThunderX"),
    (0x43, 0x0af, "ThunderX2"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "Kunpeng-920 (TaiShan-v110)"),
    (0x4e, 0x004, "Carmel"),
    (0x51, 0x001, "Oryon"),
    (0x51, 0xc00, "Falkor"),
    (0x61, 0x022, "Apple M1 (Icestorm)"),
    (0x61, 0x023, "Apple M1 (Firestorm)"),
    (0x61, 0x024, "Apple M1 Pro (Icestorm)"),
    (0x61, 0x025, "Apple M1 Pro (Firestorm)"),
    (0x61, 0x028, "Apple M1 Max (Icestorm)"),
    (0x61, 0x029, "Apple M1 Max (Firestorm)"),
    (0x61, 0x032, "Apple M2 (Blizzard)"),
    (0x61, 0x033, "Apple M2 (Avalanche)"),
    (0x61, 0x034, "Apple M2 Pro (Blizzard)"),
    (0x61, 0x035, "Apple M2 Pro (Avalanche)"),
    (0x6d, 0xd49, "Azure Cobalt 100"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

/// Amazon's names for parts of Arm's that it sells as its own.
const GRAVITON: [(&str, &str); 4] = [
    ("Cortex-A72", "Graviton"),
    ("Neoverse-N1", "Graviton2"),
    ("Neoverse-V1", "Graviton3"),
    ("Neoverse-V2", "Graviton4"),
];

/// Name of this machine's processor; `None` if `/proc/cpuinfo` has none.
pub fn name() -> Option<String> {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    named(&read("/proc/cpuinfo"), &read("/sys/class/dmi/id/sys_vendor"))
}

/// Name of the processor of a `/proc/cpuinfo`, on a machine of this maker (`/sys/class/dmi/id/sys_vendor`). Cores of
/// several kinds (big.LITTLE) are joined by `+`, a part of arm64 that is not known is given by its numbers. `None` if
/// there is neither a name nor a number.
pub fn named(cpuinfo: &str, vendor: &str) -> Option<String> {
    let values = |key: &'static str| {
        cpuinfo.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        })
    };
    if let Some(model) = values("model name").next() {
        return Some(model.to_owned());
    }
    let hex = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let mut kinds: Vec<String> = Vec::new();
    for (implementer, part) in values("CPU implementer").zip(values("CPU part")) {
        let known = ARM
            .iter()
            .find(|&&(maker, number, _)| hex(implementer) == Some(maker) && hex(part) == Some(number));
        let sold = known
            .filter(|_| vendor.trim() == "Amazon EC2")
            .and_then(|(.., name)| GRAVITON.iter().find(|(part, _)| part == name));
        let kind = match (known, sold) {
            (Some((.., name)), Some((_, sold))) => format!("{sold} ({name})"),
            (Some((.., name)), None) => (*name).to_owned(),
            (None, _) => format!("arm64, implementer {implementer}, part {part}"),
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    (!kinds.is_empty()).then(|| kinds.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a core's entry as Linux writes it on arm64, one per core.
    fn core(implementer: &str, part: &str) -> String {
        format!(
            "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: {implementer}\n\
             CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
        )
    }

    #[test]
    fn a_processor_of_arm64_has_the_name_of_its_part() {
        let name = |implementer, part| named(&core(implementer, part).repeat(4), "").unwrap();
        assert_eq!(name("0x41", "0xd0c"), "Neoverse-N1");
        assert_eq!(name("0xc0", "0xac3"), "Ampere-1");
        assert_eq!(name("0x43", "0x0af"), "ThunderX2");
        assert_eq!(name("0x00", "0x051"), "arm64, implementer 0x00, part 0x051");
        let unlike = [core("0x41", "0xd03"), core("0x41", "0xd08"), core("0x41", "0xd03")].concat();
        assert_eq!(named(&unlike, "").unwrap(), "Cortex-A53 + Cortex-A72");
        // The same part, on a machine that says whose it is.
        assert_eq!(
            named(&core("0x41", "0xd40"), "Amazon EC2\n").unwrap(),
            "Graviton3 (Neoverse-V1)"
        );
    }

    #[test]
    fn a_processor_of_x86_names_itself() {
        let text = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor @ 2.60GHz\nmodel\t: 1\n";
        assert_eq!(
            named(text, "Amazon EC2").unwrap(),
            "Intel(R) Xeon(R) Processor @ 2.60GHz"
        );
        assert_eq!(named("", ""), None);
        assert_eq!(named("processor\t: 0\n", ""), None);
    }

    #[test]
    fn no_part_is_in_the_table_twice() {
        let mut parts: Vec<_> = ARM.iter().map(|&(maker, part, _)| (maker, part)).collect();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), ARM.len());
    }
}
