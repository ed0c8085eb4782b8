//! A packet's bytes are there as long as its frame.
use xsk::Frame;

fn first(frame: Frame<'_>) -> u8 {
    let bytes = frame.bytes();
    drop(frame);
    bytes[0]
}

fn main() {}
