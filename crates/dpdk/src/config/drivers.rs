//! Options of a port that belong to the driver: which each driver has, and what their values may be.

use super::{Device, OWN};
use mpps_io::{PortSpec, SpecError};
use std::ops::RangeInclusive;

/// The options of net_null, and how long its frames may be, bytes: the driver cuts what is longer than a number of 16
/// bits to some other length.
const NULL: [&str; 3] = ["size", "copy", "no-rx"];
const NULL_SIZES: RangeInclusive<u32> = 1..=65_535;

/// The options of net_memif. It ignores those that it does not know, and a misspelt `role=server` makes a client, which
/// waits. The last two are of DPDK 23.07.
const MEMIF: [&str; 11] = [
    "role",
    "id",
    "bsize",
    "rsize",
    "socket",
    "socket-abstract",
    "mac",
    "secret",
    "zero-copy",
    "owner-uid",
    "owner-gid",
];

/// Frames of each ring of a net_af_packet (2 KiB per frame) if its options don't shape the rings: 16 ms at 250 kpps.
/// The driver's own 512 are 2 ms, and a core that is taken away for as long loses packets.
const AF_PACKET_FRAMES: u32 = 4_096;

/// Refuses options that the driver lacks, before any other line names the port. Their values are not shown: a
/// misspelt `secret=` has one.
pub(super) fn check_names(spec: &PortSpec, driver: &str) -> Result<(), SpecError> {
    let of_driver: &[&str] = match driver {
        "net_memif" => &MEMIF,
        "net_null" => &NULL,
        _ => return Ok(()),
    };
    let known = |key: &str| of_driver.contains(&key) || OWN.contains(&key);
    let shown = |key: &str| known(key) || driver != "net_memif";
    match spec.options.iter().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((key, _)) => Err(SpecError(format!(
            "port '{}': {key}: {driver} has no such option: want {}",
            spec.with_values_of(&shown),
            of_driver.join(", ")
        ))),
    }
}

/// Refuses a number of descriptors for a driver whose rings have another option: the number would mean nothing.
pub(super) fn check_rings(spec: &PortSpec, driver: &str) -> Result<(), SpecError> {
    let instead = match driver {
        "net_memif" => "rsize=N, a power of two: 10 for 1024",
        "net_af_packet" => "framecnt=N",
        _ => "",
    };
    if let Some((key, value)) = spec
        .options
        .iter()
        .find(|(key, _)| !instead.is_empty() && (key == "rxd" || key == "txd"))
    {
        return Err(SpecError(format!(
            "port '{spec}': {key}={value}: this driver's rings have another option: want {instead}"
        )));
    }
    Ok(())
}

/// Returns the options that the driver gets, in the order written, and refuses values that it does not take.
pub(super) fn arguments(spec: &PortSpec, device: &Device, driver: &str) -> Result<Vec<(String, String)>, SpecError> {
    let by_mac = matches!(device, Device::Mac(_));
    let ours = |key: &str| OWN.contains(&key) || (key == "mac" && by_mac);
    let mut driver_args: Vec<_> = spec.options.iter().filter(|(key, _)| !ours(key)).cloned().collect();
    for (key, value) in &driver_args {
        let (.., wanted, right) = VALUES
            .iter()
            .find(|(of, option, ..)| (*of, *option) == (driver, key.as_str()))
            .unwrap_or(&("", "", "", |_| true));
        if !right(value) {
            return Err(SpecError(format!("port '{spec}': {key}={value}: want {wanted}")));
        }
        let size = value.parse().unwrap_or(0);
        if (driver, key.as_str()) == ("net_null", "size") && !NULL_SIZES.contains(&size) {
            let (least, most) = (NULL_SIZES.start(), NULL_SIZES.end());
            return Err(SpecError(format!(
                "port '{spec}': size={value}: want bytes from {least} to {most}"
            )));
        }
    }
    let shaped = driver_args
        .iter()
        .any(|(key, _)| ["framecnt", "framesz", "blocksz"].contains(&key.as_str()));
    if driver == "net_af_packet" && !shaped {
        driver_args.push(("framecnt".to_owned(), AF_PACKET_FRAMES.to_string()));
    }
    if let (Device::Mac(_), Some((key, _))) = (device, driver_args.first()) {
        return Err(SpecError(format!(
            "port '{spec}': option '{key}': a device found by its MAC address takes {}",
            OWN.join(", ")
        )));
    }
    Ok(driver_args)
}

/// Whether an option's value is one that the driver takes.
type Takes = fn(&str) -> bool;

fn yes_or_no(value: &str) -> bool {
    matches!(value, "yes" | "no")
}

fn within(value: &str, range: RangeInclusive<u64>) -> bool {
    value.parse::<u64>().is_ok_and(|n| range.contains(&n))
}

/// Driver, option, what it takes in words, and whether a value is that. What is not in here the driver judges itself.
/// Source: `rte_eth_memif.c` of DPDK.
const VALUES: [(&str, &str, &str, Takes); 6] = [
    ("net_memif", "role", "server or client", |v| {
        matches!(v, "server" | "client" | "master" | "slave")
    }),
    ("net_memif", "zero-copy", "yes or no", yes_or_no),
    ("net_memif", "socket-abstract", "yes or no", yes_or_no),
    ("net_memif", "id", "a number from 0 to 4294967295", |v| {
        within(v, 0..=u32::MAX.into())
    }),
    (
        "net_memif",
        "rsize",
        "an exponent of two, from 1 to 14: 10 for 1024",
        |v| within(v, 1..=14),
    ),
    ("net_memif", "bsize", "bytes from 1 to 65535", |v| {
        within(v, 1..=u16::MAX.into())
    }),
];
