//! Messages for the user about a port: facts if it is open, hints if it can't be made.

use crate::memif::{Socket, is_held};
use crate::{Config, memory};
use dpdk_sys as sys;
use mpps_io::{ErrorKind, Fact};
use mpps_netdev::NetDev;
use mpps_sys::private;
use mpps_sys::privilege::lacks;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// `IFNAMSIZ` less the zero at the end.
const MAX_INTERFACE_NAME: usize = 15;
/// Bytes of `sun_path` less the zero at the end. DPDK cuts a longer one.
const MAX_SOCKET_PATH: usize = 107;

/// How a virtual device gets more queues.
pub(crate) fn more_queues(config: &Config) -> &'static str {
    match config.driver() {
        "net_af_packet" => ", or qpairs=N in the port",
        "net_af_xdp" => ", or queue_count=N in the port",
        "net_virtio_user" => ", or queues=N in the port",
        _ => "",
    }
}

/// Kind of object that a driver's option names.
#[derive(Clone, Copy)]
enum Names {
    /// An existing interface.
    Interface,
    /// An interface to be made, or an existing one.
    Any,
    /// An existing file.
    File,
    /// A file to be made.
    New,
    /// A socket to be made, or an existing one.
    Socket,
}

/// Options whose drivers don't say plainly that what they name isn't there.
const NAMING: [(&str, &str, Names); 14] = [
    ("net_memif", "socket", Names::New),
    ("net_tap", "iface", Names::Any),
    ("net_tap", "remote", Names::Interface),
    ("net_af_packet", "iface", Names::Interface),
    ("net_af_xdp", "iface", Names::Interface),
    ("net_af_xdp", "xdp_prog", Names::File),
    ("net_pcap", "rx_pcap", Names::File),
    ("net_pcap", "tx_pcap", Names::New),
    ("net_pcap", "rx_iface", Names::Interface),
    ("net_pcap", "rx_iface_in", Names::Interface),
    ("net_pcap", "tx_iface", Names::Interface),
    ("net_pcap", "iface", Names::Interface),
    ("net_virtio_user", "path", Names::Socket),
    ("net_vhost", "iface", Names::Socket),
];

/// Returns why a library must not write to a file: somebody else may have put it there.
fn not_ours(path: &str) -> Option<String> {
    let refused = private::check(Path::new(path)).err()?;
    (refused.kind() == io::ErrorKind::PermissionDenied).then(|| refused.to_string())
}

/// Why DPDK must not make a socket at a path: there is a file, which it would remove, as it can't bind there.
fn taken(path: &Path) -> Option<String> {
    let there = path.symlink_metadata().ok()?;
    let left = there.file_type().is_socket() && is_held(path).is_ok_and(|held| !held);
    Some(match left {
        true => format!("a socket is there that nobody listens at: rm {}", path.display()),
        false => "it is there already: want a path at which there is nothing".to_owned(),
    })
}

fn missing(path: &str) -> bool {
    !Path::new(path).exists()
}

/// Whether the kernel says that there is none of this name. Not by `/sys`, which may be another namespace's.
fn no_interface(name: &str) -> bool {
    NetDev::by_name(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The first option that names something which isn't there, or can't be, and what is wrong with it.
pub(crate) fn misnamed(config: &Config, socket: Option<&Socket>) -> Option<String> {
    // The one option of a memif that names anything is its socket, which may be no file, or one that is waited for.
    let looked_at = config.driver() != "net_memif" || socket.is_some_and(|socket| socket.file().is_some());
    config
        .driver_args
        .iter()
        .filter(|_| looked_at)
        .find_map(|(key, value)| {
            let (.., names) = NAMING
                .iter()
                .find(|(driver, option, _)| (*driver, *option) == (config.driver(), key))?;
            let long = value.len() > MAX_INTERFACE_NAME;
            let wrong = match names {
                Names::Interface | Names::Any if long => {
                    format!("an interface's name has at most {MAX_INTERFACE_NAME} bytes")
                }
                Names::Interface if no_interface(value) => "there is no such interface".to_owned(),
                Names::File if missing(value) => "there is no such file".to_owned(),
                Names::Socket if value.len() > MAX_SOCKET_PATH => {
                    format!("a socket's path has at most {MAX_SOCKET_PATH} bytes")
                }
                Names::New | Names::Socket => {
                    let path = Path::new(value);
                    let above = path.parent();
                    match above.filter(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
                        Some(directory) => format!("there is no directory {}", directory.display()),
                        None if config.is_vhost_server() => taken(path).or_else(|| not_ours(value))?,
                        None => not_ours(value)?,
                    }
                }
                _ => return None,
            };
            Some(format!("{key}={value}: {wrong}"))
        })
}

/// The most likely reason why a virtual device can't be made, and whether the arguments are to blame.
pub(crate) fn hint(config: &Config, cause: String) -> (String, ErrorKind) {
    // Numbers of `<linux/capability.h>`.
    let (admin, raw, bpf) = (lacks(12), lacks(13), lacks(39));
    let unknown = cause.contains("failed to parse device");
    let nameless = matches!(config.driver(), "net_af_packet" | "net_af_xdp") && config.interface().is_none();
    let hint = match config.driver() {
        _ if unknown => {
            "DPDK has no driver of this name: is it spelled right, and installed? (`mpps doctor` says where the \
             drivers are)"
        }
        _ if nameless => "want iface=NAME, such as net_af_packet0,iface=eth1",
        "net_tap" | "net_virtio_user" if missing("/dev/net/tun") => "there is no /dev/net/tun: `modprobe tun`",
        "net_af_packet" if raw => "it needs CAP_NET_RAW: run as root",
        "net_tap" | "net_virtio_user" if admin => "it needs CAP_NET_ADMIN: run as root",
        "net_af_xdp" if admin || raw || bpf => "it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run as root",
        "net_memif" if cause.contains("in use") => {
            "another process listens there: want another socket=PATH,socket-abstract=no"
        }
        _ => "are the driver's options right, and is it installed? (`mpps doctor` says where the drivers are)",
    };
    let kind = match unknown || nameless {
        true => ErrorKind::NotFound,
        false => ErrorKind::Other,
    };
    (format!("{hint} ({cause})"), kind)
}

pub(crate) fn facts(
    config: &Config,
    driver: &str,
    info: &sys::PortInfo,
    conf: &sys::PortConf,
    state: &sys::PortState,
    (up, promisc): (bool, bool),
    lanes: usize,
) -> Vec<Fact> {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let by = |device: u8| if device != 0 { "device" } else { "software" }.to_owned();
    let mac: Vec<String> = info.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        Fact::new("dpdk_version", crate::VERSION.unwrap_or_default().to_owned()),
        Fact::shown("driver", driver.to_owned()),
        Fact::new("mac", mac.join(":")),
        Fact::new("mtu_bytes", state.mtu.to_string()),
        Fact::new("link", if up { "up" } else { "down at the start" }.to_owned()),
        Fact::new("rx_queues", conf.rx_queues.to_string()),
        Fact::new("tx_queues", conf.tx_queues.to_string()),
        Fact::new("rx_ring_descriptors", state.rx_ring.to_string()),
        Fact::new("tx_ring_descriptors", state.tx_ring.to_string()),
        Fact::new(
            "mbufs_a_lane",
            memory::mbufs(config, conf.rx_ring, conf.tx_ring).to_string(),
        ),
        Fact::new("numa_node", info.socket.to_string()),
        Fact::new("checksums_by", by(conf.tx_checksum)),
        Fact::new("rx_checksums_by", by(conf.rx_checksum)),
        Fact::new("fast_free", on(conf.fast_free != 0)),
        Fact::new("promiscuous", on(promisc)),
        Fact::new(
            "rss",
            if state.rss == 0 {
                "none".to_owned()
            } else {
                format!("{:#x}", state.rss)
            },
        ),
        Fact::new("lanes", lanes.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_file_where_a_socket_is_to_be_made_is_refused_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "precious").expect("a file");
        std::os::unix::fs::symlink("nowhere", at("link")).expect("a link");
        let _listens = UnixListener::bind(at("live")).expect("a socket");
        drop(UnixListener::bind(at("dead")).expect("a socket"));
        let said = |name: &str, more: &str| {
            let text = format!("dpdk:net_vhost0,iface={}{more}", at(name).display());
            misnamed(&crate::check(&text.parse().expect("a port")).expect("valid"), None).unwrap_or_default()
        };
        for name in ["file", "link", "live"] {
            assert!(
                said(name, "").ends_with("want a path at which there is nothing"),
                "{name}"
            );
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        let gone = said("dead", "");
        assert!(gone.contains("nobody listens at: rm /"), "{gone}");
        // A client's server has made it.
        assert_eq!(said("live", ",client=1"), "");
        assert_eq!(said("new", ""), "");
        assert!(said(&"x".repeat(108), "").ends_with("at most 107 bytes"));
    }

    #[test]
    fn an_option_that_names_what_is_not_there_is_named() {
        for (port, said) in [
            (
                "net_memif0,role=server,socket-abstract=no,socket=/nowhere/at/all/x.sock",
                "socket=/nowhere/at/all/x.sock: there is no directory /nowhere/at/all",
            ),
            ("net_memif0,socket-abstract=no,socket=x.sock", ""),
            ("net_memif0,socket=/nowhere/at/all/x.sock", ""),
            ("net_memif0,role=client,socket-abstract=no,socket=/nowhere/x.sock", ""),
            (
                "net_pcap0,rx_pcap=/nowhere.pcap",
                "rx_pcap=/nowhere.pcap: there is no such file",
            ),
            (
                "net_pcap0,rx_pcap=/proc/self/status,tx_pcap=/nowhere/x",
                "tx_pcap=/nowhere/x: there is no directory /nowhere",
            ),
            ("net_pcap0,iface=lo", ""),
            (
                "net_tap0,iface=averyveryverylongname",
                "iface=averyveryverylongname: an interface's name has at most 15 bytes",
            ),
            (
                "net_tap0,iface=new0,remote=nosuch",
                "remote=nosuch: there is no such interface",
            ),
            (
                "net_af_packet0,iface=nosuch",
                "iface=nosuch: there is no such interface",
            ),
            ("net_ring0,iface=nosuch", ""),
            (
                "net_vhost0,iface=/nowhere/vhost",
                "iface=/nowhere/vhost: there is no directory /nowhere",
            ),
        ] {
            let config = crate::check(&format!("dpdk:{port}").parse().expect(port)).expect(port);
            let socket = Socket::find(&config).expect("a folder");
            assert_eq!(misnamed(&config, socket.as_ref()).unwrap_or_default(), said, "{port}");
        }
    }
}
