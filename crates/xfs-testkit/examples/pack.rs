//! Packs an image for `testdata/`: `cargo run -p xfs-testkit --example pack IMAGE OUTPUT`.

use std::fs;
use std::io;

fn main() -> io::Result<()> {
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: pack IMAGE OUTPUT");
    let mut arguments = std::env::args_os().skip(1);
    let (image, output) = arguments.next().zip(arguments.next()).ok_or_else(usage)?;
    fs::write(output, xfs_testkit::pack(&fs::read(image)?))
}
