//! Arguments that the user hands to DPDK's environment abstraction layer: `--eal "…"`.

/// Checked arguments for the EAL, beside mpps's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EalArgs {
    /// One word each.
    pub words: Vec<String>,
}

impl EalArgs {
    /// Whether option `name` (with its dashes) is among them, alone or as `name=value`.
    pub fn has(&self, name: &str) -> bool {
        let with_value = |word: &str| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        // `-m512`: short options may have their value joined.
        let joined = |word: &str| name.len() == 2 && !word.starts_with("--") && word.starts_with(name);
        self.words
            .iter()
            .any(|word| word == name || with_value(word) || joined(word))
    }
}

/// Splits at white space and refuses what mpps itself has to decide.
///
/// # Errors
/// One line that says which word can't be passed on, and what to write instead.
pub fn check_eal(text: &str) -> Result<EalArgs, String> {
    /// Options that would contradict what the port and `--cores` say.
    const OURS: [(&str, &str); 10] = [
        ("--vdev", "name the device as the port: dpdk:net_memif0,role=client"),
        ("-a", "name the device as the port: dpdk:0000:03:00.0"),
        ("--allow", "name the device as the port: dpdk:0000:03:00.0"),
        ("-l", "lanes are pinned by --cores"),
        ("-c", "lanes are pinned by --cores"),
        ("--lcores", "lanes are pinned by --cores"),
        ("-h", "`dpdk-testpmd --help` tells them"),
        ("--help", "`dpdk-testpmd --help` tells them"),
        ("-v", "the report says which DPDK it is"),
        ("--proc-type", "each mpps is a primary process of its own"),
    ];
    let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    for word in &words {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        let short = |ours: &str| ours.len() == 2 && name.len() > 2 && !name.starts_with("--") && name.starts_with(ours);
        if let Some((ours, instead)) = OURS.iter().find(|(ours, _)| *ours == name || short(ours)) {
            return Err(format!("'{ours}' is mpps's own to say: {instead}"));
        }
    }
    match words.first() {
        None => Err("want arguments of DPDK's EAL, such as \"--no-huge -m 512\"".to_owned()),
        Some(first) if !first.starts_with('-') => {
            Err(format!("'{first}': want an option of DPDK's EAL, such as -m 512"))
        }
        Some(_) => Ok(EalArgs { words }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_passed_on_and_found_again() {
        let args = check_eal(" --no-huge -m 512  --file-prefix=x ").expect("valid");
        assert_eq!(args.words, ["--no-huge", "-m", "512", "--file-prefix=x"]);
        assert!(check_eal("-m512").expect("valid").has("-m"));
        assert!(args.has("--no-huge") && args.has("--file-prefix") && !args.has("--file"));
    }

    #[test]
    fn what_the_port_or_cores_say_is_refused_with_what_to_write_instead() {
        for (text, part) in [
            ("--vdev=net_null0", "as the port"),
            ("-m 64 -l 0,1", "--cores"),
            ("-l0", "--cores"),
            ("-a 0000:03:00.0", "as the port"),
            ("--proc-type=secondary", "primary"),
            ("", "--no-huge"),
            ("512", "want an option"),
        ] {
            let error = check_eal(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
