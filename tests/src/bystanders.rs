//! The host's own traffic beside a test, as scripts in Python.

/// Echoes what comes by TCP on port 8000 and by UDP on port 7777, until standard input ends.
pub const ECHO: &str = r#"
import socket, sys, threading
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("10.99.0.2", 7777))
tcp = socket.socket()
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(("10.99.0.2", 8000))
tcp.listen()
def datagrams():
    while True:
        data, who = udp.recvfrom(2000)
        udp.sendto(data, who)
threading.Thread(target=datagrams, daemon=True).start()
sys.stderr.write("echo is open\n")
sys.stderr.flush()
link, _ = tcp.accept()
while data := link.recv(65536): link.sendall(data)
"#;

/// Talks to it: every byte of a megabyte by TCP and each of 50 datagrams come back, and ping is answered.
pub const TALK: &str = r#"
import socket, sys, hashlib, random, threading
random.seed(3)
tcp = socket.create_connection(("10.99.0.2", 8000), 20)
sent, got = random.randbytes(1 << 20), bytearray()
writer = threading.Thread(target=tcp.sendall, args=(sent,))
writer.start()
while len(got) < len(sent):
    data = tcp.recv(65536)
    if not data: sys.exit("closed after %d" % len(got))
    got += data
writer.join()
if hashlib.sha256(sent).digest() != hashlib.sha256(got).digest(): sys.exit("TCP: other bytes")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(20)
for i in range(50):
    udp.sendto(b"%d" % i, ("10.99.0.2", 7777))
    if udp.recv(100) != b"%d" % i: sys.exit("UDP: other bytes")
ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
ping.settimeout(20)
ping.sendto(bytes.fromhex("0800f7ff00000000"), ("10.99.0.2", 0))
while ping.recv(100)[20] != 0: pass
"#;
