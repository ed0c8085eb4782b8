//! Devices of the dpdk path that a test makes for itself.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::{Background, MemifPeer, Net, Scratch, init, mpps, run_command, skip, wait_until};
use mpps_host::lab::Host;

/// True, and said, where the program was built without DPDK.
///
/// # Panics
/// When DPDK is there and does not start.
pub fn no_dpdk() -> bool {
    static ABSENT: OnceLock<Option<String>> = OnceLock::new();
    let absent = ABSENT.get_or_init(|| {
        let finished = run_command(mpps("drop dpdk:net_null0 --eal=--no-huge --duration 1ms --quiet"));
        let without = finished.stderr.contains("built without DPDK");
        assert!(without || finished.code == Some(0), "{}", finished.stderr);
        without.then(|| finished.stderr.trim().to_owned())
    });
    if let Some(why) = absent {
        skip(why);
    }
    absent.is_some()
}

/// A memif that only this test knows the name of.
pub struct Memif(Scratch);

impl Default for Memif {
    fn default() -> Self {
        Self::new()
    }
}

impl Memif {
    /// A name nobody has.
    pub fn new() -> Self {
        Self(Scratch::new())
    }

    /// Driver number `number` at one of its ends, by a name without a file.
    pub fn port(&self, number: usize, role: &str) -> String {
        format!("dpdk:net_memif{number},role={role},socket={}", self.name())
    }

    /// Driver number `number` as the end that is there first.
    pub fn server(&self, number: usize) -> String {
        self.port(number, "server")
    }

    /// The end that connects.
    pub fn client(&self) -> String {
        self.port(0, "client")
    }

    /// The name of its socket.
    pub fn name(&self) -> String {
        self.0.file("memif").display().to_string()
    }
}

/// A memif whose socket is a file that only this test knows.
pub struct Own(Memif);

impl Default for Own {
    fn default() -> Self {
        Self::new()
    }
}

impl Own {
    /// A name nobody has.
    pub fn new() -> Self {
        Self(Memif::new())
    }

    /// Driver number `number` at one of its ends.
    pub fn port(&self, number: usize, role: &str) -> String {
        self.0.port(number, role) + ",socket-abstract=no"
    }

    /// The name of its socket.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// A client that has said nothing yet.
    ///
    /// # Panics
    /// When no server comes.
    pub fn client(&self) -> MemifPeer {
        let mut peer = None;
        wait_until("a server", || {
            peer = MemifPeer::connect(&PathBuf::from(self.0.name()));
            peer.is_some()
        });
        peer.expect("a server")
    }

    /// A client that the server has taken, and that has passed nothing yet. The one before it may still be in its
    /// place.
    ///
    /// # Panics
    /// When the server takes none.
    pub fn introducing(&self) -> MemifPeer {
        let mut peer = self.client();
        wait_until("a server that takes a client", || {
            let taken = peer.ask(&init(), None);
            if !taken {
                peer = self.client();
            }
            taken
        });
        peer
    }

    /// A client that has said all that a good one says. A server whose port has not started yet refuses it.
    ///
    /// # Panics
    /// When none takes it.
    pub fn introduced(&self) -> MemifPeer {
        let mut peer = self.client();
        wait_until("a server that connects", || {
            let connected = peer.introduce();
            if !connected {
                peer = self.client();
            }
            connected
        });
        peer
    }
}

/// A bridge on host b of a lab, for interfaces that DPDK makes.
pub struct Bridge<'n>(&'n Net);

impl<'n> Bridge<'n> {
    /// Makes it.
    pub fn new(net: &'n Net) -> Self {
        net.on(Host::B, "ip link add br0 type bridge forward_delay 0");
        // No chatter of the host's own on it.
        net.on(
            Host::B,
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        );
        net.on(Host::B, "ip link set br0 up");
        Self(net)
    }

    /// Starts what makes interface `name`, and joins that to the bridge, with another MAC address than DPDK gave it.
    ///
    /// The driver makes the interface first, gives it a MAC address of its own after that, and last of all sets it up:
    /// an address that was set before then would be lost.
    ///
    /// # Panics
    /// When the interface does not come, or does not keep its address.
    pub fn join(&self, name: &str, mac: &str, command: Command) -> Background {
        let mut started = Background::start(command);
        let show = || run_command(crate::inside(&self.0.lab, Host::B, &format!("ip link show {name}"))).stdout;
        wait_until("the interface of the tap to be up", || {
            is_up(&show()) || !started.running()
        });
        if !started.running() {
            // Only the end of the process is the end of what it says.
            let ended = started.finish();
            panic!("it ended with {:?}: {}{}", ended.code, ended.stdout, ended.stderr);
        }
        self.0.on(Host::B, &format!("ip link set {name} address {mac}"));
        let shown = show();
        assert!(shown.contains(&format!("link/ether {mac} ")), "{shown}");
        // Last of all: a short run may be over, and its interface gone, soon after the bridge lets its packets through.
        self.0.on(Host::B, &format!("ip link set {name} master br0"));
        started
    }
}

/// Whether the flags of `ip link show` (`<BROADCAST,MULTICAST,UP,LOWER_UP>`) say that somebody set it up.
fn is_up(shown: &str) -> bool {
    let flags = shown.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    flags.is_some_and(|(flags, _)| flags.split(',').any(|flag| flag == "UP"))
}
