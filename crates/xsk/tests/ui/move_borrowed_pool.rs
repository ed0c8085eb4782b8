//! A pool can't move away under its frames.
use xsk::{Pool, Umem, UmemConfig};

fn main() {
    let umem = Umem::new(&UmemConfig::default()).unwrap();
    let pool = Pool::new(&umem, 64).unwrap();
    let frame = pool.allocate_one();
    std::thread::spawn(move || pool.free());
    drop(frame);
}
