//! Makes a volume in a new image file, and fills it.
//!
//! `cargo run -p ferroxfs --example make -- IMAGE`
//!
//! The crate `xfs-mkfs` makes the volume. Your program needs this crate in addition to `ferroxfs`:
//!
//! ```toml
//! [dependencies]
//! ferroxfs = { path = "../ferroxfs/crates/ferroxfs" }
//! xfs-mkfs = { path = "../ferroxfs/crates/xfs-mkfs" }
//! ```

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ferroxfs::admin::Label;
use ferroxfs::device::{BlockDevice, FileDevice, FileOptions};
use ferroxfs::{CreateOptions, NewKind, OpenOptions};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};

const IMAGE_BYTES: u64 = 300 << 20;

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: make IMAGE")?;
    run(image.as_ref())
}

pub(crate) fn run(image: &Path) -> Result<(), Box<dyn Error>> {
    // A file of this length that takes no space yet. An existing one is not touched.
    File::create_new(image)?.set_len(IMAGE_BYTES)?;
    let device = Arc::new(FileDevice::open(image, FileOptions::read_write())?);

    // The plan has passed every check, and nothing is written before it has.
    let mut options = Options::default();
    options.label = Label::new(b"data").ok_or("a label has at most 12 bytes")?;
    let target = TargetDevice {
        data_bytes: device.length_bytes(),
        sector_size: device.sector_size(),
        log_bytes: None,
        realtime_bytes: None,
    };
    let plan = Plan::new(&options, &target, &Identity::random()?)?;
    xfs_mkfs::write(&plan, Devices { data: &*device, log: None, realtime: None }, Discard::No)?;

    let volume = OpenOptions::new().write(true).open_device(device)?;
    volume.create_dir("/etc")?;
    volume.write("/etc/hostname", b"box\n")?;
    volume.symlink("hostname", "/etc/name")?;

    // By node: another mode and owner, other kinds of file, and many files in one directory without
    // a path lookup for each.
    let folder =
        volume.root()?.create("spool", &NewKind::Directory, &CreateOptions::new(0o1777))?;
    for number in 0..100 {
        let owned = CreateOptions::new(0o600).uid(1000).gid(1000);
        let node = folder.create(format!("job-{number}"), &NewKind::Regular, &owned)?;
        node.open()?.write_at(format!("job {number}\n").as_bytes(), 0)?;
    }
    drop(folder);
    volume.close()?;
    Ok(())
}
