//! A frame can't leave the scope of its pool.
use xsk::{Pool, Umem, UmemConfig};

fn main() {
    let umem = Umem::new(&UmemConfig::default()).unwrap();
    let pool = Pool::new(&umem, 64).unwrap();
    let kept = pool.scope(|pool| pool.allocate_one());
    drop(kept);
}
