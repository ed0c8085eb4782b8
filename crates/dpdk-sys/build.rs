//! Builds the shim where `pkg-config` finds libdpdk; elsewhere the crate is empty, and so is the path over it.
//! `MPPS_NO_DPDK=1` leaves it out on a host that has it. `MPPS_DPDK_PLUGINS=1` links no driver in: for packages, whose
//! drivers are to come from the library that is installed.

use std::path::{Path, PathBuf};

/// The libraries that the shim calls. Most drivers are plugins, which the EAL loads by itself.
const LIBRARIES: [&str; 9] = [
    "rte_ethdev",
    "rte_mbuf",
    "rte_mempool",
    "rte_net",
    "rte_ring",
    "rte_kvargs",
    "rte_telemetry",
    "rte_eal",
    // Apart from the EAL since 23.11.
    "rte_log",
];

/// Drivers that are linked in where there are archives of them, with the libraries that they call. They move packets by
/// the processor alone, so that what a call into another shared object costs, and its thread-local storage for each
/// packet, is a part of the rate: 7 % on net_null. As plugins they work, too.
const DRIVERS: [(&str, &[&str]); 3] = [
    ("rte_net_null", &["rte_bus_vdev", "rte_kvargs"]),
    ("rte_net_ring", &["rte_bus_vdev", "rte_kvargs", "rte_ring"]),
    ("rte_net_memif", &["rte_bus_vdev", "rte_kvargs", "rte_hash", "bsd"]),
];

/// The oldest long-term release whose interface the shim knows.
const OLDEST: &str = "22.11";

const SOURCES: [&str; 7] = ["burst.c", "eal.c", "flow.c", "guard.c", "intr.c", "port.c", "stats.c"];

/// What stands between net_memif and its other end.
const MEMIF: [&str; 3] = ["memif.c", "memif_control.c", "memif_fd.c"];

/// The driver's calls that it takes instead of the system, and of the EAL.
const MEMIF_CALLS: [(&str, &str); 8] = [
    ("accept", "mpps_memif_accept"),
    ("connect", "mpps_memif_connect"),
    ("close", "mpps_memif_close_fd"),
    ("recvmsg", "mpps_memif_recvmsg"),
    ("sendmsg", "mpps_memif_sendmsg"),
    ("mmap64", "mpps_memif_mmap"),
    ("munmap", "mpps_memif_munmap"),
    ("rte_intr_callback_register", "mpps_memif_intr_register"),
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    println!("cargo::rerun-if-env-changed=MPPS_NO_DPDK");
    println!("cargo::rerun-if-env-changed=MPPS_DPDK_PLUGINS");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=peer");
    // Empty where there is none.
    let none = Path::new(&std::env::var_os("OUT_DIR").unwrap_or_default()).join(PLUGIN);
    let _ = std::fs::write(none, []);
    if set("MPPS_NO_DPDK") {
        return;
    }
    let found = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version(OLDEST)
        .probe("libdpdk");
    let library = match found {
        Ok(library) => library,
        Err(error) => {
            watch_for_package();
            let why = error.to_string().lines().next().unwrap_or_default().to_owned();
            println!("cargo::warning=built without the dpdk path: libdpdk {OLDEST} or later not found ({why})");
            return;
        }
    };
    // When the package goes or changes, this is to be found out again.
    for dir in library
        .include_paths
        .iter()
        .filter(|dir| dir.join("rte_build_config.h").exists())
    {
        println!("cargo::rerun-if-changed={}", dir.join("rte_build_config.h").display());
    }
    shim(&library, &SOURCES, "mpps_dpdk_shim");
    println!("cargo::rustc-link-lib=static=mpps_dpdk_shim");
    if let Some(out) = std::env::var_os("OUT_DIR") {
        println!("cargo::rustc-link-search=native={}", Path::new(&out).display());
    }
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in LIBRARIES
        .iter()
        .filter(|name| library.libs.iter().any(|lib| lib == **name))
    {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    if !set("MPPS_DPDK_PLUGINS") {
        link_drivers(&library);
    }
    // Behind the driver, which calls it: not in this crate's own archive, which comes first.
    shim(&library, &MEMIF, "mpps_dpdk_memif");
    println!("cargo::rustc-link-lib=static:-bundle=mpps_dpdk_memif");
    plugin(&library);
    println!("cargo::rustc-cfg=dpdk");
    println!("cargo::rustc-env=DPDK_VERSION={}", library.version);
    println!("cargo::metadata=present=1");
}

/// Compiles sources of the shim.
fn shim(library: &pkg_config::Library, sources: &[&str], name: &str) {
    let mut build = cc::Build::new();
    for source in sources {
        build.file(Path::new("shim").join(source));
    }
    build
        .cargo_metadata(false)
        .includes(&library.include_paths)
        .flag("-include")
        .flag("rte_config.h")
        .define("ALLOW_EXPERIMENTAL_API", None)
        .opt_level(3)
        .warnings(true)
        .flag_if_supported("-Wno-deprecated-declarations")
        // The inlined parts of DPDK want the instructions that it was built with.
        .flag(march());
    build.compile(name);
}

/// The plug-in that `mpps trace peer` has other programs load: the program holds its bytes.
const PLUGIN: &str = "mpps_peer.so";

/// Compiles it. It is linked with no library of DPDK's: those are the program's that loads it.
fn plugin(library: &pkg_config::Library) {
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    let mut build = cc::Build::new();
    build
        .cargo_metadata(false)
        .includes(&library.include_paths)
        .flag("-include")
        .flag("rte_config.h")
        .opt_level(3)
        .pic(true)
        .debug(false)
        .flag(march());
    let done = build.try_get_compiler().map(|compiler| {
        let mut command = compiler.to_command();
        command.args(["-shared", "-Wl,-z,nodelete", "-s", "peer/peer.c", "-o"]);
        command.arg(out.join(PLUGIN)).status()
    });
    if !matches!(done, Ok(Ok(status)) if status.success()) {
        let _ = std::fs::write(out.join(PLUGIN), []);
        println!("cargo::warning=built without `mpps trace peer`: its plug-in did not compile");
    }
}

/// Whether a variable of the environment asks for something.
fn set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty() && value != "0")
}

/// Links those of [`DRIVERS`] for which everything is there.
fn link_drivers(library: &pkg_config::Library) {
    let own = pkg_config::get_variable("libdpdk", "libdir").map(PathBuf::from).ok();
    let dirs: Vec<&Path> = library.link_paths.iter().chain(&own).map(PathBuf::as_path).collect();
    let there = |file: String| dirs.iter().map(|dir| dir.join(&file)).find(|path| path.exists());
    for (driver, needed) in DRIVERS {
        let Some(archive) = there(format!("lib{driver}.a")) else {
            continue;
        };
        if needed.iter().any(|name| there(format!("lib{name}.so")).is_none()) {
            continue;
        }
        let own = (driver == "rte_net_memif").then(|| with_own_calls(&archive)).flatten();
        if own.is_some() {
            println!("cargo::rustc-env=MPPS_MEMIF_CHECKED=1");
        }
        // Its constructor registers it; nothing else refers to it.
        let name = own.unwrap_or(driver);
        println!("cargo::rustc-link-lib=static:+whole-archive,-bundle={name}");
        for name in needed {
            println!("cargo::rustc-link-lib=dylib={name}");
        }
    }
}

/// A copy of net_memif's archive that calls the shim where it called the system; `None` where that can't be had.
fn with_own_calls(archive: &Path) -> Option<&'static str> {
    const NAME: &str = "mpps_net_memif";
    let out = PathBuf::from(std::env::var_os("OUT_DIR")?);
    let mut objcopy = std::process::Command::new(std::env::var("OBJCOPY").unwrap_or_else(|_| "objcopy".to_owned()));
    for (theirs, ours) in MEMIF_CALLS {
        objcopy.arg(format!("--redefine-sym={theirs}={ours}"));
    }
    let done = objcopy.arg(archive).arg(out.join(format!("lib{NAME}.a"))).status();
    if !done.is_ok_and(|status| status.success()) {
        println!(
            "cargo::warning=net_memif is linked as it is, and trusts its other end: objcopy is missing (binutils)"
        );
        return None;
    }
    println!("cargo::rerun-if-changed={}", archive.display());
    Some(NAME)
}

/// The `-march` that DPDK's own package asks for. On arm64 it asks for none: then that of DPDK's generic build, so that
/// a program runs on other processors than the one that built it.
fn march() -> String {
    let out = std::process::Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let asked = text.ok().and_then(|text| {
        let mut words = text.split_whitespace();
        words.find(|word| word.starts_with("-march=")).map(str::to_owned)
    });
    asked.unwrap_or_else(|| match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-march=armv8-a+crc".to_owned(),
        _ => "-march=native".to_owned(),
    })
}

/// A package that is installed later is to be noticed.
fn watch_for_package() {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    for dir in [
        format!("/usr/lib/{arch}-linux-gnu/pkgconfig"),
        "/usr/lib64/pkgconfig".to_owned(),
        "/usr/lib/pkgconfig".to_owned(),
        "/usr/local/lib/pkgconfig".to_owned(),
    ] {
        if Path::new(&dir).exists() {
            println!("cargo::rerun-if-changed={dir}");
        }
    }
}
