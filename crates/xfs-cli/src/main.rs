//! The ferroxfs command line.
fn main() {}
