//! Hands on whether `dpdk-sys` was built against libdpdk.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    if std::env::var_os("DEP_DPDK_PRESENT").is_some() {
        println!("cargo::rustc-cfg=dpdk");
    }
}
