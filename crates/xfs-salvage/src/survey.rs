//! The survey: finds the inodes in use, and the extents and names of damaged inodes in other
//! structures.
//!
//! Owns: the order of the passes, and the state that the tree needs. Does **not** own: the root
//! (`root.rs`), the states of inodes in the log (`logged.rs`), extents from other structures
//! (`maps.rs`), entries that lead to a wrong inode (`homes.rs`), or the tree itself (`node.rs`).

mod homes;
mod logged;
mod maps;
mod root;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use xfs_device::{BlockDevice, SharedDevice};
use xfs_evidence::{
    Evidence, ForkEvidence, FoundBlock, InodeEvidence, InodeState, Sighting, SweepProgress, Trust,
    sweep,
};
use xfs_format::extent::Extent;
use xfs_format::features::RoCompatFeatures;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeFlags2};
use xfs_format::inode_chunk::InodeChunks;
use xfs_format::rmap::{ReverseMap, RmapOwner};
use xfs_format::{AgInode, AgNumber, DiskAddr, InodeNumber, Superblock};

use crate::claims::Claims;
use crate::deleted::Deleted;
use crate::inventory::{Inventory, Mark};
use crate::names::FoundNames;
use crate::report::{FileReport, Totals};

use homes::Home;
pub(crate) use logged::LoggedInodes;

/// The most directory blocks whose addresses a sweep (a search of all blocks) keeps, for
/// directories that may turn out to be unreadable.
const MOST_STRAYS: usize = 1 << 22;
/// The most directories that the survey considers as the possible root.
const MOST_ROOTS: usize = 16;

/// The options of a salvage.
#[derive(Clone, Default)]
pub struct SalvageOptions {
    /// Whether the salvage also searches for deleted files. That search reads the whole device.
    pub deleted: bool,
    /// The device that holds the log: the device of the volume, or that of an external log. Its old
    /// records are searched for damaged inodes and for deleted files. With `None`, no records are
    /// searched.
    pub log: Option<SharedDevice>,
    /// The device of a realtime section that does not lie on the data device. With `None`, the
    /// contents of its files are missing.
    pub realtime: Option<SharedDevice>,
}

/// Receives the progress of a survey, and may end it.
pub trait SurveyProgress {
    /// Reports that the step `what` of the survey has done `done` of `all` units of work. Returning
    /// [`ControlFlow::Break`] ends the survey.
    fn step(&self, what: &'static str, done: u64, all: u64) -> ControlFlow<()>;
}

impl SurveyProgress for () {
    fn step(&self, _what: &'static str, _done: u64, _all: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The survey was stopped by its [`SurveyProgress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the survey was stopped")]
pub struct Stopped;

/// Receives the report on each file.
pub(crate) type Sink = Box<dyn FnMut(&FileReport)>;

/// A surveyed volume.
pub struct Salvage<'a> {
    pub(crate) evidence: Evidence<'a>,
    pub(crate) inventory: RefCell<Inventory>,
    pub(crate) claims: Claims,
    pub(crate) names: FoundNames,
    /// The directories to which several entries lead, each with the entry that it names itself.
    pub(crate) homes: BTreeMap<InodeNumber, Home>,
    /// The data forks of which a part is missing, or whose blocks the inode counts differently,
    /// each with the extents that the reverse map has
    /// for it. Forks of inodes that cannot be read are included.
    pub(crate) forks: BTreeMap<InodeNumber, Vec<Extent>>,
    /// The inodes in `forks` whose extents are those of a realtime section.
    pub(crate) realtime_forks: BTreeSet<InodeNumber>,
    /// Whether the reverse maps of all realtime groups were read completely.
    pub(crate) knows_realtime_extents: bool,
    /// The device of the realtime section, if it has one of its own.
    pub(crate) realtime: Option<SharedDevice>,
    /// The blocks of directories that cannot be read, by the inode number of the directory. A sweep
    /// (a search of all blocks) has found them.
    pub(crate) strays: BTreeMap<InodeNumber, Vec<DiskAddr>>,
    /// The groups in which freed inodes cannot be distinguished from inodes in use, because neither
    /// the inode btree nor the reverse map is whole.
    unsure: BTreeSet<AgNumber>,
    /// The groups whose inodes were found by reading the whole group. Some inodes of these groups
    /// may be missing.
    swept: BTreeSet<AgNumber>,
    pub(crate) logged: LoggedInodes,
    /// Whether the reverse maps of all groups were read completely, so that every extent is known.
    pub(crate) knows_all_extents: bool,
    pub(crate) root: Option<InodeNumber>,
    pub(crate) deleted: Deleted,
    block_count: u64,
    notes: Vec<String>,
    pub(crate) totals: RefCell<Totals>,
    pub(crate) sink: RefCell<Option<Sink>>,
    /// Whether reports are discarded. During a lookup they are, because the lookup visits files
    /// that are not copied.
    pub(crate) is_muted: Cell<bool>,
}

impl<'a> Salvage<'a> {
    /// Surveys the volume on `device`. The log is not replayed here: the caller may pass a device
    /// on which the log has been replayed.
    ///
    /// # Errors
    ///
    /// Returns [`Stopped`] if `progress` ended the survey.
    pub fn survey(
        device: &'a dyn BlockDevice,
        superblock: &'a Superblock,
        options: SalvageOptions,
        progress: &dyn SurveyProgress,
    ) -> Result<Self, Stopped> {
        let mut evidence = Evidence::new(device, superblock);
        if let Some(log) = &options.log {
            let mut polled = ControlFlow::Continue(());
            evidence.use_log(log.clone(), || {
                polled = progress.step("reading the log", 0, 1);
                polled
            });
            if polled.is_break() {
                return Err(Stopped);
            }
        }
        let notes = logged::notes_of_blocks(&evidence);
        let mut survey = Survey {
            claims: Claims::new(&superblock.geometry),
            evidence,
            inventory: Inventory::default(),
            damaged: BTreeMap::new(),
            homes: BTreeMap::new(),
            forks: BTreeMap::new(),
            realtime_forks: BTreeSet::new(),
            knows_realtime_extents: true,
            strays: BTreeMap::new(),
            unsure: BTreeSet::new(),
            swept: BTreeSet::new(),
            logged: LoggedInodes::default(),
            roots: Vec::new(),
            is_incomplete: false,
            knows_all_extents: superblock.geometry.has_ro_compat(RoCompatFeatures::RMAPBT),
            block_count: 0,
            notes,
            progress,
        };
        survey.groups()?;
        survey.inodes(options.log.clone())?;
        survey.homes()?;
        survey.reverse_maps()?;
        let names = survey.names()?;
        let root = survey.root(&names);
        survey.leave_out_metadata(root);
        let deleted =
            if options.deleted { survey.deleted(options.log.clone())? } else { Deleted::default() };
        Ok(Self {
            evidence: survey.evidence,
            inventory: RefCell::new(survey.inventory),
            claims: survey.claims,
            names,
            homes: survey.homes,
            forks: survey.forks,
            realtime_forks: survey.realtime_forks,
            knows_realtime_extents: survey.knows_realtime_extents,
            realtime: options.realtime,
            strays: survey.strays,
            unsure: survey.unsure,
            swept: survey.swept,
            logged: survey.logged,
            knows_all_extents: survey.knows_all_extents,
            root,
            deleted,
            block_count: survey.block_count,
            notes: survey.notes,
            totals: RefCell::default(),
            sink: RefCell::new(None),
            is_muted: Cell::new(false),
        })
    }

    /// Passes each report to `sink`, after the file that the report is about has been copied.
    pub fn report_to(&self, sink: impl FnMut(&FileReport) + 'static) {
        *self.sink.borrow_mut() = Some(Box::new(sink));
    }

    /// Returns the totals of the reports so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        *self.totals.borrow()
    }

    /// Returns sentences about the parts of the volume that the survey could not examine.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of inodes in use.
    #[must_use]
    pub fn inode_count(&self) -> u64 {
        self.inventory.borrow().count(Mark::Used)
    }

    /// Returns the sum of the block counts of all inodes in use. Blocks that several files share
    /// count for each of these files.
    #[must_use]
    pub const fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Returns the reader of the volume that is salvaged.
    #[must_use]
    pub const fn evidence(&self) -> &Evidence<'a> {
        &self.evidence
    }

    /// Returns an inode. If the inode on disk is damaged and the log has the newest state of the
    /// inode, returns that state.
    pub(crate) fn inode(&self, number: InodeNumber) -> InodeEvidence {
        self.logged.inode(&self.evidence, number)
    }

    /// Returns whether an orphan (an inode that looks in use, but that no name leads to) may have
    /// been freed.
    pub(crate) fn is_unsure(&self, number: InodeNumber) -> bool {
        let group = self.evidence.geometry().split_inode(number).map(|(group, _)| group);
        group.is_some_and(|group| self.unsure.contains(&group))
    }

    /// Returns whether an inode of which nothing is left is known to have been in use. In a group
    /// whose inodes were found by reading the group, this is not known.
    pub(crate) fn was_used(&self, number: InodeNumber) -> bool {
        let inventory = self.inventory.borrow();
        let group = self.evidence.geometry().split_inode(number).map(|(group, _)| group);
        let is_unlisted = group.is_some_and(|group| self.swept.contains(&group));
        !inventory.has(number, Mark::Free) && (is_unlisted || inventory.has(number, Mark::Used))
    }

    /// Returns the lowest inode from `from` on that has blocks in a reverse map, but that no inode
    /// btree lists and to which no name led. A reverse map can name inodes of groups whose inode
    /// btree is damaged.
    pub(crate) fn unlisted_fork(&self, from: InodeNumber) -> Option<InodeNumber> {
        let is_unlisted = |number: InodeNumber| {
            let inventory = self.inventory.borrow();
            !inventory.has(number, Mark::Visited) && !inventory.has(number, Mark::Used)
        };
        let known = self.forks.range(from..).filter(|(_, extents)| !extents.is_empty());
        let mut known = known.map(|(number, _)| *number);
        known.find(|number| is_unlisted(*number) && self.was_used(*number))
    }

    pub(crate) fn report(&self, report: &FileReport) {
        if self.is_muted.get() {
            return;
        }
        self.totals.borrow_mut().add(report);
        if let Some(sink) = self.sink.borrow_mut().as_mut() {
            sink(report);
        }
    }
}

/// The survey while it runs.
pub(crate) struct Survey<'a, 'p> {
    pub(crate) evidence: Evidence<'a>,
    pub(crate) inventory: Inventory,
    pub(crate) claims: Claims,
    /// The directories of which a part is damaged or an entry wrong, each with its generation.
    damaged: BTreeMap<InodeNumber, u32>,
    homes: BTreeMap<InodeNumber, Home>,
    forks: BTreeMap<InodeNumber, Vec<Extent>>,
    /// The inodes in `forks` whose extents are those of a realtime section.
    realtime_forks: BTreeSet<InodeNumber>,
    /// Whether the reverse maps of all realtime groups were read completely.
    knows_realtime_extents: bool,
    strays: BTreeMap<InodeNumber, Vec<DiskAddr>>,
    unsure: BTreeSet<AgNumber>,
    /// The groups whose inodes were found by reading the whole group. Some inodes of these groups
    /// may be missing.
    swept: BTreeSet<AgNumber>,
    logged: LoggedInodes,
    /// Directories whose `..` names the directory itself, as in a root directory.
    roots: Vec<InodeNumber>,
    /// Whether some inodes may be missing, so that names may be missing too.
    is_incomplete: bool,
    knows_all_extents: bool,
    block_count: u64,
    notes: Vec<String>,
    pub(crate) progress: &'p dyn SurveyProgress,
}

/// Returns the number of groups that begin before the end of the device.
fn groups_on_device(evidence: &Evidence<'_>) -> u32 {
    evidence.geometry().count_groups_on_device(evidence.device().length_bytes())
}

/// Passes the progress of a sweep (a search of all blocks) to the progress of the survey.
pub(crate) struct SweepStep<'p>(pub(crate) &'p dyn SurveyProgress);

impl SweepProgress for SweepStep<'_> {
    fn swept(&self, done: u64, all: u64) -> ControlFlow<()> {
        self.0.step("reading the device", done, all)
    }
}

impl Survey<'_, '_> {
    pub(crate) fn step(&self, what: &'static str, done: u64, all: u64) -> Result<(), Stopped> {
        match self.progress.step(what, done, all) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped),
        }
    }

    /// Lists the inodes of each group, by its inode btree, or by reading the whole group if its
    /// inode btree is damaged.
    fn groups(&mut self) -> Result<(), Stopped> {
        let geometry = self.evidence.geometry();
        let on_device = groups_on_device(&self.evidence);
        if on_device < geometry.ag_count {
            self.is_incomplete = true;
            self.notes.push(format!(
                "the device ends in group {}, and the superblock states {} groups",
                on_device.saturating_sub(1),
                geometry.ag_count
            ));
        }
        for group in (0..on_device).map(AgNumber) {
            self.step("listing inodes", group.0.into(), geometry.ag_count.into())?;
            let inventory = &mut self.inventory;
            let read = self.evidence.group_records::<InodeChunks>(group, |chunk, trust| {
                if trust == Trust::Doubtful {
                    return;
                }
                for bit in 0..64 {
                    let number =
                        geometry.join_inode(group, AgInode(chunk.start.0.wrapping_add(bit)));
                    if chunk.allocated() & (1 << bit) != 0 {
                        inventory.mark(number, Mark::Used);
                    } else if chunk.present() & (1 << bit) != 0 {
                        inventory.mark(number, Mark::Free);
                    }
                }
            });
            if !read.is_whole {
                self.is_incomplete = true;
                self.sweep_group(group)?;
            }
        }
        Ok(())
    }

    /// Finds the inodes of a group by reading all of it. If the reverse map is whole, only blocks
    /// that the map records as blocks of inodes are used, because the bytes of a freed chunk still
    /// look like inodes.
    fn sweep_group(&mut self, group: AgNumber) -> Result<(), Stopped> {
        let geometry = self.evidence.geometry();
        let mut places = Vec::new();
        let map = self.evidence.group_records::<ReverseMap>(group, |record, _| {
            if record.owner == RmapOwner::Inodes {
                places.push((record.start.0, record.end().0));
            }
        });
        let is_known = map.is_whole && geometry.has_ro_compat(RoCompatFeatures::RMAPBT);
        self.notes.push(format!(
            "{group}: the inode btree is damaged; inodes were found by reading the group"
        ));
        self.swept.insert(group);
        if !is_known {
            self.unsure.insert(group);
        }
        let (inventory, strays) = (&mut self.inventory, &mut self.strays);
        let mut on_sighting = |sighting: &Sighting, _: &[u8]| {
            let number = InodeNumber(sighting.owner);
            if sighting.what == FoundBlock::DirectoryData && strays.len() < MOST_STRAYS {
                strays.entry(number).or_default().push(sighting.at);
            }
            let FoundBlock::Inode { is_free } = sighting.what else { return };
            let block = geometry.split_disk_addr(sighting.at).map(|(_, block)| block.0);
            let is_inside =
                |block: u32| places.iter().any(|(start, end)| (*start..*end).contains(&block));
            if is_known && !block.is_some_and(is_inside) {
                return;
            }
            let mark = if is_free { Mark::Free } else { Mark::Used };
            if !inventory.has(number, Mark::Used) && !inventory.has(number, Mark::Free) {
                inventory.mark(number, mark);
            }
        };
        let swept = sweep(
            &self.evidence,
            group.0..group.0 + 1,
            &SweepStep(self.progress),
            &mut on_sighting,
        );
        if swept.is_stopped { Err(Stopped) } else { Ok(()) }
    }

    /// Examines each inode in use: adds up its blocks, and records which forks and directories are
    /// damaged. Examines damaged inodes last, because it first looks for their newest states in
    /// `log`.
    fn inodes(&mut self, log: Option<SharedDevice>) -> Result<(), Stopped> {
        let all = self.inventory.count(Mark::Used);
        let (mut next, mut done) = (InodeNumber(0), 0);
        while let Some(number) = self.inventory.next(next, Mark::Used, None) {
            if done % 1024 == 0 {
                self.step("looking at inodes", done, all)?;
            }
            let inode = self.evidence.inode(number);
            if inode.is_sound() {
                self.inode(&inode);
            }
            done += 1;
            next = InodeNumber(number.0 + 1);
        }
        self.restore_from_log(log)?;
        next = InodeNumber(0);
        while let Some(number) = self.inventory.next(next, Mark::Used, Some(Mark::Readable)) {
            self.inode(&self.logged.inode(&self.evidence, number));
            next = InodeNumber(number.0 + 1);
        }
        let inventory = &self.inventory;
        self.strays.retain(|owner, _| !inventory.has(*owner, Mark::Readable));
        if !self.claims.is_examined() {
            let note = "blocks of two files were not looked for: the volume is too large, or its \
                        files claim its blocks many times";
            self.notes.push(note.to_owned());
        }
        Ok(())
    }

    fn inode(&mut self, inode: &InodeEvidence) {
        let number = inode.number;
        let Some(core) = inode.core() else {
            self.is_incomplete = true;
            return;
        };
        self.inventory.mark(number, Mark::Readable);
        self.block_count = self.block_count.saturating_add(core.blocks);
        if core.file_type() == Some(FileType::Directory) {
            let found = self.evidence.entries(inode);
            self.inventory.mark(number, Mark::Directory);
            if found.parent == Some(number) && self.roots.len() < MOST_ROOTS {
                self.roots.push(number);
            }
            for name in &found.names {
                self.note_entry(name.child);
            }
            self.claim(&found.map.extents);
            self.note_map(inode, &found.map);
            if !found.is_whole() || !inode.is_sound() {
                self.damaged.insert(number, core.generation);
            }
            return;
        }
        if core.nlink > 1 {
            self.inventory.mark(number, Mark::Linked);
        }
        let has_map = matches!(core.data_format, ForkFormat::Extents | ForkFormat::Btree);
        if !has_map {
            return;
        }
        let map = self.evidence.extents(inode, ForkKind::Data);
        if !self.evidence.is_realtime(core) && !core.flags2.contains(InodeFlags2::REFLINK) {
            self.claim(&map.extents);
        }
        self.note_map(inode, &map);
    }

    /// Records the data fork of an inode as damaged if its map is not whole, or if the inode counts
    /// other blocks than its maps have: a wrong number of extents cuts a map short.
    fn note_map(&mut self, inode: &InodeEvidence, map: &ForkEvidence) {
        let has_map = |kind| {
            let format = inode.core().and_then(|core| core.fork_format(kind));
            matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree))
        };
        let is_counted = || {
            let attributes = match has_map(ForkKind::Attr) {
                true => self.evidence.extents(inode, ForkKind::Attr).block_count(),
                false => 0,
            };
            let all = map.block_count().saturating_add(attributes);
            inode.core().is_none_or(|core| core.blocks == all)
        };
        if has_map(ForkKind::Data) && !(map.is_whole() && is_counted()) {
            self.forks.insert(inode.number, Vec::new());
        }
    }

    fn claim(&mut self, extents: &[Extent]) {
        let geometry = self.evidence.geometry();
        extents.iter().for_each(|extent| self.claims.claim(extent, geometry));
    }

    /// Collects the names of damaged and missing directories from the parent pointers of all
    /// inodes.
    fn names(&mut self) -> Result<FoundNames, Stopped> {
        let mut names = FoundNames::default();
        if self.damaged.is_empty() && !self.is_incomplete {
            return Ok(names);
        }
        let all = self.inventory.count(Mark::Used);
        let (inventory, damaged) = (&self.inventory, &self.damaged);
        for (number, done) in inventory.all(Mark::Used).zip(0..) {
            if done % 1024 == 0 {
                self.step("looking for names", done, all)?;
            }
            let inode = self.logged.inode(&self.evidence, number);
            if !inode.core().is_some_and(|core| core.has_attr_fork()) {
                continue;
            }
            names.take(number, &self.evidence.attributes(&inode), |parent| {
                match (inventory.has(parent, Mark::Directory), damaged.get(&parent)) {
                    (true, None) => None,
                    (true, Some(generation)) => Some(Some(*generation)),
                    (false, _) => Some(None),
                }
            });
        }
        if names.dropped > 0 {
            let dropped = names.dropped;
            self.notes.push(format!("{dropped} names of damaged directories were left out"));
        }
        Ok(names)
    }
}

/// Returns the reason why the core of an inode is doubtful, or `None` if it is sound.
pub(crate) fn doubt(inode: &InodeEvidence) -> Option<String> {
    match &inode.state {
        InodeState::Doubtful(_, corruption) => Some(corruption.to_string()),
        _ => None,
    }
}
