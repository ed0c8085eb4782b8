//! Builds the shim where `pkg-config` finds libdpdk; elsewhere the crate is empty, and so is the path over it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
}
