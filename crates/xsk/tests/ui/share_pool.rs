//! A pool's borrow stays on its thread.
use xsk::Pool;

fn share(pool: &Pool) {
    std::thread::scope(|s| {
        s.spawn(move || pool.free());
    });
}

fn main() {}
