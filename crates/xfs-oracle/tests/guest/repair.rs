//! Repaired volumes with a realtime section or a metadata directory, as the guest's kernel sees
//! them.
//!
//! Each golden volume is damaged in several structures and repaired. The guest mounts the repaired
//! volume for writing, scrubs the structures of its realtime groups, and reads all files. It must
//! read the same as from the undamaged volume.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_device::{Durability, OverlayDevice, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::inode::ForkKind;
use xfs_format::{DiskAddr, InodeNumber, StructureAddress, Superblock};
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError};
use xfs_repair::{JoinedDevice, RehearsalOptions, realtime_start, rehearse};
use xfs_testkit::{RealtimeSection, golden_metadata_directory};

/// The most bytes of writes that an overlay keeps in memory.
const OVERLAY_BYTES: u64 = 64 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::new("repaired_volumes_with_a_section_are_mounted_by_the_guest", check)]
}

/// A golden volume, with its data device and its realtime device joined into one.
struct Volume {
    device: SharedDevice,
    data_bytes: u64,
    has_device: bool,
    superblock: Superblock,
}

impl Volume {
    fn new(section: Option<RealtimeSection>) -> Result<Self, TrialError> {
        let (data, realtime) = match section {
            Some(section) => (section.data(), section.device()),
            None => (golden_metadata_directory(), None),
        };
        let data: SharedDevice = Arc::new(data);
        let (data_bytes, has_device) = (data.length_bytes(), realtime.is_some());
        let below: SharedDevice = match realtime {
            Some(realtime) => Arc::new(JoinedDevice::new(data, Arc::new(realtime))),
            None => data,
        };
        let device: SharedDevice = Arc::new(OverlayDevice::new(below, OVERLAY_BYTES));
        let mut sector = vec![0; 512];
        device.read_at(&mut sector, 0).map_err(text)?;
        let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
        Ok(Self { device, data_bytes, has_device, superblock: superblock.map_err(text)? })
    }

    /// Returns the inodes of the bitmap and of the btrees, and of the directory that names them. If
    /// there are none, the second list has the root of the metadata directory.
    fn targets(&self) -> (Vec<InodeNumber>, Vec<InodeNumber>) {
        let evidence = Evidence::new(&*self.device, &self.superblock);
        let Some(root) = self.superblock.metadata_directory_inode else {
            return (vec![self.superblock.realtime_summary_inode], Vec::new());
        };
        let names = |directory| evidence.entries(&evidence.inode(directory)).names;
        let directories: Vec<InodeNumber> = names(root).iter().map(|name| name.child).collect();
        let files = directories.iter().flat_map(|directory| names(*directory));
        let lost = files.filter(|file| !file.name.ends_with(b"bitmap")).map(|file| file.child);
        (lost.collect(), if directories.is_empty() { vec![root] } else { directories })
    }

    /// Destroys inodes of the metadata directory, and the first block of the bitmap of a section
    /// without groups.
    fn damage(&self) -> Result<(), TrialError> {
        let geometry = &self.superblock.geometry;
        let (files, directories) = self.targets();
        // A file whose inode and name are both lost is made again with a loss only.
        let directories = if files.is_empty() { directories } else { Vec::new() };
        for inode in files.iter().step_by(2).chain(&directories) {
            let location = geometry.inode_location(*inode).ok_or_else(|| text("no such inode"))?;
            let at = location.cluster.0 * 512 + u64::from(location.offset_bytes);
            let zeros = vec![0; geometry.inode_size as usize];
            self.device.write_at(&zeros, at, Durability::Cached).map_err(text)?;
        }
        if self.superblock.has_classic_realtime() {
            let evidence = Evidence::new(&*self.device, &self.superblock);
            let bitmap = evidence.inode(self.superblock.realtime_bitmap_inode);
            let map = evidence.extents(&bitmap, ForkKind::Data);
            let first = map.extents.first().ok_or_else(|| text("the bitmap has no block"))?;
            let at = geometry.block_disk_addr(first.start).ok_or_else(|| text("no such block"))?;
            self.device.write_at(&[0x55; 64], at.0 * 512, Durability::Cached).map_err(text)?;
        }
        Ok(())
    }

    fn repair(&self) -> Result<(), TrialError> {
        let options = RehearsalOptions {
            data_bytes: self.has_device.then_some(self.data_bytes),
            ..RehearsalOptions::default()
        };
        let rehearsed = rehearse(&self.device, &self.superblock, &options).map_err(text)?;
        let report = &rehearsed.report;
        if rehearsed.actions.is_empty() || !report.is_clean() {
            let count = rehearsed.actions.len();
            let (findings, unchecked) = (&report.findings, &report.unchecked);
            return Err(format!("{count} actions: {findings:?}, not checked: {unchecked:?}").into());
        }
        Ok(())
    }

    /// Writes the devices to files.
    fn write(&self, folder: &Path, name: &str) -> Result<Vec<PathBuf>, TrialError> {
        let start = realtime_start(self.data_bytes);
        let mut parts = vec![(0, self.data_bytes)];
        if self.has_device {
            parts.push((start, self.device.length_bytes() - start));
        }
        let mut paths = Vec::new();
        for (index, (start, length)) in parts.into_iter().enumerate() {
            let path = folder.join(format!("{name}-{index}"));
            let mut bytes = vec![0; usize::try_from(length).map_err(text)?];
            self.device.read_at(&mut bytes, start).map_err(text)?;
            File::create(&path).and_then(|mut file| file.write_all(&bytes)).map_err(text)?;
            paths.push(path);
        }
        Ok(paths)
    }
}

fn check() -> Result<(), TrialError> {
    let mut guest = Guest::new(GuestKernel::New)?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let kinds = RealtimeSection::ALL.into_iter().map(Some).chain([None]);
    let (mut letters, mut script) = ('a'.., FUNCTIONS.to_owned());
    for (number, section) in kinds.enumerate() {
        let mut drives = Vec::new();
        for is_damaged in [false, true] {
            let volume = Volume::new(section)?;
            if is_damaged {
                volume.damage()?;
                volume.repair()?;
            }
            let mut options = "nouuid".to_owned();
            let mut first = None;
            for path in volume.write(folder.path(), &format!("{number}-{is_damaged}"))? {
                guest = guest.image(&path);
                let letter = letters.next().ok_or_else(|| text("a guest has few drives"))?;
                match first {
                    None => first = Some(letter),
                    Some(_) => options.push_str(&format!(",rtdev=/dev/vd{letter}")),
                }
            }
            drives.push((first.ok_or_else(|| text("a volume has a device"))?, options));
        }
        for ((letter, options), name) in drives.iter().zip(["sound", "repaired"]) {
            script.push_str(&format!("digest {letter} {options} > /tmp/{name}\n"));
        }
        script.push_str(&format!("same {number}\n"));
    }
    let answers = guest.script(&script).run()?.checked()?;
    let count = answers.lines().filter(|line| line.starts_with("same ")).count();
    if count == 4 { Ok(()) } else { Err(answers.into()) }
}

/// The functions of the script: the digests of all files of a volume, with the complaints of the
/// kernel's scrub, and the comparison of two such lists.
const FUNCTIONS: &str = "
digest() {
    mount -o $2 /dev/vd$1 /mnt || exit 1
    (cd /mnt && find . -type f | sort | xargs md5sum)
    : > /mnt/new; rm /mnt/new
    for kind in rtbitmap rtsummary rtrmapbt rtrefcountbt rgsuper; do
        xfs_io -c \"scrub $kind 0\" /mnt 2>&1 | grep -i corrupt
    done
    umount /mnt || exit 1
}
same() {
    if cmp /tmp/sound /tmp/repaired; then echo same $1; else
        cat /tmp/sound /tmp/repaired; exit 1
    fi
}
";

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
