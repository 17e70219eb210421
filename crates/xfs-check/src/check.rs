//! A run of the checker: the passes over the volume, their threads, and the report.
//!
//! # Invariants
//!
//! - **C6** The findings do not depend on the number of threads: each fact is added to a sum or a
//!   list that is compared only when all threads are done, and findings are sorted.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use xfs_device::BlockDevice;
use xfs_format::directory::EntryType;
use xfs_format::superblock;
use xfs_format::{
    AgBlock, AgNumber, IncompatFeatures, InodeNumber, Lsn, RoCompatFeatures, Superblock,
};
use xfs_sync::{AtomicU64, Mutex, Ordering, Volume as VolumeScope};

use crate::blocks::{Findings, Volume};
use crate::budget::ReadBudget;
use crate::cause::{self, Consequences, Judge};
use crate::chunk;
use crate::code::{Area, Code};
use crate::compare::{self, Rounds};
use crate::copies;
use crate::evidence;
use crate::explain::Lists;
use crate::facts::{Facts, Gap};
use crate::finding::{Finding, Place};
use crate::group::{self, GroupSummary};
use crate::hash::Keyed;
use crate::inode::Pass;
use crate::metadata_files::{GroupFiles, MetadataFiles, MetadataKind};
use crate::metadir;
use crate::realtime;
use crate::realtime::summary::RealtimeSummaries;
use crate::region::Region;
use crate::report::{Coverage, Report, Unchecked};
use crate::sums::{Features, Gaps, RealtimeFeatures, Sums};
use crate::unlinked;

/// Options of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// The most bytes of facts that one round collects. A round reads the volume again, to find the
    /// facts by which two structures differ. `None` means `ROUND_BYTES`.
    round_bytes: Option<u64>,
    /// The end of the log. No structure may have a newer LSN. `None` if the log could not be read.
    log_head: Option<Lsn>,
    /// The number of threads; 0 means one for each processor.
    threads: usize,
    /// The key of the hash function by which facts of different structures are compared. `None` for
    /// a random key.
    key: Option<(u64, u64)>,
    /// Findings that the caller has made before the check.
    earlier: Vec<Finding>,
    /// The part of the log that was not replayed, in words. `None` if nothing is missing.
    unreplayed: Option<String>,
    realtime: RealtimeState,
}

/// The state of a realtime section after the replay of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RealtimeState {
    /// Whether the counts of the superblock about the section are out of date.
    is_count_stale: bool,
    /// Whether work on the section is left unfinished.
    is_unfinished: bool,
}

impl CheckOptions {
    /// Sets the LSN of the end of the log. No structure may have a newer LSN.
    #[must_use]
    pub fn log_head(mut self, head: Lsn) -> Self {
        self.log_head = Some(head);
        self
    }

    /// Sets the number of threads; 0 means one for each processor.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the key of the hash function by which the check compares sums of facts, so that a test
    /// can repeat a run exactly.
    #[must_use]
    pub fn key(mut self, first: u64, second: u64) -> Self {
        self.key = Some((first, second));
        self
    }

    /// Sets the most bytes of names, claims and records that are collected at once to explain the
    /// differences of a damaged volume. Fewer bytes mean more rounds, each of which reads the
    /// volume again.
    #[must_use]
    pub fn round_bytes(mut self, bytes: u64) -> Self {
        self.round_bytes = Some(bytes);
        self
    }

    /// States that the log was dirty and has been replayed, but that no kernel has counted the free
    /// extents of realtime groups since. The kernel counts them at the next mount.
    #[must_use]
    pub fn stale_realtime_count(mut self) -> Self {
        self.realtime.is_count_stale = true;
        self
    }

    /// States that the log has work on the realtime section that the replay has left unfinished.
    /// The owners of realtime blocks are not compared then.
    #[must_use]
    pub fn unfinished_realtime_work(mut self) -> Self {
        self.realtime.is_unfinished = true;
        self
    }

    /// States that a part of the log was not replayed, and names that part. The report lists it as
    /// unchecked. The LSNs in structures are then not compared with the end of the log, which is
    /// not known.
    #[must_use]
    pub fn without_log(mut self, part: String) -> Self {
        self.unreplayed = Some(part);
        self
    }

    /// Adds a finding that the caller has made before the check, such as that of a damaged first
    /// superblock. The report lists it with the others.
    #[must_use]
    pub fn earlier_finding(mut self, finding: Finding) -> Self {
        self.earlier.push(finding);
        self
    }
}

/// The default limit, in bytes, of the facts that one round collects. A round reads the volume
/// again, to find the facts by which two structures differ.
const ROUND_BYTES: u64 = 128 << 20;

/// A receiver of the progress of a check.
pub trait Progress: Sync {
    /// Reports that `done` of `total` units of work are done. All units take about the same time.
    fn advance(&self, done: u64, total: u64);

    /// Returns whether the check is to stop.
    fn is_stopped(&self) -> bool {
        false
    }
}

impl Progress for () {
    fn advance(&self, _done: u64, _total: u64) {}
}

/// The reason why a volume is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The volume has a format or a feature with which it cannot be read at all.
    #[error(transparent)]
    Volume(superblock::Unsupported),
}

/// The devices of a volume.
#[derive(Clone, Copy)]
pub struct CheckedDevices<'a> {
    /// The data device.
    pub data: &'a dyn BlockDevice,
    /// The device of a realtime section that does not lie on the data device. `None`: the contents
    /// of that device are not checked, and the report says so.
    pub realtime: Option<&'a dyn BlockDevice>,
}

/// Checks a volume. The log has been replayed: `device` shows the volume as it is after recovery.
/// Nothing is written. The realtime device is not looked at: [`check_devices`] does that.
///
/// # Errors
///
/// [`Unsupported`] if the volume has a feature that the checker does not know. Damage is not an
/// error but a finding.
pub fn check(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Report, Unsupported> {
    check_devices(CheckedDevices { data: device, realtime: None }, superblock, options, progress)
}

/// Checks a volume with all its devices, as [`check`] does.
///
/// # Errors
///
/// The errors of [`check`].
pub fn check_devices(
    devices: CheckedDevices<'_>,
    superblock: &Superblock,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Report, Unsupported> {
    let start = Instant::now();
    refuse(superblock)?;
    let hash = match options.key {
        Some((first, second)) => Keyed::with_key(first, second),
        None => Keyed::random(),
    };
    let reads = ReadBudget::of(&superblock.geometry);
    let log_head = options.log_head.filter(|_| options.unreplayed.is_none());
    let CheckedDevices { data: device, realtime } = devices;
    let metadata = &MetadataFiles::NONE;
    let volume = Volume { device, realtime, superblock, log_head, hash, reads: &reads, metadata };
    let mut findings = Findings::default();
    let metadata = metadir::find(volume, &mut findings);
    let volume = Volume { metadata: &metadata, ..volume };
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let round_bytes = options.round_bytes.unwrap_or(ROUND_BYTES);
    let run = Run { volume, threads, progress, round_bytes, realtime: options.realtime };
    Ok(run.report(start, options, findings))
}

/// Refuses a volume with a feature that the checker does not know.
fn refuse(superblock: &Superblock) -> Result<(), Unsupported> {
    match superblock.refusal(superblock::VolumeAccess::Read) {
        None | Some(superblock::Unsupported::NeedsRepair) => Ok(()),
        Some(reason) => Err(Unsupported::Volume(reason)),
    }
}

/// A check in progress.
struct Run<'a> {
    volume: Volume<'a>,
    threads: usize,
    progress: &'a dyn Progress,
    round_bytes: u64,
    realtime: RealtimeState,
}

/// The facts and findings that one thread has collected.
struct ThreadResult<T> {
    facts: T,
    findings: Findings,
}

/// The facts of groups that later passes need.
struct Summaries {
    groups: Vec<GroupSummary>,
    realtime: RealtimeSummaries,
}

/// A unit of work of the pass over inodes: the inodes of one leaf of a group's inode btree.
#[derive(Clone, Copy)]
struct Unit {
    group: AgNumber,
    leaf: AgBlock,
}

impl<'a> Run<'a> {
    fn features(&self) -> Features {
        let geometry = self.volume.geometry();
        Features {
            reverse_map: geometry.has_ro_compat(RoCompatFeatures::RMAPBT),
            parents: geometry.has_incompat(IncompatFeatures::PARENT),
            entry_types: geometry.directory_form.types,
            realtime: self.realtime_features(),
        }
    }

    /// Returns the balances of the realtime section. There are none if work on it is unfinished.
    fn realtime_features(&self) -> RealtimeFeatures {
        let has = |kind| metadir::kinds_of_groups(self.volume).contains(&kind);
        let is_compared = self.volume.superblock.has_realtime() && !self.realtime.is_unfinished;
        RealtimeFeatures {
            bitmap: is_compared && has(MetadataKind::Bitmap),
            reverse_map: is_compared && has(MetadataKind::ReverseMap),
        }
    }

    fn report(&self, start: Instant, options: &CheckOptions, mut findings: Findings) -> Report {
        let earlier = &options.earlier;
        let geometry = self.volume.geometry();
        let not_named = realtime::check_device(self.volume, &mut findings);
        earlier.iter().for_each(|finding| findings.push(finding.clone()));
        self.device_length(&mut findings);
        copies::check_first(self.volume, &mut findings);
        if self.volume.superblock.has_incompat(IncompatFeatures::NEEDSREPAIR) {
            let found = "the flag NEEDSREPAIR is set";
            findings.push(Finding::new(Code::SbNeedsRepair, Place::default(), found));
        }
        let groups = self.volume.groups().count();
        let new_sums = || Sums::new(self.volume.hash, groups, self.features());
        let mut sums = new_sums();
        for number in self.volume.groups() {
            sums.expect_region(Region::Data(number), geometry.ag_length(number));
        }
        if self.features().realtime.bitmap {
            for group in self.volume.metadata.groups.keys() {
                for region in realtime::regions_of(self.volume, *group) {
                    sums.expect_region(region, region.length(geometry));
                }
            }
        }
        let (summaries, shares) = self.passes(&new_sums, Findings::default);
        for share in shares {
            sums.merge(&share.facts);
            findings.append(share.findings);
        }
        self.lose_groups_without_files(&mut sums);
        let inodes = sums.used_inodes;
        let directories = sums.directories.len() as u64;
        let rounds = compare::differing(&sums, self.round_bytes);
        let mut consequences = Consequences::default();
        if !self.volume.metadata.is_whole {
            sums.gaps.note(Gap::MetadataFiles);
        }
        if earlier.iter().any(|finding| is_of_counts(finding.code)) {
            sums.gaps.note(Gap::Superblock);
        }
        let pairs = std::mem::take(&mut sums.directories);
        let mut judge =
            Judge { gaps: &sums.gaps, findings: &mut findings, consequences: &mut consequences };
        compare::unlinked(&sums, self.volume, &mut judge);
        compare::directories(pairs, self.volume, &mut judge);
        compare::counters(&summaries.groups, self.volume, &mut judge);
        if !self.realtime.is_unfinished && !self.realtime.is_count_stale {
            compare::free_extents(&summaries.realtime, self.volume, &mut judge);
        }
        findings.append(self.explain(&rounds, &sums.gaps, &mut consequences));
        let (mut list, dropped) = findings.into_parts();
        sort(&mut list);
        let consequences = consequences.attribute(&mut list);
        let mut unchecked = self.unchecked(&sums.gaps, &rounds, not_named, &list);
        unchecked.extend(unreplayed(options, &list));
        Report {
            findings: list,
            consequences,
            dropped,
            unchecked,
            coverage: Coverage {
                groups: u32::try_from(self.volume.groups().count()).unwrap_or(u32::MAX),
                inodes,
                directories,
                bytes: geometry.data_bytes(),
            },
            is_stopped: self.progress.is_stopped(),
            elapsed: start.elapsed(),
        }
    }

    /// Records that nothing is known about the space of realtime groups whose files were not found.
    /// Their inodes or the directories that name them are damaged, and that is a finding.
    fn lose_groups_without_files(&self, sums: &mut Sums) {
        if self.volume.geometry().realtime.group_count == 0 {
            return;
        }
        let found = &self.volume.metadata.groups;
        let lost = sums.realtime.keys().filter(|group| !found.contains_key(group));
        for region in lost.copied().map(Region::Realtime) {
            for gap in [Gap::GroupClaims(region), Gap::ReverseMap(region), Gap::Refcounts(region)] {
                sums.gaps.note(gap);
            }
        }
    }

    /// Explains each balance (comparison of two structures by sums) that does not hold. Each round
    /// reads the volume again and collects the facts of some of these balances. Returns findings
    /// about the facts that only one structure has.
    fn explain(&self, rounds: &Rounds, gaps: &Gaps, consequences: &mut Consequences) -> Findings {
        let mut explained = Findings::default();
        for differing in &rounds.list {
            if self.progress.is_stopped() {
                break;
            }
            let new_lists = || Lists::new(differing);
            let (_, shares) = self.passes(&new_lists, Findings::silent);
            let mut lists = new_lists();
            for share in shares {
                lists.merge(share.facts);
            }
            let judge = Judge { gaps, findings: &mut explained, consequences: &mut *consequences };
            lists.explain(self.volume, judge);
        }
        explained
    }

    /// Describes everything that was not checked: because a structure could not be read (`gaps`),
    /// because a group lies past the end of the device, or because no round was left to explain a
    /// difference.
    fn unchecked(
        &self,
        gaps: &Gaps,
        rounds: &Rounds,
        other: Option<String>,
        findings: &[Finding],
    ) -> Vec<Unchecked> {
        let mut what = unchecked(gaps, findings);
        let first = |code: Code| findings.iter().position(|finding| finding.code == code);
        what.extend(other.map(Unchecked::new));
        if self.realtime.is_unfinished {
            what.push(Unchecked::new(
                "owners of realtime blocks: the log has open work on the realtime section",
            ));
        }
        if rounds.left > 0 {
            let all = rounds.list.len();
            what.push(Unchecked::new(format!(
                "differences of {} groups or ranges of inodes: {all} rounds of {} bytes did not \
                 suffice",
                rounds.left, self.round_bytes,
            )));
        }
        let (groups, all) = (self.volume.groups().count() as u64, self.volume.geometry().ag_count);
        if groups < all.into() {
            let last = u64::from(all - 1);
            let what_left = match groups == last {
                true => format!("group {last}"),
                false => format!("groups {groups} to {last}"),
            };
            let cause = first(Code::SbDeviceShort);
            what.push(Unchecked { what: what_left, cause });
        }
        what
    }

    /// Reports a device that is shorter than the volume.
    fn device_length(&self, findings: &mut Findings) {
        let (volume, device) =
            (self.volume.geometry().data_bytes(), self.volume.device.length_bytes());
        if device < volume {
            let found = format!("the device has {device} bytes");
            let finding = Finding::new(Code::SbDeviceShort, Place::default(), found);
            findings.push(finding.expected(format!("{volume} bytes")));
        }
    }

    /// Runs all passes over the volume. Returns the summaries of the groups, and the facts and
    /// findings of each thread.
    fn passes<T: Facts + Send>(
        &self,
        new_facts: &(dyn Fn() -> T + Sync),
        new_findings: fn() -> Findings,
    ) -> (Summaries, Vec<ThreadResult<T>>) {
        self.volume.reads.refill();
        let numbers: Vec<AgNumber> = self.volume.groups().collect();
        let empty = vec![GroupSummary::default(); numbers.len()];
        let summaries: Mutex<Vec<GroupSummary>, VolumeScope> = Mutex::new(empty);
        let new_share = || ThreadResult { facts: new_facts(), findings: new_findings() };
        let mut shares = self.in_parallel(&numbers, &new_share, |share, number| {
            if number.0 > 0 {
                copies::check(self.volume, *number, &mut share.findings);
            }
            let facts = &mut share.facts;
            let summary = group::check(self.volume, *number, facts, &mut share.findings);
            let index = usize::try_from(number.0).expect("a group number fits an index");
            let mut summaries = summaries.lock();
            *summaries.get_mut(index).expect("each group has its summary") = summary;
        });
        let groups = summaries.into_inner();
        let (realtime, mut realtime_shares) = self.realtime_pass(&new_share);
        shares.append(&mut realtime_shares);
        let summaries = Summaries { groups, realtime };
        let groups = &summaries.groups;
        let units: Vec<Unit> = numbers
            .iter()
            .zip(groups)
            .flat_map(|(group, summary)| {
                summary.leaves.iter().map(|leaf| Unit { group: *group, leaf: *leaf })
            })
            .collect();
        let mut inode_shares = self.in_parallel(&units, &new_share, |share, unit| {
            let mut pass = self.pass(&summaries, share);
            chunk::check_unit(&mut pass, unit.group, unit.leaf);
        });
        shares.append(&mut inode_shares);
        let mut last = new_share();
        let mut pass = self.pass(&summaries, &mut last);
        for number in numbers {
            unlinked::check(&mut pass, number);
        }
        self.superblock_links(&mut last.facts);
        shares.push(last);
        (summaries, shares)
    }

    /// Checks the metadata of all realtime groups.
    fn realtime_pass<T: Facts + Send>(
        &self,
        new_share: &(dyn Fn() -> ThreadResult<T> + Sync),
    ) -> (RealtimeSummaries, Vec<ThreadResult<T>>) {
        let groups: Vec<(u32, &GroupFiles)> =
            self.volume.metadata.groups.iter().map(|(number, files)| (*number, files)).collect();
        let summaries: Mutex<RealtimeSummaries, VolumeScope> = Mutex::new(BTreeMap::new());
        if groups.is_empty() {
            return (summaries.into_inner(), Vec::new());
        }
        let shares = self.in_parallel(&groups, new_share, |share, (number, files)| {
            let (facts, findings) = (&mut share.facts, &mut share.findings);
            let summary = realtime::check(self.volume, *number, files, facts, findings);
            summaries.lock().insert(*number, summary);
        });
        (summaries.into_inner(), shares)
    }

    fn pass<'p, T: Facts>(
        &'p self,
        summaries: &'p Summaries,
        share: &'p mut ThreadResult<T>,
    ) -> Pass<'p, T> {
        Pass {
            volume: self.volume,
            groups: &summaries.groups,
            realtime: &summaries.realtime,
            facts: &mut share.facts,
            findings: &mut share.findings,
            has_shared: false,
        }
    }

    /// Passes to the receiver of facts a link to each inode that the superblock names and no
    /// directory names: the realtime and quota inodes.
    fn superblock_links<T: Facts>(&self, facts: &mut T) {
        let superblock = self.volume.superblock;
        let realtime = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
        let is_set = |inode: &InodeNumber| inode.0 != 0 && !inode.is_null();
        let named = realtime.into_iter().filter(is_set);
        // The metadata directory names its own inodes.
        if superblock.metadata_directory_inode.is_some() {
            return;
        }
        for inode in named.chain(superblock.quota_inodes.into_iter().flatten()) {
            facts.superblock_link(inode, EntryType::Regular);
        }
    }

    /// Performs `work` on all `units` with several threads. Each thread takes the next unit of the
    /// list when it has finished one. Returns the facts and findings of each thread.
    fn in_parallel<T: Facts + Send, U: Sync>(
        &self,
        units: &[U],
        new_share: &(dyn Fn() -> ThreadResult<T> + Sync),
        work: impl Fn(&mut ThreadResult<T>, &U) + Sync,
    ) -> Vec<ThreadResult<T>> {
        let next: AtomicU64<VolumeScope> = AtomicU64::new(0);
        let total = units.len() as u64;
        let run = || {
            let mut share = new_share();
            while !self.progress.is_stopped() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let unit = usize::try_from(index).ok().and_then(|index| units.get(index));
                let Some(unit) = unit else { break };
                work(&mut share, unit);
                self.progress.advance(index + 1, total);
            }
            share
        };
        let threads = self.threads.min(units.len()).max(1);
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut shares = vec![run()];
            for thread in others {
                shares.push(thread.join().expect("a thread of a check does not panic"));
            }
            shares
        })
    }
}

/// Sorts findings, the worst first, removes repeated ones, and adds the evidence that follows from
/// their codes.
fn sort(list: &mut Vec<Finding>) {
    list.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.place, finding.code);
        b.severity()
            .cmp(&a.severity())
            .then_with(|| key(a).cmp(&key(b)).then_with(|| a.found.cmp(&b.found)))
    });
    list.dedup();
    list.iter_mut().for_each(evidence::complete);
}

/// Returns whether a finding with this code means that the counts of the superblock may be wrong.
fn is_of_counts(code: Code) -> bool {
    code.area() == Area::Superblock && code != Code::SbNeedsRepair
}

/// Returns the part of the log that was not replayed as an unchecked part, in the words of the
/// caller. Its cause is the finding that the log is unreadable.
fn unreplayed(options: &CheckOptions, findings: &[Finding]) -> Option<Unchecked> {
    let cause = findings.iter().position(|finding| finding.code == Code::LogUnreadable);
    options.unreplayed.clone().map(|what| Unchecked { what, cause })
}

/// The largest number of unreadable parts of groups (gaps) that the report names. Further parts are
/// only counted.
const MOST_NAMED: usize = 1 << 16;

/// Describes the checks that were not possible because of gaps: structures that could not be read.
fn unchecked(gaps: &Gaps, findings: &[Finding]) -> Vec<Unchecked> {
    let mut what: Vec<(String, Option<Gap>)> = Vec::new();
    let mut push = |is_open: bool, gap: Gap, text: &str| {
        if is_open {
            what.push((text.to_owned(), Some(gap)));
        }
    };
    let claims = "leaked space and extra reverse mappings: some owners are not known";
    push(gaps.claims, Gap::Claims, claims);
    let names = "missing names and low link counts: some directories are not known";
    push(gaps.names, Gap::Names, names);
    let parents = "missing parent pointers: some attributes are not known";
    push(gaps.parents, Gap::Parents, parents);
    push(gaps.usage, Gap::Usage, "counts of quota: some inodes or dquots are not known");
    let groups = gaps.groups.iter().take(MOST_NAMED);
    let mut groups: Vec<(String, Option<Gap>)> =
        groups.map(|gap| (describe_gap(*gap), Some(*gap))).collect();
    groups.sort();
    what.append(&mut groups);
    let unnamed = gaps.groups.len().saturating_sub(MOST_NAMED);
    if unnamed > 0 {
        what.push((format!("{unnamed} more structures of groups"), None));
    }
    cause::attribute_gaps(what, findings)
}

/// Returns in words what was not checked because of `gap`, a gap of a group or a section.
fn describe_gap(gap: Gap) -> String {
    match gap {
        Gap::GroupClaims(region) => format!("leaked space in {region}"),
        Gap::FreeSpace(group) => format!("free space of {group}"),
        Gap::ReverseMap(region) => format!("reverse map of {region}"),
        Gap::Refcounts(region) => format!("reference counts of {region}"),
        Gap::FreeInodes(group) => format!("free inodes of {group}"),
        Gap::Inodes(group) => format!("some inodes of {group}"),
        Gap::Unlinked(group) => format!("unlinked lists of {group}"),
        Gap::MetadataFiles => "files of the metadata directory".to_owned(),
        Gap::Superblock => "counts of the superblock".to_owned(),
        Gap::Claims | Gap::Names | Gap::Parents | Gap::Usage => {
            unreachable!("these are no gaps of a group")
        }
    }
}
