//! Logs with one changed record, with a right or a wrong checksum. ferroxfs must refuse such a log,
//! or show at least what the kernel shows.

#![allow(clippy::indexing_slicing, reason = "an index that fails here fails the test")]

use std::fs::{self, File, OpenOptions as HostOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use ferroxfs::raw::log::{LogReader, find_head_and_tail};
use ferroxfs::{OpenError, OpenOptions};
use xfs_format::{BASIC_BLOCK_BYTES, crc};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs, ready};

use super::text;

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
const CRC: usize = 32;
/// Number of files. Each is made durable separately, so that each has a log record of its own.
const FILES: usize = 60;

/// A change to a log record, and whether the record's checksum is updated afterwards.
struct RecordChange {
    name: &'static str,
    is_sealed: bool,
    change: fn(&mut [u8]),
}

const CHANGES: [RecordChange; 14] = [
    RecordChange {
        name: "lsn",
        is_sealed: true,
        change: |record| record[23] = record[23].wrapping_add(5),
    },
    RecordChange { name: "lsn 0", is_sealed: true, change: |record| record[16..24].fill(0) },
    RecordChange { name: "cycle of the lsn", is_sealed: true, change: |record| record[19] += 1 },
    RecordChange {
        name: "tail",
        is_sealed: true,
        change: |record| record[31] = record[31].wrapping_add(3),
    },
    RecordChange { name: "tail 0", is_sealed: true, change: |record| record[24..32].fill(0) },
    RecordChange {
        name: "previous block",
        is_sealed: true,
        change: |record| record[36..40].fill(7),
    },
    RecordChange { name: "uuid", is_sealed: true, change: |record| record[304] ^= 1 },
    RecordChange { name: "version", is_sealed: true, change: |record| record[11] = 3 },
    RecordChange { name: "cycle", is_sealed: true, change: |record| record[7] += 1 },
    RecordChange { name: "length 0", is_sealed: true, change: |record| record[12..16].fill(0) },
    RecordChange { name: "length", is_sealed: true, change: |record| record[14] += 2 },
    RecordChange { name: "checksum", is_sealed: false, change: |record| record[CRC] ^= 1 },
    RecordChange { name: "payload", is_sealed: false, change: |record| record[700] ^= 1 },
    RecordChange {
        name: "no header",
        is_sealed: false,
        change: |record| record[..4].copy_from_slice(&[0, 0, 0, 7]),
    },
];

/// Makes every change of the list `CHANGES`, each on a fresh copy and to the log record that is
/// `before_last` records before the last one. Checks that ferroxfs refuses the log, or shows at
/// least what the kernel shows.
pub(crate) fn check(before_last: usize) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = make(folder.path())?;
    let records = records(&image)?;
    let place = records.len().checked_sub(before_last + 1).and_then(|index| records.get(index));
    let (offset, length) = *place.ok_or_else(|| text("too few records"))?;
    let mut failures = Vec::new();
    for RecordChange { name, is_sealed, change } in CHANGES {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
        let copy = image.copy(folder.path())?;
        let file = HostOptions::new().read(true).write(true).open(&copy.data).map_err(text)?;
        let mut record = vec![0; length];
        file.read_exact_at(&mut record, offset).map_err(text)?;
        change(&mut record);
        if is_sealed {
            seal(&mut record);
        }
        file.write_all_at(&record, offset).map_err(text)?;
        drop(file);
        let ours = match OpenOptions::new().open(&copy.data) {
            Ok(volume) => Some(volume.read_dir("/").map_err(text)?.count()),
            Err(OpenError::Log(_) | OpenError::Recovery(_) | OpenError::DirtyLog(_)) => None,
            Err(error) => return Err(text(format!("{name}: {error}"))),
        };
        // The kernel mounts only logs that we replay. Linux 6.18 hangs when it mounts a volume
        // whose last record has a wrong LSN.
        let Some(ours) = ours else { continue };
        let kernel = match copy.mount(&[]) {
            Ok(mount) => {
                let count = fs::read_dir(mount.path()).map_err(text)?.count();
                mount.unmount()?;
                Some(count)
            }
            Err(_) => None,
        };
        // If the kernel refuses the log, no name may be missing.
        if ours < kernel.unwrap_or(FILES) {
            failures.push(format!("{name}: we have {ours} names, the kernel has {kernel:?}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(text(failures.join("; "))) }
}

/// Makes a volume with a dirty log. Each of its files has a log record of its own.
fn make(folder: &Path) -> Result<Image, TrialError> {
    let data = folder.join("odd.xfs");
    File::create(&data).and_then(|file| file.set_len(320 << 20)).map_err(text)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let made = mkfs.arg("-q").arg(&data).status().map_err(text)?;
    if !made.success() {
        return Err(text("mkfs.xfs failed"));
    }
    let image = Image { data, log: None, realtime: None };
    let mount = image.mount(&[])?;
    for number in 0..FILES {
        let file = File::create(mount.path().join(format!("f{number}"))).map_err(text)?;
        file.write_all_at(b"x", 0).and_then(|()| file.sync_all()).map_err(text)?;
    }
    let mut shutdown = Command::new("xfs_io");
    shutdown.args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status().map_err(text)?;
    mount.unmount()?;
    Ok(image)
}

/// Returns the byte offset in the image and the length in bytes of each log record, from tail to
/// head.
fn records(image: &Image) -> Result<Vec<(u64, usize)>, TrialError> {
    let devices = OpenOptions::new().open_devices(&image.data).map_err(text)?;
    let superblock = devices.describe().map_err(text)?.superblock;
    let log = devices.log(&superblock).ok_or_else(|| text("no log"))?.map_err(text)?;
    let state = find_head_and_tail(&log).map_err(text)?;
    let mut reader = LogReader::new(&log, &state);
    let mut records = Vec::new();
    while let Some(entry) = reader.next_entry().map_err(text)? {
        if let ferroxfs::raw::log::LogEntry::Record(header) = entry {
            let block = log.geometry().start.0 + u64::from(header.lsn.block());
            records.push((
                block * u64::from(BASIC_BLOCK_BYTES),
                header.total_blocks() as usize * BLOCK,
            ));
        }
    }
    Ok(records)
}

/// Updates the checksum of a log record whose header is one block long.
fn seal(record: &mut [u8]) {
    let length = u32::from_be_bytes([record[12], record[13], record[14], record[15]]) as usize;
    let header = record.get(..328).expect("a record has a header");
    let sum = crc::compute(header, CRC).expect("the field lies in the header");
    let end = record.len().min(BLOCK + length);
    let sum = crc::append(sum, &record[BLOCK..end]);
    let field = record[CRC..].first_chunk_mut().expect("the field lies in the header");
    crc::store(field, sum);
}
