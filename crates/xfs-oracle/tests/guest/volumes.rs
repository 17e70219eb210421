//! Volumes with a realtime section: ferroxfs reads what the guest has written, inode by inode.
//!
//! One guest fills several volumes: each kind of section, once unmounted and once with a dirty log.
//! A seed determines the operations on a volume. Another guest mounts copies, which recovers a
//! dirty log, and prints the metadata and the checksum of each file. ferroxfs reads the volumes as
//! the first guest has left them. The second guest also lists volumes with a classic section that
//! ferroxfs has filled.
//!
//! | variable | effect |
//! |---|---|
//! | `FERROXFS_LONG=1` | fills 20 volumes of each kind instead of 2 |

mod crc32;
mod ours;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File as HostFile;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroxfs::{OpenOptions, Volume};
use xfs_oracle::Xfsprogs;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError};
use xfs_testkit::Prng;

use crc32::Crc32;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::new("realtime_volumes_of_a_guest_are_read_as_the_guest_shows_them", check_all)]
}

/// The greatest number of volumes that one guest fills. Each volume takes one or two drives, and a
/// virtual machine has room for about 25 drives.
const VOLUMES_PER_BOOT: usize = 8;
const MIB: u64 = 1 << 20;
/// The first seed of the volumes that ferroxfs fills. Their images must have other names than those
/// that the guest fills.
const OUR_SEEDS: u64 = 1000;

/// A kind of realtime section.
#[derive(Clone, Copy, Debug)]
enum Section {
    Classic,
    /// A classic section with extents of 28 KiB.
    ClassicLargeExtents,
    Groups,
    ZonedDevice,
    ZonedInternal,
}

impl Section {
    /// Returns the kinds of realtime sections for the volumes of a seed. The extents of the classic
    /// section are large if the seed is odd.
    fn of(seed: u64) -> [Self; 4] {
        let classic = if seed % 2 == 1 { Self::ClassicLargeExtents } else { Self::Classic };
        [classic, Self::Groups, Self::ZonedDevice, Self::ZonedInternal]
    }

    const fn has_device(self) -> bool {
        !matches!(self, Self::ZonedInternal)
    }

    /// Returns the options of mkfs.xfs, except the path of the realtime device.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Classic => &["-m", "metadir=0", "-r", "extsize=4096"],
            Self::ClassicLargeExtents => &["-m", "metadir=0", "-r", "extsize=28k"],
            Self::Groups => &["-m", "metadir=1,rmapbt=1,reflink=1"],
            Self::ZonedDevice => &["-r", "zoned=1,rgsize=8m"],
            Self::ZonedInternal => &["-d", "size=96m", "-r", "zoned=1,rgsize=8m"],
        }
    }

    const fn shares(self) -> bool {
        matches!(self, Self::Groups)
    }

    const fn preallocates(self) -> bool {
        !matches!(self, Self::ZonedDevice | Self::ZonedInternal)
    }
}

/// A volume that the guest fills.
struct Filled {
    section: Section,
    seed: u64,
    /// Whether the guest leaves the log dirty.
    is_dirty: bool,
    data: PathBuf,
    realtime: Option<PathBuf>,
}

fn check_all() -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?;
    let seeds = if std::env::var_os("FERROXFS_LONG").is_some() { 20 } else { 2 };
    let all: Vec<_> = (0..seeds)
        .flat_map(|seed| Section::of(seed).into_iter().map(move |section| (section, seed)))
        .collect();
    for part in all.chunks(VOLUMES_PER_BOOT) {
        check_boot(&guest, part)?;
    }
    Ok(())
}

/// Makes volumes that one guest fills, and lets another guest list copies of them. Compares each
/// volume, as ferroxfs reads it, with the listing of its copy.
fn check_boot(guest: &Guest, wanted: &[(Section, u64)]) -> Result<(), TrialError> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut volumes = Vec::new();
    for (section, seed) in wanted {
        volumes.push(make(folder.path(), *section, *seed)?);
    }
    let (filling, mounts) = with_drives(guest, &volumes)?;
    let mut script = String::new();
    for (index, (volume, mount)) in volumes.iter().zip(&mounts).enumerate() {
        fill_script(&mut script, index, volume, mount);
    }
    filling.script(&script).run()?.checked()?;
    let copies = volumes.iter().map(Filled::copied).collect::<Result<Vec<_>, _>>()?;
    for section in [Section::Classic, Section::ClassicLargeExtents] {
        let seed = volumes.iter().map(|volume| volume.seed).sum::<u64>() + OUR_SEEDS;
        volumes.push(ours::make(folder.path(), section, seed)?);
    }
    let written = volumes.iter().skip(copies.len()).map(Filled::copied);
    let mut copies = copies;
    copies.extend(written.collect::<Result<Vec<_>, _>>()?);
    let (listing, mounts) = with_drives(guest, &copies)?;
    let script: String = mounts.iter().map(|mount| format!("{mount}{LIST}")).collect();
    let text = listing.script(&script).run()?.checked()?;
    let listings: Vec<&str> = text.split_terminator("end of volume\n").collect();
    if listings.len() != volumes.len() {
        return Err(format!("{} listings: {text}", listings.len()).into());
    }
    for (volume, shown) in volumes.iter().zip(listings) {
        compare(volume, &shown_by_guest(shown)?)
            .map_err(|error| format!("{:?}, seed {}: {error}", volume.section, volume.seed))?;
    }
    Ok(())
}

/// Returns the guest with these volumes as drives, and for each volume the command that mounts it
/// in the guest.
fn with_drives(guest: &Guest, volumes: &[Filled]) -> Result<(Guest, Vec<String>), String> {
    let mut guest = guest.clone().limit(Duration::from_secs(600));
    let mut names = ('a'..='z').map(|letter| format!("/dev/vd{letter}"));
    let mut mounts = Vec::new();
    for volume in volumes {
        let mut add = |path: &Path| {
            guest = guest.clone().image(path);
            names.next().ok_or_else(|| "too many drives".to_owned())
        };
        let data = add(&volume.data)?;
        let option = match &volume.realtime {
            Some(path) => format!("-o rtdev={}", add(path)?),
            None => String::new(),
        };
        mounts.push(format!("mount {option} {data} /mnt || exit 1\n"));
    }
    Ok((guest, mounts))
}

impl Filled {
    /// Copies the image files of the volume. Returns the volume in the copies.
    fn copied(&self) -> Result<Self, String> {
        let copy = |path: &PathBuf| {
            let to = path.with_extension(format!(
                "{}.copy",
                path.extension().unwrap_or_default().to_string_lossy()
            ));
            std::fs::copy(path, &to).map(|_| to).map_err(|error| error.to_string())
        };
        let Self { section, seed, is_dirty, .. } = *self;
        let realtime = self.realtime.as_ref().map(copy).transpose()?;
        Ok(Self { section, seed, is_dirty, data: copy(&self.data)?, realtime })
    }
}

/// The part of the script that lists the mounted volume (metadata and checksums of all files) and
/// unmounts it.
const LIST: &str = "find /mnt -exec stat -c '%n %i %f %h %s %b %Y %u %g' {} +
find /mnt -type f -exec crc32 {} +
umount /mnt
echo end of volume
";

/// Makes an empty volume with mkfs.xfs.
fn make(folder: &Path, section: Section, seed: u64) -> Result<Filled, TrialError> {
    let file = |name: &str, bytes: u64| -> Result<PathBuf, String> {
        let path = folder.join(format!("{section:?}-{seed}.{name}"));
        let file = HostFile::create(&path).map_err(|error| error.to_string())?;
        file.set_len(bytes).map_err(|error| error.to_string())?;
        Ok(path)
    };
    let data = file("data", if section.has_device() { 96 * MIB } else { 192 * MIB })?;
    let realtime = section.has_device().then(|| file("realtime", 80 * MIB)).transpose()?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.args(["-q", "-f", "--unsupported"]).args(section.options());
    if let Some(path) = &realtime {
        mkfs.arg("-r").arg(format!("rtdev={}", path.display()));
    }
    let output = mkfs.arg(&data).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(Filled { section, seed, is_dirty: seed % 2 == 1, data, realtime })
}

/// Appends the commands that fill a volume. `mount` is the command that mounts it.
fn fill_script(script: &mut String, index: usize, volume: &Filled, mount: &str) {
    script.push_str(mount);
    script.push_str("mkdir /mnt/rt /mnt/plain /mnt/rt/deep; xfs_io -c 'chattr +t' /mnt/rt\n");
    script.push_str("xfs_io -c 'chattr -t' /mnt/plain; cd /mnt\n");
    let mut random = Prng::new(volume.seed * 31 + index as u64);
    for file in 0..8 {
        file_script(script, volume.section, file, &mut random);
    }
    script.push_str("ln -s rt/f0 link; ln rt/f1 plain/also; : > rt/empty; chown 1000:7 rt/f2\n");
    script.push_str("sync; rm rt/f3; mv rt/f4 rt/deep/moved; truncate -s 5000 rt/f5; cd /\n");
    if volume.is_dirty {
        script.push_str("xfs_io -x -c 'shutdown -f' /mnt\n");
    }
    script.push_str("umount /mnt\n");
}

/// Appends one call of xfs_io that makes a file: writes at random offsets, holes, unwritten ranges,
/// shared ranges and many fragments, as far as the section supports them.
fn file_script(script: &mut String, section: Section, file: usize, random: &mut Prng) {
    let folder = if file == 7 { "plain" } else { "rt" };
    script.push_str("xfs_io -f");
    for _ in 0..6 {
        let (offset, length) = (random.within(0..1 << 21), random.within(1..100_000));
        let _ = match random.within(0..8) {
            0 if section.preallocates() => write!(script, " -c 'falloc {offset} {length}'"),
            1 => write!(script, " -c 'fpunch {offset} {length}'"),
            2 if section.shares() && file > 0 => write!(script, " -c 'reflink rt/f0'"),
            3 => write!(script, " -c 'truncate {offset}'"),
            4 => write!(script, " -c fsync"),
            byte => write!(script, " -c 'pwrite -q -S {} {offset} {length}'", byte * 20 + file),
        };
    }
    if file == 6 {
        // More extents than the inode holds.
        for piece in 0..40 {
            let _ = write!(script, " -c 'pwrite -q -S {} {} 4096'", piece + 1, piece * 65_536);
        }
    }
    let _ = writeln!(script, " -c fsync {folder}/f{file} > /dev/null 2>&1");
}

/// The properties of a file that are compared: inode, mode, links, size, blocks, time, owner,
/// group, and the checksum of a regular file.
type FileFacts = (String, Option<String>);

/// Returns the files of a volume by their paths, from the output of the guest.
fn shown_by_guest(text: &str) -> Result<BTreeMap<String, FileFacts>, String> {
    let mut files = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [path, facts @ ..] if facts.len() == 8 => {
                files.insert((*path).to_owned(), (facts.join(" "), None));
            }
            [sum, path] => {
                let file = files.get_mut(*path).ok_or_else(|| format!("no facts: {line}"))?;
                file.1 = Some((*sum).to_owned());
            }
            _ => return Err(format!("unknown line of the guest: {line}")),
        }
    }
    if files.len() < 12 { Err(format!("only {} files: {text}", files.len())) } else { Ok(files) }
}

/// Compares a volume with the guest's view of it.
fn compare(volume: &Filled, expected: &BTreeMap<String, FileFacts>) -> Result<(), String> {
    let mut options = OpenOptions::new();
    if let Some(path) = &volume.realtime {
        options = options.realtime_device(path);
    }
    let opened = options.clone().open(&volume.data).map_err(|error| error.to_string())?;
    let unrecovered = options.no_recovery(true).open(&volume.data);
    let unrecovered = unrecovered.map_err(|error| error.to_string())?;
    if unrecovered.staleness().is_some() != volume.is_dirty {
        return Err("the log is not in the expected state".to_owned());
    }
    let found = shown_by_us(&opened)?;
    for (path, facts) in expected {
        if found.get(path) != Some(facts) {
            return Err(format!("{path}: the guest {facts:?}, ferroxfs {:?}", found.get(path)));
        }
    }
    if found.len() != expected.len() {
        return Err(format!("{} files instead of {}", found.len(), expected.len()));
    }
    Ok(())
}

/// Returns the files of a volume by their paths, as ferroxfs shows them.
fn shown_by_us(volume: &Volume) -> Result<BTreeMap<String, FileFacts>, String> {
    let mut files = BTreeMap::new();
    for entry in volume.walk("/").map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let facts = entry.node.metadata();
        let shown = format!(
            "{} {:x} {} {} {} {} {} {}",
            facts.number.0,
            facts.mode,
            facts.nlink,
            facts.size,
            facts.blocks,
            facts.modified.seconds(),
            facts.uid,
            facts.gid
        );
        let mut sum = None;
        if facts.file_type == ferroxfs::FileType::Regular {
            let file = volume.open_file_read_only(&entry.path);
            let mut file = file.map_err(|error| error.to_string())?;
            sum = Some(checksum(&mut file)?);
        }
        let path = entry.path.to_string_lossy().into_owned();
        let path = format!("/mnt{}", path.trim_end_matches('/'));
        files.insert(path, (shown, sum));
    }
    Ok(files)
}

/// Returns the checksum of a file, as busybox's crc32 prints it.
fn checksum(file: &mut ferroxfs::File) -> Result<String, String> {
    let (mut sum, mut buffer) = (Crc32::new(), vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer).map_err(|error| error.to_string())?;
        match buffer.get(..count) {
            Some(bytes) if count > 0 => sum.update(bytes),
            _ => return Ok(sum.finish()),
        }
    }
}
