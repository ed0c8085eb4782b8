use super::*;

#[test]
fn a_path_that_is_not_there_is_refused_with_those_that_are() {
    let spec = "tun:0".parse().expect("of the form of a port");
    let Err(crate::fail::Failure::Usage(line)) = Checked::new(&spec, Task::Drop) else {
        panic!("it is no path");
    };
    assert!(line.ends_with(&all_names().join(", ")), "{line}");
}

/// The sources in this folder and below, without their tests.
fn sources(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            found.push((
                name,
                text.split("#[cfg(test)]\nmod tests")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ));
        }
    }
}

#[test]
fn a_new_path_needs_no_line_in_the_commands_the_plans_the_engine_or_the_report() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [
        "src/draft",
        "src/measure",
        "src/privilege",
        "../mpps/src/commands",
        "../plan/src",
        "../engine/src",
        "../pages/src",
        "../report/src",
        "../stats/src",
    ] {
        sources(&root.join(folder), &mut found);
    }
    assert!(found.len() > 60, "{} sources", found.len());
    // A protocol has the name of a path.
    for (file, text) in found.iter().filter(|(file, _)| !file.contains("plan/src/values/")) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        // JSON has a type of the name of a path.
        let code = code.filter(|line| !line.contains("\"type\": ["));
        for line in code {
            for name in all_names() {
                // Its crate, or a comparison with its name.
                let (own, quoted) = (format!("mpps_{name}::"), format!("\"{name}\""));
                assert!(
                    !line.contains(&own) && !line.contains(&quoted),
                    "{file} knows {name}: {line}"
                );
            }
        }
    }
    for name in ["engine", "plan", "pages", "report", "stats", "io", "wire", "sys"] {
        let manifest = std::fs::read_to_string(root.join(format!("../{name}/Cargo.toml"))).expect("a manifest");
        for path in all_names() {
            let own = format!("mpps-{}", path.replace('_', "-"));
            let named = manifest.lines().any(|line| line.split(['.', ' ']).next() == Some(&own));
            assert!(!named, "crates/{name} depends on {own}");
        }
    }
}
