//! A host on the way that treats packets as a bad network does, by their order of arrival, so that what became of each
//! is known exactly.

use std::process::Command;

use mpps_host::lab::Host;
use rustix::process::Signal;
use serde_json::Value;

use crate::{Background, Net, inside, missing};

/// Sends IPv4 UDP packets to port `argv[2]` back by the interface `argv[1]`, MAC addresses, IP addresses and ports
/// swapped; of every twenty: one lost, one twice, one with changed data and its old checksum, one with changed data and
/// without a checksum, one pair in the other order, one pair three apart. It stays on one processor, or with `argv[3]`
/// = `roams` moves on to another after every fifty. At the end it tells what it did as JSON.
const SCRIPT: &str = r#"
import json, os, signal, socket, sys
device, port, roams = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "roams"
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
link.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
link.bind((device, 0x0800))
processors = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, processors[:1])
done = dict.fromkeys(["came", "sent", "dropped", "doubled", "corrupted", "swapped"], 0)
held, last = None, -1
def end(*_):
    done["held"] = int(held is not None)
    done["tail"] = done["came"] - 1 - last
    print(json.dumps(done), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
sys.stderr.write("the middlebox is open\n")
sys.stderr.flush()
def send(frame):
    done["sent"] += 1
    link.send(frame)
while True:
    frame, where = link.recvfrom(2048)
    if where[2] == 4 or frame[23] != 17 or int.from_bytes(frame[36:38], "big") != port: continue
    n = done["came"] % 20
    if roams and done["came"] % 50 == 0:
        os.sched_setaffinity(0, [processors[done["came"] // 50 % len(processors)]])
    done["came"] += 1
    frame = bytearray(frame[6:12] + frame[:6] + frame[12:26] + frame[30:34] + frame[26:30]
                      + frame[36:38] + frame[34:36] + frame[38:])
    if n == 3:
        done["dropped"] += 1
        continue
    if n in (11, 17):
        done["corrupted"] += 1
        frame[60] ^= 0x10
        if n == 17: frame[40:42] = b"\0\0"
    if n in (5, 13):
        held = frame
        continue
    send(frame)
    if n not in (11, 17): last = done["came"] - 1
    if n == 7:
        done["doubled"] += 1
        send(frame)
    if n in (6, 16) and held:
        done["swapped"] += 1
        send(held)
        held = None
"#;

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treated {
    /// Packets that came.
    pub came: u64,
    /// Packets sent on, copies included.
    pub sent: u64,
    /// Not sent on.
    pub dropped: u64,
    /// Sent on twice.
    pub doubled: u64,
    /// With changed data; half of them without a checksum.
    pub corrupted: u64,
    /// Sent on behind a later one.
    pub swapped: u64,
    /// Kept for one that never came.
    pub held: u64,
    /// Of those not sent on, kept or changed: the ones after the last packet that was sent on whole. Whoever sees no
    /// sender can't know of them.
    pub tail: u64,
}

/// A middlebox on one host, while it runs.
pub struct Middlebox(Background);

impl Middlebox {
    /// Starts it for packets to this port. `None`, and said, without Python.
    pub fn start(net: &Net, host: Host, port: u16, roams: bool) -> Option<Self> {
        if missing("python3", "python3") {
            return None;
        }
        let mut command: Command = inside(&net.lab, host, "python3 -c");
        command
            .arg(SCRIPT)
            .args(["eth1", &port.to_string(), if roams { "roams" } else { "stays" }]);
        Some(Self(Background::start(command).wait_to_hear("the middlebox is open")))
    }

    /// Ends it.
    ///
    /// # Panics
    /// When it had failed.
    pub fn end(self) -> Treated {
        let finished = self.0.end(Signal::TERM);
        let done: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("the middlebox: {e}: {finished:?}"));
        let count = |name: &str| done[name].as_u64().expect("a count");
        Treated {
            came: count("came"),
            sent: count("sent"),
            dropped: count("dropped"),
            doubled: count("doubled"),
            corrupted: count("corrupted"),
            swapped: count("swapped"),
            held: count("held"),
            tail: count("tail"),
        }
    }
}
