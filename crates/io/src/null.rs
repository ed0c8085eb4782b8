//! The null path.
