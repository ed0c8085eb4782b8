//! The tests of memory order (`orders.rs`) include sources of the crates with loom's types in place of the real ones:
//! without those sources' own tests.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rerun-if-changed=src/build.rs");
}
