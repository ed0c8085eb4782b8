//! The loop on Ethernet, where it must find the payload to corrupt it; and its options.

use mpps_io::loopback::{LoopConfig, LoopPort, check};
use mpps_io::{Burst, Frame, Port, Queue};
use proptest::prelude::*;

/// An Ethernet frame without padding: UDP over IPv4 with options or over IPv6.
fn ethernet(ipv6: bool, vlan: bool, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    if vlan {
        frame.extend([0x81, 0, 0, 5]);
    }
    let udp = (8 + payload) as u16;
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(udp.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x46, 0]);
        frame.extend((udp + 24).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10; 8]);
        frame.extend([1; 4]);
    }
    frame.extend([0, 9, 0, 9]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0xab, 0xcd]);
    frame.resize(frame.len() + payload, 0x55);
    frame
}

proptest! {
    #[test]
    fn corruption_of_an_ethernet_frame_hits_the_payload_and_never_the_padding(
        ipv6: bool, vlan: bool, payload in 0..64_usize, padding in 0..32_usize, seed: u64,
    ) {
        let config = LoopConfig { corrupt: 1.0, seed, ..LoopConfig::default() };
        let port = LoopPort::new(config, 1, || 0, |_: &mut [u8]| true);
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut original = ethernet(ipv6, vlan, payload);
        let end = original.len();
        original.resize(end + padding, 0);
        let mut burst = Burst::new(1);
        queue.allocate(&mut burst, 1).expect("allocate");
        let frame = &mut burst.as_mut_slice()[0];
        frame.set_len(original.len());
        frame.bytes_mut().copy_from_slice(&original);
        queue.transmit(&mut burst).expect("transmit");
        queue.receive(&mut burst).expect("receive");
        let bytes = burst.as_slice()[0].bytes();
        let changed: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != original[*at]).collect();
        prop_assert_eq!(changed.len(), usize::from(payload > 0));
        prop_assert!(port.counters(0).other.contains(&("corrupted", u64::from(payload > 0))));
        prop_assert!(changed.iter().all(|at| (end - payload..end).contains(at)));
    }

    #[test]
    fn locating_the_payload_of_garbage_stays_within_the_frame(
        mut frame in prop::collection::vec(any::<u8>(), 0..100), kind in 0..4_usize,
    ) {
        if let Some(ethertype) = frame.get_mut(12..14) {
            ethertype.copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0xa8]][kind]);
        }
        prop_assert!(frame.get(mpps_io::loopback::udp_payload(&frame)).is_some());
    }
}

#[test]
fn options_are_read_and_wrong_ones_named() {
    let read = |text: &str| check(&text.parse().expect("a port"));
    assert_eq!(read("loop:"), Ok(LoopConfig::default()));
    let config = read(
        "loop:delay=1.5ms,loss=1%,duplicate=0.02,reorder=0.5%,reorder_distance=4,corrupt=0,\
         seed=9,frames=64,mtu=9000,layer=payload,reflect=off",
    );
    let config = config.expect("valid");
    assert_eq!(
        (config.delay_ns, config.loss, config.duplicate, config.reorder),
        (1_500_000, 0.01, 0.02, 0.005)
    );
    assert_eq!((config.reorder_distance, config.seed, config.reflect), (4, 9, false));
    assert_eq!((config.buffers.frames, config.buffers.max_frame()), (64, 8972));
    assert_eq!(read("loop:delay=50us").expect("valid").delay_ns, 50_000);
    assert_eq!(read("loop:delay=2s").expect("valid").delay_ns, 2_000_000_000);
    assert!(read("loop:loss=25%,duplicate=25%,reorder=25%,corrupt=25%").is_ok());
    for (wrong, named) in [
        ("loop:eth0", "device 'eth0'"),
        ("loop:delay=1", "delay=1: want a time"),
        ("loop:delay=-1ms", "delay=-1ms: want"),
        ("loop:delay=NaNms", "delay=NaNms: want"),
        ("loop:delay=1e3s", "delay=1e3s: want"),
        ("loop:delay=61s", "delay=61s: want"),
        ("loop:delay=ms", "delay=ms: want"),
        ("loop:loss=1.1", "loss=1.1: want a ratio"),
        ("loop:loss=101%", "loss=101%: want"),
        ("loop:loss=NaN", "loss=NaN: want"),
        ("loop:loss=inf", "loss=inf: want"),
        ("loop:loss=-0.1", "loss=-0.1: want"),
        ("loop:loss=0.6,corrupt=0.6", "sum to"),
        ("loop:reorder_distance=0", "reorder_distance=0: want"),
        ("loop:frames=0", "frames=0: want"),
        ("loop:mtu=67", "mtu=67: want"),
        ("loop:layer=ip", "layer=ip: want ethernet or payload"),
        ("loop:wobble=1ms", "unknown option 'wobble'"),
    ] {
        let error = read(wrong).expect_err(wrong).to_string();
        assert!(error.contains(named), "{wrong}: {error}");
        assert!(!error.contains('\n'));
    }
}
