//! Whether this build keeps frame pointers: only then can the kernel follow the program's calls. And whether it has
//! tables of lines, which tell what was inlined.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(frame_pointers)");
    println!("cargo::rustc-check-cfg=cfg(line_tables)");
    if std::env::var("DEBUG").is_ok_and(|debug| debug != "false" && debug != "0" && debug != "none") {
        println!("cargo::rustc-cfg=line_tables");
    }
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let kept = [
        "force-frame-pointers",
        "force-frame-pointers=yes",
        "force-frame-pointers=on",
    ];
    let words = flags.split('\u{1f}').map(|word| word.trim_start_matches("-C"));
    if words.into_iter().any(|word| kept.contains(&word)) {
        println!("cargo::rustc-cfg=frame_pointers");
    }
}
