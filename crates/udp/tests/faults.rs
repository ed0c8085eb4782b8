//! What goes wrong is told, counted, and does not end a run.

mod common;
#[path = "common/faults.rs"]
mod shared;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "udp";
    pub(crate) use mpps_udp::{Mode, UdpPort as PathPort, check, open};
}
use common::BOTH;
use mpps_udp::{Mode, check, open};
use std::net::SocketAddr;

#[test]
fn more_sockets_than_files_may_be_open_are_refused_with_the_limit() {
    // The limit is the process's: lowered in a child of its own.
    if std::env::var_os("MPPS_UDP_TEST_CHILD").is_none() {
        let me = std::env::current_exe().expect("own program");
        let name = "more_sockets_than_files_may_be_open_are_refused_with_the_limit";
        let script = format!("ulimit -n 40; exec \"$0\" --exact {name} --test-threads 1");
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(me)
            .env("MPPS_UDP_TEST_CHILD", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .expect("child");
        assert!(status.success());
        return;
    }
    let config = check(&"udp:127.0.0.1".parse().expect("spec")).expect("config");
    assert_eq!(config.max_flows(&[BOTH]), 1);
    let end = |ip: [u8; 4], port: u16| SocketAddr::from((ip, port));
    let flows = (0..100).map(|i| (end([127, 0, 0, 9], 20_000 + i), end([127, 0, 0, 1], 9)).into());
    let mode = Mode::Connected(flows.collect());
    let config = mpps_udp::Config {
        address: None,
        ..config
    };
    let text = open(config, mode, &[BOTH]).err().expect("refused").to_string();
    assert!(text.contains("100 udp sockets") && text.contains("40"), "{text}");
}
