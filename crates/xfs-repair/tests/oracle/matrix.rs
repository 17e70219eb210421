//! Seeded damage on volumes with and without a reverse map and parent pointers, repaired with and
//! without losses allowed.
//!
//! No name, no contents and no attribute of the sound volume may be gone after a repair, unless the
//! plan lists the loss. A volume that a repair leaves damaged keeps at least what was readable
//! before it, and the blocks of files that cannot be read stay as they are.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use xfs_check::{CheckOptions, check};
use xfs_device::{BlockDevice, Durability, FileDevice, FileOptions, OverlayDevice, SharedDevice};
use xfs_evidence::{Evidence, InodeEvidence, Trust, find_superblock};
use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::extent::Extent;
use xfs_format::free_space::FreeSpaceByBlock;
use xfs_format::inode::{FileType, ForkKind, InodeCore};
use xfs_format::{AgBlock, AgNumber, DiskAddr, Geometry, InodeNumber, Superblock};
use xfs_oracle::Xfsprogs;
use xfs_oracle::harness::{Trial, TrialError, seeds};
use xfs_repair::{RehearsalOptions, Rehearsed, rehearse};
use xfs_testkit::Prng;

/// The number of seeds for each kind of volume, with losses allowed and with none allowed.
/// `FERROXFS_SEED=N..M` runs other seeds.
const SEEDS: u64 = 6;

/// The most bytes of writes that an overlay device keeps in memory. The overlay never writes to the
/// device below it.
const OVERLAY_BYTES: u64 = 64 << 20;

/// Returns the trials: for each kind of volume, one with losses allowed and one without.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (rmapbt, parent) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for allow_loss in [false, true] {
            let name = format!("matrix::rmapbt={rmapbt},parent={parent},allow_loss={allow_loss}");
            let options = format!("-m rmapbt={rmapbt} -n parent={parent}");
            trials.push(Trial::new(name, move || run_cell(&options, allow_loss)));
        }
    }
    trials
}

/// Makes a volume with options of mkfs.xfs, and runs all seeds on it.
fn run_cell(options: &str, allow_loss: bool) -> Result<(), TrialError> {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let base = make_volume(folder.path(), options)?;
    let sound = Volume::new(base)?;
    let before = Contents::reachable(&sound);
    let mut failures = Vec::new();
    for seed in seeds(SEEDS) {
        if let Err(why) = run_seed(&sound, &before, seed, allow_loss) {
            failures.push(format!("seed {seed}: {why}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(TrialError::Failed(failures.join("\n"))) }
}

/// Damages a copy of the volume as the seed says, repairs it, and fails if a name, contents or an
/// attribute is gone.
fn run_seed(sound: &Volume, before: &Contents, seed: u64, allow_loss: bool) -> Result<(), String> {
    let device: SharedDevice = Arc::new(OverlayDevice::new(sound.device.clone(), OVERLAY_BYTES));
    let what = damage(sound, before, &mut Prng::new(seed), &*device);
    let damaged = Volume { device, superblock: sound.superblock.clone() };
    let device: SharedDevice = Arc::new(OverlayDevice::new(damaged.device.clone(), OVERLAY_BYTES));
    let options = RehearsalOptions { allow_loss, ..RehearsalOptions::default() };
    let done =
        rehearse(&device, &sound.superblock, &options).map_err(|e| format!("{what}: {e}"))?;
    let after = Volume { device, superblock: done.superblock.clone() };
    let report = check(&*after.device, &after.superblock, &CheckOptions::default(), &());
    let is_clean = report.map_err(|error| format!("{what}: {error}"))?.is_clean();
    if !allow_loss && done.actions.iter().any(|action| !action.loses.is_empty()) {
        return Err(format!("{what}: a loss without a permission"));
    }
    // A clean volume must have everything; a damaged one what was readable.
    let wanted = if is_clean { before.clone() } else { before.readable_in(&damaged) };
    let gone = wanted.gone(&damaged, &after, &Losses::of(&done));
    if gone.is_empty() {
        return Ok(());
    }
    let rules: Vec<&str> = done.actions.iter().map(|action| action.rule).collect();
    Err(format!(
        "{what}, clean {is_clean}, {rules:?}: {:?}",
        gone.iter().take(5).collect::<Vec<_>>()
    ))
}

/// A device with its superblock.
struct Volume {
    device: SharedDevice,
    superblock: Superblock,
}

impl Volume {
    fn new(device: SharedDevice) -> Result<Self, TrialError> {
        let found = find_superblock(&*device).map_err(|error| error.to_string())?;
        let superblock = found.ok_or_else(|| "no superblock".to_owned())?.superblock;
        Ok(Self { device, superblock })
    }

    fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence::new(&*self.device, &self.superblock)
    }

    fn bytes(&self, at: DiskAddr, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device.read_at(&mut bytes, at.0 * 512).expect("the bytes lie in the volume");
        bytes
    }

    /// Returns a digest of a file's extents: the bytes in their blocks, and their offsets in the
    /// file.
    fn digest(&self, extents: &[Extent]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for extent in extents {
            let length = (extent.length_blocks as usize) << self.geometry().block_log;
            let at = self.geometry().block_disk_addr(extent.start).expect("a block of the volume");
            (extent.file_block.0, self.bytes(at, length)).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns whether a free-space btree lists a block of these extents as free.
    fn frees_any(&self, extents: &[Extent]) -> bool {
        let mut is_free = false;
        for extent in extents {
            let Some((group, start)) = self.geometry().split_block(extent.start) else { continue };
            let end = start.0 + extent.length_blocks;
            self.evidence().group_records::<FreeSpaceByBlock>(group, |free, trust| {
                let overlaps = free.start.0 < end && start.0 < free.start.0 + free.count;
                is_free |= trust == Trust::Sound && overlaps;
            });
        }
        is_free
    }
}

/// The contents of a file: its extents and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Data {
    extents: Vec<Extent>,
    digest: u64,
}

/// Names, contents and attributes of a volume.
#[derive(Clone, Debug, Default)]
struct Contents {
    /// The names: the inode of the directory, the name, and the inode of the child.
    names: BTreeSet<(InodeNumber, Vec<u8>, InodeNumber)>,
    files: BTreeMap<InodeNumber, Data>,
    /// The attributes, parent pointers included, each as its inode and its name.
    attributes: BTreeSet<(InodeNumber, Vec<u8>)>,
}

impl Contents {
    /// Reads the names, contents and attributes of all inodes that a walk from the root reaches.
    fn reachable(volume: &Volume) -> Self {
        let mut contents = Self::default();
        let mut seen = BTreeSet::new();
        let mut next = vec![volume.superblock.root_inode];
        while let Some(number) = next.pop() {
            if seen.insert(number) {
                next.extend(contents.take(volume, number));
            }
        }
        contents
    }

    /// Adds the names, the attributes or the contents of one inode. Returns the inodes that its
    /// entries name if it is a directory.
    fn take(&mut self, volume: &Volume, number: InodeNumber) -> Vec<InodeNumber> {
        let evidence = volume.evidence();
        let found = evidence.inode(number);
        let attributes = evidence.attributes(&found);
        let parents = attributes.parents.iter().map(|parent| parent.name.to_vec());
        let others = attributes.attributes.iter().map(|attribute| attribute.name.to_vec());
        self.attributes.extend(parents.chain(others).map(|name| (number, name)));
        match found.core().and_then(InodeCore::file_type) {
            Some(FileType::Directory) => {
                let names = evidence.entries(&found).names;
                let children = names.iter().map(|name| name.child).collect();
                let names = names.into_iter().map(|n| (number, n.name.to_vec(), n.child));
                self.names.extend(names);
                children
            }
            Some(FileType::Regular) => {
                self.files.insert(number, Data::of(volume, &evidence, &found));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Returns those names and attributes that can still be read in a damaged volume, where each
    /// inode is read by its number. The contents of all files are kept, since the damage does not
    /// touch their blocks.
    fn readable_in(&self, damaged: &Volume) -> Self {
        let mut readable = Self::default();
        let directories: BTreeSet<_> =
            self.names.iter().map(|(directory, ..)| *directory).collect();
        for number in directories.iter().chain(self.files.keys()) {
            readable.take(damaged, *number);
        }
        Self {
            names: self.names.intersection(&readable.names).cloned().collect(),
            files: self.files.clone(),
            attributes: self.attributes.intersection(&readable.attributes).cloned().collect(),
        }
    }

    /// Returns a message for each name, attribute or file contents that `after` no longer has,
    /// unless the plan lists a loss for the inode.
    fn gone(&self, damaged: &Volume, after: &Volume, losses: &Losses) -> Vec<String> {
        let mut now = Self::reachable(after);
        // An inode below a directory that is still damaged is not gone.
        for number in
            self.names.iter().map(|(directory, ..)| *directory).chain(self.files.keys().copied())
        {
            now.take(after, number);
        }
        let names = self
            .names
            .difference(&now.names)
            .filter(|(directory, _, child)| !losses.name(*directory) && !losses.name(*child));
        let mut gone: Vec<String> = names
            .map(|(d, name, c)| format!("name {} of {c} in {d}", name.escape_ascii()))
            .collect();
        let attributes = self.attributes.difference(&now.attributes);
        let attributes = attributes.filter(|(inode, _)| !losses.name(*inode));
        gone.extend(
            attributes.map(|(i, name)| format!("attribute {} of {i}", name.escape_ascii())),
        );
        for (number, data) in self.files.iter().filter(|(number, _)| !losses.name(**number)) {
            let is_kept = now.files.get(number).is_some_and(|now| now.digest == data.digest);
            let is_in_place = after.digest(&data.extents) == damaged.digest(&data.extents)
                && !after.frees_any(&data.extents);
            if !is_kept && !is_in_place {
                gone.push(format!("contents of {number}"));
            }
        }
        gone
    }
}

impl Data {
    fn of(volume: &Volume, evidence: &Evidence<'_>, found: &InodeEvidence) -> Self {
        let extents = evidence.extents(found, ForkKind::Data).extents;
        let digest = volume.digest(&extents);
        Self { extents, digest }
    }
}

/// The inodes whose losses a plan lists.
struct Losses {
    inodes: BTreeSet<InodeNumber>,
    /// Whether the plan lists a loss without an inode. Any inode may then have lost something.
    is_general: bool,
}

impl Losses {
    fn of(done: &Rehearsed) -> Self {
        let all = || done.actions.iter().flat_map(|action| &action.loses);
        Self {
            inodes: all().filter_map(|loss| loss.inode).collect(),
            is_general: all().any(|loss| loss.inode.is_none()),
        }
    }

    fn name(&self, inode: InodeNumber) -> bool {
        self.is_general || self.inodes.contains(&inode)
    }
}

/// Damages an inode, and a header or btree of the free space. Returns the damage in words.
fn damage(sound: &Volume, before: &Contents, prng: &mut Prng, device: &dyn BlockDevice) -> String {
    let files: Vec<InodeNumber> =
        before.files.iter().filter(|(_, data)| !data.extents.is_empty()).map(|(n, _)| *n).collect();
    let inode = *prng.choose(&files).expect("the volume has files");
    let location = sound.geometry().inode_location(inode).expect("an inode of the volume");
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512));
    let mut bytes = sound.bytes(at, sound.geometry().inode_size as usize);
    let of_inode = prng.within(0..3);
    match of_inode {
        0 => bytes.fill(0),
        1 => bytes.iter_mut().for_each(|byte| *byte = prng.number() as u8),
        _ => {
            bytes.get_mut(2..4).expect("an inode is longer").fill(0);
            xfs_format::inode::seal(&mut bytes, xfs_format::Lsn(0));
        }
    }
    put(device, at, &bytes);
    let groups: Vec<AgNumber> = sound.geometry().groups().collect();
    let group = *prng.choose(&groups).expect("the volume has groups");
    let of_space = prng.within(0..6);
    for (at, length) in space_targets(sound, group, of_space) {
        put(device, at, &vec![0; length]);
    }
    format!("inode {inode} damaged in way {of_inode}, space of group {group} in way {of_space}")
}

fn put(device: &dyn BlockDevice, at: DiskAddr, bytes: &[u8]) {
    device.write_at(bytes, at.0 * 512, Durability::Cached).expect("the bytes lie in the volume");
}

/// Returns the structures of a group that the test zeroes, each with its length in bytes: a header,
/// or some roots of btrees. `way` selects one of six sets.
fn space_targets(sound: &Volume, group: AgNumber, way: usize) -> Vec<(DiskAddr, usize)> {
    let geometry = sound.geometry();
    let header = |index| geometry.header_disk_addr(group, index);
    let agf = Agf::decode(&sound.bytes(header(1), 512), header(1), geometry).expect("a sound AGF");
    let agi = Agi::decode(&sound.bytes(header(2), 512), header(2), geometry).expect("a sound AGI");
    let block =
        |block: AgBlock| (geometry.ag_block_disk_addr(group, block), geometry.block_size as usize);
    let map = agf.reverse_map.map(|root| block(root.block));
    let free = block(agf.free_space_by_block.block);
    match way {
        0 => vec![(header(1), 512)],
        1 => vec![(header(2), 512)],
        2 => vec![free],
        3 => map.into_iter().chain([free, block(agf.free_space_by_size.block)]).collect(),
        4 => map.into_iter().chain([block(agi.inode_btree.block)]).collect(),
        _ => map.into_iter().chain([free]).collect(),
    }
}

/// Makes a small volume with directories of files, each with contents of its own.
fn make_volume(folder: &Path, options: &str) -> Result<SharedDevice, TrialError> {
    let failed = |error: std::io::Error| error.to_string();
    let source = folder.join("source");
    for directory in 0..6_u8 {
        let directory_path = source.join(format!("directory-{directory}"));
        fs::create_dir_all(&directory_path).map_err(failed)?;
        for file in 0..60_u8 {
            let path = directory_path.join(format!("a-file-with-number-{file}"));
            let length = usize::from(file) * 300;
            fs::write(path, [directory + 1, file + 1].repeat(length / 2)).map_err(failed)?;
        }
    }
    let image = folder.join("image");
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    // mkfs.xfs makes volumes of this size only for its own tests.
    mkfs.envs(["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"].map(|name| (name, "1")));
    mkfs.arg("-q").args(options.split_whitespace()).arg("-d");
    mkfs.arg(format!("file,name={},size=64m,agcount=2", image.display()));
    let output = mkfs.arg("-p").arg(&source).output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TrialError::Failed(format!("mkfs.xfs: {said}")));
    }
    let opened = FileDevice::open(&image, FileOptions::read_only());
    Ok(Arc::new(opened.map_err(|error| error.to_string())?))
}
