//! There is one frame a chunk.
use xsk::Frame;

fn twice<'p>(frame: &Frame<'p>) -> Frame<'p> {
    frame.clone()
}

fn main() {}
