//! Runs a script in a guest (another kernel in a virtual machine) that has images as its disks. For
//! experiments, and for making the images that are stored with the tests.
//!
//! `FERROXFS_ORACLES=target/oracles cargo run -p xfs-oracle --example guest -- KERNEL SCRIPT
//! IMAGE...`, where KERNEL is `new` or `v4`. The script's output goes to standard output, the
//! kernel's messages go to standard error, and the exit status is the script's.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use xfs_oracle::guest::{Guest, GuestKernel};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: guest new|v4 SCRIPT IMAGE...";
    let kernel = match arguments.next().ok_or(usage)?.to_str() {
        Some("new") => GuestKernel::New,
        Some("v4") => GuestKernel::V4,
        _ => return Err(usage.into()),
    };
    let script = std::fs::read_to_string(arguments.next().ok_or(usage)?)?;
    let guest = Guest::new(kernel)?.script(&script);
    let guest = arguments.fold(guest, |guest, image| guest.image(Path::new(&image)));
    let output = guest.run()?;
    print!("{}", output.text);
    eprintln!("{}", output.kernel_log);
    Ok(ExitCode::from(u8::try_from(output.status).unwrap_or(1)))
}
