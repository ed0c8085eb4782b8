//! The loop path.
