//! A frame that was sent is the kernel's.
use xsk::{Frame, Tx};

fn send<'p>(tx: &mut Tx<'p>, mut frame: Frame<'p>) {
    tx.send([frame]);
    frame.bytes_mut()[0] = 1;
}

fn main() {}
