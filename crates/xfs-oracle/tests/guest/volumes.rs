//! Seeded volumes of every kind: ferroxfs reads what a guest has written, inode by inode.
//!
//! One guest fills several volumes. It unmounts those of even seeds, and shuts those of odd seeds
//! down, so that their logs are dirty. Another guest mounts copies, which recovers the dirty logs,
//! and lists everything that its kernel shows of each inode. ferroxfs reads the volumes as the
//! first guest has left them, with their logs replayed in memory, and scans them. The checker of
//! ferroxfs must find nothing, neither there nor on the copies. Where ferroxfs recovers onto the
//! disk, the recovered volume must show the same, and xfs_repair and the checker must find nothing.
//!
//! The second guest also lists volumes with a realtime section that ferroxfs has filled.
//!
//! Volumes with a metadata directory need no guest: this machine's kernel fills and lists them.
//!
//! The program of this test is also the program that runs in the guests.
//!
//! | variable | effect |
//! |---|---|
//! | `FERROXFS_LONG=1` | fills 40 volumes of each kind instead of 2 |
//! | `FERROXFS_SEED=N..M` | fills the volumes of these seeds |

mod inside;
mod kind;
mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ferroxfs::check::CheckOptions;
use ferroxfs::{OpenError, OpenOptions, Volume};
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, patiently, seeds};
use xfs_oracle::{Differences, Image, Tree, ready_with_programs};

use crate::{inventory, ours};
use kind::{GuestVolume, VolumeEnd, VolumeKind};

pub(crate) use inside::run_in_guest;

/// The number of seeds whose volumes share a guest. A virtual machine has room for about 25 drives.
const SEEDS_PER_BOOT: usize = 2;
/// The time after which a guest is ended. It needs about a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(1800);
/// The number of characters of a listing that a message shows.
const SHOWN_CHARS: usize = 2000;
/// The smallest number of inodes that a filled volume has.
const INODES_MIN: usize = 300;

pub(crate) fn trials() -> Vec<Trial> {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let all: Vec<u64> = seeds(if is_long { 40 } else { 2 }).collect();
    let mut trials = Vec::new();
    for (kernel, name) in [(GuestKernel::New, "new"), (GuestKernel::V4, "v4")] {
        for (index, part) in all.chunks(SEEDS_PER_BOOT).enumerate() {
            let part = part.to_vec();
            let name =
                format!("volumes_of_a_guest_are_read_as_the_guest_shows_them::{name}-{index}");
            trials.push(Trial::new(name, move || check_boot(kernel, &part)));
        }
    }
    for seed in all {
        let name = format!("metadata_directory_is_read_as_this_kernel_shows_it::{seed}");
        trials.push(Trial::new(name, move || check_here(VolumeKind::MetadataDirectory, seed)));
    }
    trials
}

/// Lets this machine's kernel fill a volume and list a copy, without a guest. Compares the volume
/// with the listing.
fn check_here(kind: VolumeKind, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
    let volume = GuestVolume::make(folder.path(), kind, seed)?;
    let image =
        |volume: &GuestVolume| Image { data: volume.data.clone(), log: None, realtime: None };
    let mount = image(&volume).mount_if_possible()?;
    let filled = inside::fill(mount.path(), seed, &format!("{:?}", volume.end));
    mount.unmount()?;
    filled.map_err(|error| error.to_string())?;
    let copy = volume.copied()?;
    let mount = image(&copy).mount(&["ro"])?;
    let listing = inside::listing(mount.path(), &format!("{:?}", volume.end))
        .map_err(|error| error.to_string());
    mount.unmount()?;
    check(&volume, &copy, &listing?)
}

/// Makes the volumes of some seeds, lets one guest fill them, and lets another guest list copies.
/// Compares each volume, as ferroxfs reads it, with the listing of its copy.
fn check_boot(kernel: GuestKernel, seeds: &[u64]) -> Result<(), TrialError> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let guest = Guest::new(kernel)?.program("program", &program).memory_mib(1024).limit(LIMIT);
    let folder =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
    let mut volumes = Vec::new();
    for kind in VolumeKind::ALL.into_iter().filter(|kind| kind.kernel() == Some(kernel)) {
        for seed in seeds {
            volumes.push(GuestVolume::make(folder.path(), kind, *seed)?);
        }
    }
    fill(&guest, &volumes)?;
    if kernel == GuestKernel::New {
        for seed in seeds {
            volumes.extend(written::make(folder.path(), *seed)?);
        }
    }
    let copies = volumes.iter().map(GuestVolume::copied).collect::<Result<Vec<_>, _>>()?;
    let listings = list(&guest, &copies)?;
    let mut failed = Vec::new();
    for ((volume, copy), listing) in volumes.iter().zip(&copies).zip(&listings) {
        if let Err(error) = check(volume, copy, listing) {
            failed.push(format!("{:?}, seed {}: {error}", volume.kind, volume.seed));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Lets a guest fill the volumes.
fn fill(guest: &Guest, volumes: &[GuestVolume]) -> Result<(), TrialError> {
    let (guest, drives) = with_drives(guest, volumes)?;
    let mut script = String::new();
    for (volume, drive) in volumes.iter().zip(&drives) {
        let GuestVolume { kind, seed, end, .. } = volume;
        script.push_str(&format!(
            "mount -o {}{drive} /mnt || exit 1\n\
             /in/program {} /mnt {seed} {end:?} || {{ echo {kind:?} {seed}; exit 1; }}\n\
             umount /mnt || exit 1\n",
            kind.mount_options(),
            inside::FILL,
        ));
    }
    guest.script(&script).run()?.checked()?;
    Ok(())
}

/// The lines that describe the inodes of a volume, by inode number.
type Listing = BTreeMap<u64, String>;

/// Lets a guest recover the volumes and list them.
fn list(guest: &Guest, volumes: &[GuestVolume]) -> Result<Vec<Listing>, TrialError> {
    let (guest, drives) = with_drives(guest, volumes)?;
    let mut script = String::new();
    for (volume, drive) in volumes.iter().zip(drives) {
        // Without the options of quota, the kernel does not recover dquots.
        let options = volume.kind.mount_options();
        script.push_str(&format!(
            "mount -o ro,{options}{drive} /mnt || {{ echo {drive}; dmesg | tail; exit 1; }}\n\
             /in/program {} /mnt {:?} || exit 1\n\
             umount /mnt || exit 1\n\
             echo end of volume\n",
            inside::LIST,
            volume.end,
        ));
    }
    let text = guest.script(&script).run()?.checked()?;
    let listings: Vec<&str> = text.split_terminator("end of volume\n").collect();
    if listings.len() != volumes.len() {
        return Err(format!("{} listings instead of {}", listings.len(), volumes.len()).into());
    }
    let parse = |(text, volume): (&str, &GuestVolume)| {
        let GuestVolume { kind, seed, .. } = volume;
        parse(text).map_err(|error| format!("{kind:?}, seed {seed}: {error}"))
    };
    Ok(listings.into_iter().zip(volumes).map(parse).collect::<Result<_, _>>()?)
}

fn parse(text: &str) -> Result<Listing, String> {
    let parse_line = |line: &str| -> Option<(u64, String)> {
        let (number, rest) = line.split_once('\t')?;
        Some((number.parse().ok()?, rest.to_owned()))
    };
    let all = text.lines().map(|line| parse_line(line).ok_or_else(|| format!("line: {line}")));
    let listing = all.collect::<Result<Listing, _>>()?;
    if listing.len() < INODES_MIN {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        return Err(format!("the guest lists only {} inodes: {shown}", listing.len()));
    }
    Ok(listing)
}

/// Returns the guest with the images of these volumes as drives. For each volume, also returns the
/// end of its mount command: the option for the realtime device, if there is one, and the path of
/// the data device.
fn with_drives(guest: &Guest, volumes: &[GuestVolume]) -> Result<(Guest, Vec<String>), TrialError> {
    let mut guest = guest.clone();
    let mut names = ('a'..='z').map(|letter| format!("/dev/vd{letter}"));
    let mut drives = Vec::new();
    for volume in volumes {
        let mut add = |path: &Path| {
            guest = guest.clone().image(path);
            names.next().ok_or_else(|| "too many drives".to_owned())
        };
        let data = add(&volume.data)?;
        drives.push(match &volume.realtime {
            Some(path) => format!(",rtdev={} {data}", add(path)?),
            None => format!(" {data}"),
        });
    }
    Ok((guest, drives))
}

/// Compares a volume with the guest's listing of its copy, before and, where ferroxfs recovers onto
/// the disk, after a recovery.
fn check(volume: &GuestVolume, copy: &GuestVolume, expected: &Listing) -> Result<(), TrialError> {
    // The module `quota` compares the dquots that the guest recovers.
    if volume.kind != VolumeKind::Quota {
        copy.passes_xfs_repair().map_err(|error| format!("recovered by the guest: {error}"))?;
    }
    let is_dirty = volume.end != VolumeEnd::Unmounted;
    let unrecovered = open(&volume.options().no_recovery(true), volume)?;
    if unrecovered.staleness().is_some() != is_dirty {
        return Err("the log is not in the expected state".to_owned().into());
    }
    drop(unrecovered);
    compare("as the guest left it", volume, expected)?;
    check_structures("recovered by the guest", copy)?;
    check_structures(AS_LEFT, volume)?;
    let devices = patiently(|| volume.options().write(true).open_devices(&volume.data));
    let devices = devices.map_err(|error| error.to_string())?;
    match devices.recover() {
        Ok(Some(summary)) if summary.items > 0 || !is_dirty => {}
        Ok(None) if !is_dirty => {}
        Err(OpenError::DirtyLog(_)) if may_refuse(volume) => {
            drop(devices);
            return compare("after a refused recovery", volume, expected);
        }
        other => return Err(format!("recovery: {other:?}").into()),
    }
    drop(devices);
    compare("recovered", volume, expected)?;
    volume.passes_xfs_repair()?;
    check_structures("recovered", volume)
}

/// Returns whether ferroxfs may refuse to recover the volume onto the disk, because ferroxfs leaves
/// the open intents in a log of version 4 to a kernel.
fn may_refuse(volume: &GuestVolume) -> bool {
    volume.kind.is_version_4() && volume.end == VolumeEnd::Storm
}

fn open(options: &OpenOptions, volume: &GuestVolume) -> Result<Volume, TrialError> {
    Ok(patiently(|| options.clone().open(&volume.data)).map_err(|error| error.to_string())?)
}

/// Compares everything that ferroxfs shows of each inode with the guest's listing.
fn compare(when: &str, volume: &GuestVolume, expected: &Listing) -> Result<(), TrialError> {
    const SHOWN: usize = 12;
    let opened = open(&volume.options(), volume)?;
    let mut tree = ours::walk(&opened).map_err(|error| format!("{when}: {error}"))?;
    inside::leave_out(&mut tree, &format!("{:?}", volume.end));
    let found = tree.lines();
    let mut differences = Vec::new();
    for (number, line) in expected {
        match found.get(number) {
            Some(other) => differences.extend(fields(*number, line, other)),
            None => differences.push(format!("inode {number}: only the guest has it: {line}")),
        }
    }
    for (number, line) in found.iter().filter(|(number, _)| !expected.contains_key(number)) {
        differences.push(format!("inode {number}: only ferroxfs has it: {line}"));
    }
    if differences.is_empty() {
        return check_scan(volume, &opened, &tree);
    }
    let count = differences.len();
    differences.truncate(SHOWN);
    Err(format!("{when}: {count} differences\n{}", differences.join("\n")).into())
}

/// Compares a scan of the volume with the volume's `tree`, which equals the guest's tree.
fn check_scan(volume: &GuestVolume, opened: &Volume, tree: &Tree) -> Result<(), TrialError> {
    // A storm leaves inodes without a name, which a scan shows and a tree does not.
    if volume.end == VolumeEnd::Storm {
        return Ok(());
    }
    let mut scanned = Differences::of(["tree", "scan"]);
    inventory::check(opened, tree, &mut scanned)?;
    Ok(scanned.into_result()?)
}

/// Returns the fields of an inode in which the guest's line and ferroxfs's line differ.
fn fields(number: u64, guest: &str, ours: &str) -> Vec<String> {
    if guest == ours {
        return Vec::new();
    }
    let short = |text: &str| text.chars().take(600).collect::<String>();
    let name = short(guest.split('\t').next().unwrap_or(guest));
    let (guest_fields, our_fields): (Vec<_>, Vec<_>) =
        (guest.split('\t').collect(), ours.split('\t').collect());
    let only = |these: &[&str], others: &[&str]| -> Vec<String> {
        these.iter().filter(|field| !others.contains(field)).map(|field| short(field)).collect()
    };
    let theirs = only(&guest_fields, &our_fields);
    let mine = only(&our_fields, &guest_fields);
    vec![format!("inode {number}, {name}: the guest has {theirs:?}, ferroxfs {mine:?}")]
}

/// Returns an error if the checker of ferroxfs finds damage, or leaves a part of the volume
/// unchecked.
fn check_structures(when: &str, volume: &GuestVolume) -> Result<(), TrialError> {
    let report = open(&volume.options(), volume)?
        .check(CheckOptions::default(), &())
        .map_err(|error| format!("{when}: {error}"))?;
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    let wrong = damage.map(ToString::to_string);
    let mut wrong: Vec<String> =
        wrong.filter(|text| when != AS_LEFT || !may_be_open(volume, text)).collect();
    let unchecked = report.unchecked.iter().map(|part| part.what.clone());
    wrong.extend(unchecked.filter(|part| when != AS_LEFT || !may_be_unchecked(volume, part)));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{when}: check: {}", wrong.join("\n")).into()),
    }
}

/// The state of a volume before any recovery onto the disk.
const AS_LEFT: &str = "as the guest left it";

/// Returns whether a finding may come from intents that a recovery in memory leaves open: blocks
/// without an owner in version 4, and blocks of a zone that a write has just replaced.
fn may_be_open(volume: &GuestVolume, finding: &str) -> bool {
    let is_zoned = matches!(volume.kind, VolumeKind::ZonedDevice | VolumeKind::ZonedInternal);
    may_refuse(volume) && finding.starts_with("space.leaked:")
        || is_zoned && volume.end == VolumeEnd::Storm && finding.starts_with("rt.used:")
}

/// Returns whether the checker may leave a part unchecked: the owners of realtime blocks of a zoned
/// volume, if the log has work on its groups. A recovery in memory leaves this work open.
fn may_be_unchecked(volume: &GuestVolume, part: &str) -> bool {
    let is_zoned = matches!(volume.kind, VolumeKind::ZonedDevice | VolumeKind::ZonedInternal);
    is_zoned && volume.end == VolumeEnd::Storm && part.starts_with("owners of realtime blocks")
}
