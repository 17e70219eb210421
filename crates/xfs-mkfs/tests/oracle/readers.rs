//! Compares the table of readers with Linux 6.1. Each volume must have the access from that kernel
//! that the table gives: read-write, read-only or none.
//!
//! One guest tries to mount all volumes: read-write, and read-only if that fails.

use std::fs::File;
use std::path::Path;

use xfs_device::{BlockDevice, Durability, FileDevice, FileOptions};
use xfs_format::timestamp::Timestamp;
use xfs_format::{BlockKind, DiskAddr, Lsn, RoCompatFeatures, StructureAddress, Superblock};
use xfs_mkfs::{Access, Devices, Discard, Identity, Options, Plan, Reader, TargetDevice};
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError};

/// Length of the image of a volume in bytes.
const IMAGE_BYTES: u64 = 320 << 20;
/// The reader whose kernel the guest boots.
const KERNEL: &str = "linux-6.1";

/// A volume: the reader for which it is made, and more options.
struct Volume {
    reader: &'static str,
    option: (char, &'static str),
    /// Whether the superblock gets a read-only compatible bit that no kernel knows.
    has_unknown_bit: bool,
}

const fn volume(reader: &'static str, letter: char, argument: &'static str) -> Volume {
    Volume { reader, option: (letter, argument), has_unknown_bit: false }
}

const VOLUMES: [Volume; 9] = [
    volume("linux-6.1", 'm', "bigtime=1"),
    volume("linux-4.19", 'm', "finobt=1"),
    volume("linux-6.1", 'i', "nrext64=1"),
    volume("linux-6.6", 'm', "rmapbt=1"),
    volume("linux-6.12", 'i', "exchange=1"),
    volume("linux-6.12", 'n', "parent=1"),
    volume("linux-6.18", 'm', "bigtime=1"),
    volume("linux-6.12", 'b', "size=16k"),
    Volume { has_unknown_bit: true, ..volume("linux-6.1", 'm', "bigtime=1") },
];

pub(crate) fn trial() -> Trial {
    Trial::new("readers_kernel_mounts_what_the_table_says", check_mounts)
}

fn check_mounts() -> Result<(), TrialError> {
    let folder =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
    let mut guest = Guest::new(GuestKernel::V4)?;
    let kernel: Reader = KERNEL.parse().map_err(|error| format!("{error}"))?;
    let mut expected = Vec::new();
    for (index, volume) in VOLUMES.iter().enumerate() {
        let image = folder.path().join(format!("image-{index}"));
        let superblock = make(volume, &image)?;
        expected.push(kernel.verdict(&superblock).access);
        guest = guest.image(&image);
    }
    let text = guest.script(SCRIPT).run()?.checked()?;
    let found: Vec<_> = text.lines().filter_map(access_of).collect();
    if found == expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}").into()) }
}

/// Returns the access that a line of the script's output reports. Returns `None` if the line
/// reports none.
fn access_of(line: &str) -> Option<Access> {
    match line.strip_prefix("access ")? {
        "rw" => Some(Access::ReadWrite),
        "ro" => Some(Access::ReadOnly),
        _ => Some(Access::None),
    }
}

const SCRIPT: &str = "for device in a b c d e f g h i; do
    if mount /dev/vd$device /mnt; then echo access rw; umount /mnt
    elif mount -o ro,norecovery /dev/vd$device /mnt; then echo access ro; umount /mnt
    else echo access none
    fi
done
exit 0
";

/// Makes the volume in a new file, and returns its superblock.
fn make(volume: &Volume, image: &Path) -> Result<Superblock, TrialError> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let mut options = Options::default();
    let (letter, argument) = volume.option;
    options.parse(letter, argument).map_err(|error| said(&error))?;
    let reader: Reader = volume.reader.parse().map_err(|error| format!("{error}"))?;
    options.restrict_to(&[reader]).map_err(|error| said(&error))?;
    let file = File::create(image).map_err(|error| said(&error))?;
    file.set_len(IMAGE_BYTES).map_err(|error| said(&error))?;
    let device =
        FileDevice::open(image, FileOptions::read_write()).map_err(|error| said(&error))?;
    let target = TargetDevice {
        data_bytes: IMAGE_BYTES,
        sector_size: 512,
        log_bytes: None,
        realtime_bytes: None,
    };
    let salt = [volume.reader, argument].concat();
    let identity = Identity::reproducible(Timestamp::default(), salt.as_bytes());
    let plan = Plan::new(&options, &target, &identity).map_err(|error| said(&error))?;
    let devices = Devices { data: &device, log: None, realtime: None };
    xfs_mkfs::write(&plan, devices, Discard::No).map_err(|error| said(&error))?;
    let mut superblock = plan.superblock().clone();
    if volume.has_unknown_bit {
        superblock.ro_compat |= RoCompatFeatures::from_bits_retain(1 << 30);
        let mut sector = [0; 512];
        superblock.encode(&mut sector);
        BlockKind::Superblock.seal(&mut sector, Lsn(0));
        device.write_at(&sector, 0, Durability::Durable).map_err(|error| said(&error))?;
        let place = StructureAddress::Disk(DiskAddr(0));
        superblock = Superblock::decode(&sector, place).map_err(|error| said(&error))?;
    }
    Ok(superblock)
}
