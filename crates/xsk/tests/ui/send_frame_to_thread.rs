//! A frame stays on its pool's thread: dropped elsewhere, it would race for the free list.
use xsk::Frame;

fn send(frame: Frame<'_>) {
    std::thread::scope(|s| {
        s.spawn(move || drop(frame));
    });
}

fn main() {}
