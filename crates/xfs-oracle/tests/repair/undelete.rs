//! Salvages files that the kernel has removed before an unmount.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_evidence::find_superblock;
use xfs_format::inode::FileType;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Random, Xfsprogs, ready_with_programs};
use xfs_salvage::{Node, Salvage, SalvageOptions};

use crate::text;

/// Number of removed files.
const FILES: usize = 1000;
/// The share of the removed files whose contents must come back, in percent.
const LEAST_PERCENT: usize = 95;
/// The greatest length of a removed file in bytes.
const MOST_BYTES: u64 = 12_000;
/// Size of the volume in bytes.
const VOLUME_BYTES: u64 = 400 << 20;

/// Makes a volume, lets the kernel write and remove files, and checks that a salvage brings their
/// contents back.
pub(crate) fn check_undelete() -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let data = folder.path().join("removed.xfs");
    File::create(&data).and_then(|file| file.set_len(VOLUME_BYTES)).map_err(text)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let output = mkfs.args(["-q", "-m", "rmapbt=1"]).arg(&data).output().map_err(text)?;
    if !output.status.success() {
        return Err(text(String::from_utf8_lossy(&output.stderr)));
    }
    let image = Image { data, log: None, realtime: None };
    let mount = image.mount_if_possible()?;
    let written = write_files(mount.path()).map_err(text)?;
    fs::remove_dir_all(mount.path().join("removed")).map_err(text)?;
    mount.unmount()?;
    let mut found = deleted(&image.data)?;
    found.sort_unstable();
    // The size may not be known. Then the contents end with a whole block, filled with zeros.
    let is_back = |bytes: &Vec<u8>| {
        let next = found.partition_point(|other| other < bytes);
        let rest = found.get(next).and_then(|other| other.strip_prefix(bytes.as_slice()));
        rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    };
    let back = written.iter().filter(|bytes| is_back(bytes)).count();
    println!("undelete: {back} of {FILES} files are back");
    if back * 100 < FILES * LEAST_PERCENT {
        return Err(text(format!("only {back} of {FILES} files are back")));
    }
    Ok(())
}

/// Writes the files that will be removed, and waits until they are on disk. Returns their contents.
fn write_files(root: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut random = Random::new(0xde1);
    let folder = root.join("removed");
    fs::create_dir(&folder)?;
    (0..FILES)
        .map(|number| {
            let length = 8 + random.below(MOST_BYTES) as usize;
            let bytes = random.bytes(length);
            let path = folder.join(format!("file-{number}"));
            fs::write(&path, &bytes)?;
            File::open(&path)?.sync_all()?;
            Ok(bytes)
        })
        .collect()
}

/// Returns the contents of all deleted files that a salvage finds.
fn deleted(image: &Path) -> Result<Vec<Vec<u8>>, TrialError> {
    let device = FileDevice::open(image, FileOptions::read_only().live()).map_err(text)?;
    let device: SharedDevice = Arc::new(device);
    let found = find_superblock(&*device).map_err(text)?.ok_or_else(|| text("no superblock"))?;
    let options = SalvageOptions { deleted: true, log: Some(Arc::clone(&device)), realtime: None };
    let survey = Salvage::survey(&*device, &found.superblock, options, &()).map_err(text)?;
    let mut contents = Vec::new();
    for (name, node) in survey.top().entries() {
        if name == b"deleted" {
            read_below(&node, &mut contents);
        }
    }
    Ok(contents)
}

/// Adds the contents of all files in a directory of deleted files.
fn read_below(directory: &Node<'_>, contents: &mut Vec<Vec<u8>>) {
    for (_, node) in directory.entries() {
        let facts = node.facts();
        match FileType::from_mode(facts.mode) {
            Some(FileType::Directory) => read_below(&node, contents),
            Some(FileType::Regular) if facts.size <= 2 * MOST_BYTES => {
                let mut bytes = vec![0; facts.size as usize];
                let read = node.read_at(&mut bytes, 0);
                bytes.truncate(read);
                contents.push(bytes);
            }
            _ => {}
        }
    }
}
