//! Dirty volumes with quota, recovered by ferroxfs and by a guest.
//!
//! A guest fills volumes with quota of users, groups and projects by seeded commands, and shuts
//! them down. ferroxfs recovers one copy of each, and the guest another copy. Trees and dquots must
//! be equal, apart from checksum and LSN of a dquot. xfs_repair, which counts the usage of all
//! owners itself, must find nothing.
//!
//! A third copy is written to without quota. The guest must run a quotacheck on that copy, and none
//! on a copy whose counts are complete. A fourth copy is written to with quota. The guest must run
//! no quotacheck on it. If the test forces one, it must find the same counts. The kernel reads each
//! inode for it, and frees blocks that it once allocated past the end of a file: these are left out
//! of the comparison, inode by inode.
//!
//! All volumes of a batch share two boots.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ferroxfs::quota::{QuotaMode, QuotaOptions};
use ferroxfs::{OpenOptions, SetAttributes, Volume};
use xfs_format::dquot::{DQUOT_BLOCK_BYTES, DQUOT_MAGIC, DquotDisk, QuotaFlags, QuotaKind};
use xfs_format::inode::ForkKind;
use xfs_format::log_item::DQUOT_BYTES;
use xfs_format::{StructureAddress, Superblock};
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, patiently, seeds};
use xfs_oracle::{Differences, FileExtent, Image, Random, Tree, Xfsprogs};
use zerocopy::FromBytes;

use crate::ours;

/// The greatest number of volumes in a batch. Each volume takes four drives of the second boot, and
/// the number of drives is limited.
const BATCH: u64 = 5;
/// The user, group and project IDs that own files. Among them are the first and the last one of a
/// block of dquots, and the greatest possible ID.
const OWNERS: [u32; 8] = [0, 1, 29, 30, 59, 1000, 70_000, u32::MAX - 1];
/// Options of mkfs.xfs, one for each seed in turn.
const OPTIONS: [&str; 3] = ["-n parent=0", "-n parent=1 -i exchange=1", "-b size=1024"];
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;
/// The user ID that owns the file which ferroxfs writes.
const WRITER: u32 = 4242;

pub(crate) fn trials() -> Vec<Trial> {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let all: Vec<u64> = seeds(if is_long { 24 } else { 2 }).collect();
    let batches = all.chunks(BATCH as usize).map(|batch| {
        let batch = batch.to_vec();
        let first = batch.first().copied().unwrap_or_default();
        let name = format!("dirty_quota_is_recovered_as_by_the_guest::{first}");
        Trial::new(name, move || check_batch(&batch))
    });
    batches.collect()
}

/// The images of a volume with quota: the volume itself and three copies.
struct Case {
    seed: u64,
    /// The volume that ferroxfs recovers. It is dirty at first. After the recovery, the guest
    /// mounts it.
    ours: PathBuf,
    /// A copy of the dirty volume that the guest recovers.
    theirs: PathBuf,
    /// A copy of the volume after ferroxfs's recovery, to which ferroxfs then writes without quota.
    written: PathBuf,
    /// A copy of the volume after ferroxfs's recovery, to which ferroxfs then writes with quota.
    counted: PathBuf,
}

impl Case {
    fn new(folder: &Path, seed: u64) -> Self {
        let path = |name: &str| folder.join(format!("{name}-{seed}"));
        Self {
            seed,
            ours: path("ours"),
            theirs: path("theirs"),
            written: path("written"),
            counted: path("counted"),
        }
    }

    /// Returns whether an unlinked file is open when the guest shuts the volume down.
    const fn has_unlinked(&self) -> bool {
        self.seed % 2 == 1
    }

    fn about(&self, reason: impl std::fmt::Display) -> TrialError {
        TrialError::Failed(format!("seed {}: {reason}", self.seed))
    }
}

/// The tree and the dquots of a volume after ferroxfs's recovery.
struct Recovered {
    tree: Tree,
    dquots: Dquots,
    /// The copy to which ferroxfs has written with quota.
    counted: Counted,
}

/// The tree and the dquots of a volume whose quota is counted.
struct Counted {
    tree: Tree,
    dquots: Dquots,
    block_bytes: u64,
}

/// The logged fields of each dquot as bytes, without checksum and LSN. The key is the quota type
/// and the ID.
type Dquots = BTreeMap<(QuotaKind, u32), Vec<u8>>;

fn check_batch(seeds: &[u64]) -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let cases: Vec<Case> = seeds.iter().map(|seed| Case::new(folder.path(), *seed)).collect();
    let (mut filling, mut script) = (guest.clone(), START.to_owned());
    for (case, letter) in cases.iter().zip('a'..) {
        make(&case.ours, case.seed)?;
        filling = filling.image(&case.ours);
        script.push_str(&commands(case, letter));
    }
    filling.script(&script).run()?.checked()?;
    let mut recovered = Vec::new();
    for case in &cases {
        recovered.push(recover(case).map_err(|error| case.about(error))?);
    }
    let (mut mounting, mut script) = (guest, START.to_owned());
    let mut letters = 'a'..;
    for case in &cases {
        for (path, options) in [(&case.theirs, "ro,"), (&case.ours, ""), (&case.written, "")] {
            let letter = letters.next().expect("a batch has few drives");
            mounting = mounting.image(path);
            script.push_str(&format!("up {letter} {options}; umount /mnt\n"));
        }
        let letter = letters.next().expect("a batch has few drives");
        mounting = mounting.image(&case.counted);
        script.push_str(&format!("up {letter}; umount /mnt; again {letter}\n"));
    }
    let output = mounting.script(&script).run()?;
    let kernel_log = output.kernel_log.clone();
    let answers = output.checked()?;
    let mut letters = 'a'..;
    for (case, recovered) in cases.iter().zip(&recovered) {
        let [_, ours, written, counted] =
            [(); 4].map(|()| letters.next().expect("as many as before"));
        let counts_again =
            |letter| kernel_log.contains(&format!("(vd{letter}): Quotacheck needed"));
        check_case(case, recovered).map_err(|error| case.about(error))?;
        if counts_again(ours) != case.has_unlinked() {
            return Err(case.about(format!("recovered; the guest's log: {kernel_log}")));
        }
        if !counts_again(written) {
            return Err(case.about("the guest did not count the written volume again"));
        }
        if !answers.contains(&format!("{counted} was not counted\n")) {
            return Err(case.about(format!("written with quota; the guest says {answers}")));
        }
        let found = Counted::read(&case.counted)?;
        check_counts(&recovered.counted, &found).map_err(|error| case.about(error))?;
    }
    Ok(())
}

fn make(path: &Path, seed: u64) -> Result<(), TrialError> {
    let file = fs::File::create(path).map_err(text)?;
    file.set_len(64 << 20).map_err(text)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let options = OPTIONS.iter().cycle().nth(seed as usize).expect("a cycle has no end");
    mkfs.args(["-q", "--unsupported"]).args(options.split_whitespace()).arg(path);
    let output = mkfs.output().map_err(text)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(text(String::from_utf8_lossy(&output.stderr)))
    }
}

/// Shell functions that the scripts call. `up LETTER OPTIONS` mounts the drive `/dev/vdLETTER` with
/// all types of quota. OPTIONS are further mount options, each followed by a comma. `again LETTER`
/// prints whether the kernel has counted the quota of the drive up to now, and makes the kernel
/// count it.
const START: &str = "up() { mount -o $2usrquota,grpquota,prjquota /dev/vd$1 /mnt && return
  echo cannot mount $1; dmesg | tail -20; exit 1; }
again() { dmesg | grep -q \"vd$1): Quotacheck needed\" || echo $1 was not counted
  mount /dev/vd$1 /mnt && umount /mnt && up $1 && umount /mnt; }\n";

/// Returns the commands that fill a volume and shut it down.
fn commands(case: &Case, letter: char) -> String {
    let mut random = Random::new(case.seed);
    let mut script = format!("up {letter}; mkdir /mnt/d0 /mnt/d1 /mnt/d2\n");
    for _ in 0..70 {
        script.push_str(&command(&mut random));
        script.push_str(" 2>/dev/null\n");
    }
    if case.has_unlinked() {
        script.push_str("exec 9>/mnt/open; chown 30:1000 /mnt/open; rm /mnt/open\n");
        script.push_str("dd if=/dev/zero bs=4k count=20 >&9 2>/dev/null\n");
    }
    let how = if case.seed % 4 < 2 { "shutdown -f" } else { "sync' -c 'shutdown" };
    script.push_str(&format!("xfs_io -x -c '{how}' /mnt; exec 9>&-; umount /mnt\n"));
    script
}

fn command(random: &mut Random) -> String {
    let mut below = |limit: u64| random.below(limit);
    let owner =
        |index: u64| *OWNERS.get(index as usize).expect("the index is below the number of owners");
    let file = format!("/mnt/d{}/f{}", below(3), below(12));
    match below(16) {
        0..=4 => {
            let (count, seek) = (below(20) + 1, below(30));
            format!("dd if=/dev/zero of={file} bs=4k count={count} seek={seek} conv=notrunc")
        }
        5..=7 => format!("chown {}:{} {file}", owner(below(8)), owner(below(8))),
        8..=9 => format!("xfs_io -c 'chproj {}' {file}", owner(below(8))),
        10 => format!("rm {file}"),
        11 => format!("truncate -s {} {file}", below(100_000)),
        12 => {
            let (id, hard) = (owner(below(7) + 1), below(900) + 100);
            let kind = if below(2) == 0 { "-u" } else { "-g" };
            format!("xfs_quota -x -c 'limit {kind} bsoft=90k bhard={hard}k ihard=50 {id}' /mnt")
        }
        13 => format!("setfattr -n user.a -v {} {file}", "v".repeat(below(2500) as usize + 1)),
        14 => format!("ln -s {} {file}-link", "t".repeat(below(900) as usize + 1)),
        _ if below(3) == 0 => "sync".to_owned(),
        _ => format!("touch {file}"),
    }
}

/// Lets ferroxfs recover the volume, after a copy was made for the guest. A read-only open before
/// the recovery must show the same tree and the same dquots.
fn recover(case: &Case) -> Result<Recovered, TrialError> {
    copy(&case.ours, &case.theirs)?;
    let dirty = open(&case.ours)?;
    let shown = ours::walk(&dirty).map_err(text)?;
    drop(dirty);
    let devices = patiently(|| OpenOptions::new().write(true).open_devices(&case.ours));
    let summary = devices.map_err(text)?.recover().map_err(text)?;
    if summary.is_none_or(|summary| summary.items == 0) {
        return Err(text("there was nothing to recover"));
    }
    let volume = open(&case.ours)?;
    let tree = ours::walk(&volume).map_err(text)?;
    Differences::between(&tree, &shown).into_result()?;
    let dquots = dquots(&volume, &case.ours)?;
    if flags(&case.ours)?.contains(QuotaFlags::CHECKED_V5) == case.has_unlinked() {
        return Err(text(format!("quota is in state {:?}", flags(&case.ours)?)));
    }
    no_findings(&case.ours)?;
    copy(&case.ours, &case.written)?;
    write(&case.written)?;
    copy(&case.ours, &case.counted)?;
    let counted = write_counting(&case.counted, case.seed)?;
    Ok(Recovered { tree, dquots, counted })
}

/// Writes, changes and removes files of all owners with ferroxfs, on a volume that is opened with
/// quota. Returns the state of the closed volume.
fn write_counting(path: &Path, seed: u64) -> Result<Counted, TrialError> {
    let mut random = Random::new(seed);
    let options = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::NoEnforce));
    let volume = patiently(|| options.open(path)).map_err(text)?;
    for number in 0..40 {
        let name = format!("/counted-{}", random.below(12));
        if number % 5 == 4 {
            // The file may be absent.
            let _ = volume.remove_file(&name);
            continue;
        }
        volume.write(&name, vec![7; random.below(60_000) as usize]).map_err(text)?;
        let mut owner = || {
            let index = random.below(OWNERS.len() as u64);
            *OWNERS.get(index as usize).expect("the index is below the number of owners")
        };
        let changes = SetAttributes::new().uid(owner()).gid(owner()).project_id(owner());
        volume.lookup(&name).and_then(|file| file.set_attributes(&changes)).map_err(text)?;
    }
    volume.close().map_err(text)?;
    no_findings(path)?;
    if !flags(path)?.contains(QuotaFlags::CHECKED_V5) {
        return Err(text(format!("after counted writes, quota is in state {:?}", flags(path)?)));
    }
    Counted::read(path)
}

impl Counted {
    fn read(path: &Path) -> Result<Self, TrialError> {
        let volume = open(path)?;
        let tree = ours::walk(&volume).map_err(text)?;
        let block_bytes = u64::from(superblock(path)?.geometry.block_size);
        Ok(Self { tree, dquots: dquots(&volume, path)?, block_bytes })
    }

    /// Returns how many blocks each owner has lost in `later`, a later state of the volume. A file
    /// may lose all blocks past its end, and no other ones.
    fn lost(&self, later: &Tree) -> Result<BTreeMap<(QuotaKind, u32), u64>, TrialError> {
        let mut lost = BTreeMap::new();
        for (number, inode) in &self.tree.nodes {
            let now = later.nodes.get(number).ok_or_else(|| text(format!("{number} is gone")))?;
            let Some(opened) = inode.opened.as_ref().filter(|_| now.blocks != inode.blocks) else {
                continue;
            };
            let end = inode.size.next_multiple_of(self.block_bytes);
            let past = |from: &FileExtent| {
                (from.offset + from.length).saturating_sub(end).min(from.length)
            };
            let past: u64 = opened.extents.iter().map(past).sum();
            if now.blocks * SECTOR_BYTES + past != inode.blocks * SECTOR_BYTES {
                let (paths, blocks) = (&inode.paths, [inode.blocks, now.blocks]);
                return Err(text(format!(
                    "{paths:?}: {blocks:?} sectors, {past} bytes past its end"
                )));
            }
            let owners = [inode.uid, inode.gid, opened.project_id];
            for owner in QuotaKind::ALL.into_iter().zip(owners) {
                *lost.entry(owner).or_default() += past / self.block_bytes;
            }
        }
        Ok(lost)
    }
}

/// Checks that the usage and the limits of all owners are equal, apart from blocks past the end of
/// files. Timers are not compared, because the quotacheck of the guest starts them again.
fn check_counts(ours: &Counted, theirs: &Counted) -> Result<(), TrialError> {
    let usage = |dquots: &Dquots| -> Result<BTreeMap<_, _>, TrialError> {
        let used = |(key, fields): (&(QuotaKind, u32), &Vec<u8>)| {
            let zero = vec![0; DQUOT_BLOCK_BYTES - DQUOT_BYTES];
            let bytes = [fields.clone(), zero].concat();
            let disk = DquotDisk::read_from_bytes(&bytes).map_err(text)?;
            let counts = [disk.blocks.get(), disk.inodes.get()];
            let limits = [disk.block_soft_limit.get(), disk.block_hard_limit.get()];
            Ok((*key, (counts, limits, disk.inode_hard_limit.get())))
        };
        dquots.iter().map(used).collect()
    };
    let lost = ours.lost(&theirs.tree)?;
    let (mut ours, theirs) = (usage(&ours.dquots)?, usage(&theirs.dquots)?);
    for (owner, lost) in lost {
        let ([blocks, _], ..) = ours.get_mut(&owner).ok_or_else(|| text("no dquot"))?;
        *blocks = blocks.checked_sub(lost).ok_or_else(|| {
            text(format!("{owner:?} lost {lost} blocks of the {blocks} that ferroxfs counted"))
        })?;
    }
    match theirs.iter().find(|(key, usage)| ours.get(key) != Some(usage)) {
        None => Ok(()),
        Some((key, usage)) => Err(text(format!(
            "the guest counts {usage:?} for {key:?}, ferroxfs counted {:?}",
            ours.get(key)
        ))),
    }
}

/// Writes a file owned by [`WRITER`] with ferroxfs. Checks that the superblock then marks no quota
/// counts as checked, because ferroxfs does not count.
fn write(path: &Path) -> Result<(), TrialError> {
    let volume = patiently(|| OpenOptions::new().write(true).open(path)).map_err(text)?;
    volume.write("/written", vec![7; 20_000]).map_err(text)?;
    let file = volume.lookup("/written").map_err(text)?;
    let changes = SetAttributes::new().uid(WRITER);
    file.set_attributes(&changes).map_err(text)?;
    drop(file);
    volume.close().map_err(text)?;
    let flags = flags(path)?;
    if flags.intersects(QuotaFlags::CHECKED) || flags.is_empty() {
        return Err(text(format!("after a write, quota is in state {flags:?}")));
    }
    no_findings(path)
}

/// Compares the tree and the dquots of ferroxfs's recovery with those of the guest's recovery.
/// Checks that the guest has counted quota again on the copy to which ferroxfs wrote.
fn check_case(case: &Case, recovered: &Recovered) -> Result<(), TrialError> {
    let theirs = open(&case.theirs)?;
    let tree = ours::walk(&theirs).map_err(text)?;
    Differences::between(&tree, &recovered.tree).into_result()?;
    let expected = dquots(&theirs, &case.theirs)?;
    if !case.has_unlinked() && expected != recovered.dquots {
        let differs = expected.iter().find(|(key, value)| recovered.dquots.get(key) != Some(value));
        return Err(text(format!(
            "{} dquots, the guest has {}; first difference: {differs:?} and {:?}",
            recovered.dquots.len(),
            expected.len(),
            differs.map(|(key, _)| recovered.dquots.get(key))
        )));
    }
    no_findings(&case.ours)?;
    no_findings(&case.written)?;
    let written = open(&case.written)?;
    let counted = dquots(&written, &case.written)?;
    let writer = counted.get(&(QuotaKind::User, WRITER)).ok_or_else(|| text("no dquot"))?;
    let zero = vec![0; DQUOT_BLOCK_BYTES - DQUOT_BYTES];
    let dquot = DquotDisk::read_from_bytes(&[writer.clone(), zero].concat()).map_err(text)?;
    if dquot.inodes.get() == 1 { Ok(()) } else { Err(text(format!("{dquot:?}"))) }
}

/// Reads all dquots of a volume from its image, through the extents of its quota inodes.
fn dquots(volume: &Volume, path: &Path) -> Result<Dquots, TrialError> {
    let image = fs::File::open(path).map_err(text)?;
    let superblock = superblock(path)?;
    let block_bytes = superblock.geometry.block_size as usize;
    let per_block = (block_bytes / DQUOT_BLOCK_BYTES) as u64;
    let mut dquots = Dquots::new();
    for (kind, number) in QuotaKind::ALL.into_iter().zip(superblock.quota_inodes) {
        let number = number.ok_or_else(|| text("the volume has no quota inode"))?;
        let node = volume.node(number).map_err(text)?;
        for extent in node.extents(ForkKind::Data) {
            let extent = extent.map_err(text)?;
            let mut bytes = vec![0; extent.length_bytes as usize];
            image.read_exact_at(&mut bytes, extent.device_offset_bytes).map_err(text)?;
            let first = extent.offset_bytes / block_bytes as u64 * per_block;
            let found = bytes.chunks(block_bytes).flat_map(|b| b.chunks_exact(DQUOT_BLOCK_BYTES));
            // The last block has room for IDs that do not fit in 32 bits. They wrap around.
            for (id, dquot) in (first..=u64::from(u32::MAX)).zip(found) {
                let disk = DquotDisk::read_from_bytes(dquot).map_err(text)?;
                if (disk.magic.get(), u64::from(disk.id.get())) != (DQUOT_MAGIC, id) {
                    return Err(text(format!("{kind:?} {id} has the dquot {dquot:?}")));
                }
                dquots.insert(
                    (kind, disk.id.get()),
                    dquot.iter().take(DQUOT_BYTES).copied().collect(),
                );
            }
        }
    }
    if dquots.len() < OWNERS.len() { Err(text("too few dquots")) } else { Ok(dquots) }
}

fn superblock(path: &Path) -> Result<Superblock, TrialError> {
    let mut sector = vec![0; 512];
    fs::File::open(path).and_then(|image| image.read_exact_at(&mut sector, 0)).map_err(text)?;
    Superblock::decode(&sector, StructureAddress::Disk(xfs_format::DiskAddr(0))).map_err(text)
}

fn flags(path: &Path) -> Result<QuotaFlags, TrialError> {
    Ok(QuotaFlags::from_bits_retain(superblock(path)?.quota_flags))
}

/// Returns an error if xfs_repair or our checker finds anything.
fn no_findings(path: &Path) -> Result<(), TrialError> {
    let image = Image { data: path.to_path_buf(), log: None, realtime: None };
    image.findings()?.map_or(Ok(()), |findings| Err(text(findings)))
}

fn copy(from: &Path, to: &Path) -> Result<(), TrialError> {
    let mut cp = std::process::Command::new("cp");
    let status = cp.arg("--sparse=always").arg(from).arg(to).status().map_err(text)?;
    if status.success() { Ok(()) } else { Err(text("cp failed")) }
}

fn open(path: &Path) -> Result<Volume, TrialError> {
    patiently(|| OpenOptions::new().open(path)).map_err(text)
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
