//! The volume under repair: an overlay, and the changes made to it so far.
//!
//! Owns: reading and changing whole objects, free blocks for new metadata, and the list of actions.
//! Does **not** own: which objects are changed (the rules), or the device below the overlay.
//!
//! # Invariants
//!
//! - **I1** Every change goes to the overlay.
//! - **I2** Blocks are free if no owner claims them. The records of free space may be damaged, so
//!   they are used in one case only: if an inode cannot be read and no reverse map has its blocks
//!   (`reserve`). A group whose claims change is marked, and its space btrees are rebuilt last.

mod attempt;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use xfs_check::{Finding, Progress};
use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::extent::Extent;
use xfs_format::inode::{self, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::rmap::{ReverseMap, Rmap, RmapOwner};
use xfs_format::{
    AgBlock, AgInode, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, FsBlock, Geometry, InodeNumber, Lsn,
    RoCompatFeatures, Superblock, VerifyContext,
};
use zerocopy::IntoBytes;

use crate::action::Action;
use crate::chunks::{self, GroupChunks};
use crate::claims;
use crate::error::RepairError;
use crate::mapped::MappedExtents;
use crate::model::Model;
use crate::options::RehearsalOptions;
use crate::reserve::{self, Reserve};
use crate::trees::{self, GroupTree};
use attempt::AttemptRecord;

/// The volume under repair.
pub(crate) struct Patient<'p> {
    overlay: SharedDevice,
    /// The caller, which may stop the repair at any time.
    progress: &'p dyn Progress,
    superblock: Superblock,
    log_head: Option<Lsn>,
    allows_loss: bool,
    /// The length of the data device in bytes, if the overlay is over a `JoinedDevice`.
    data_bytes: Option<u64>,
    actions: Vec<Action>,
    model: Option<Rc<Model>>,
    /// The groups whose space btrees and headers are rebuilt at the end of the round (one check and
    /// the repairs that follow it).
    marked: BTreeSet<AgNumber>,
    /// The marked groups whose inode btrees are also rebuilt at the end of the round.
    marked_inodes: BTreeSet<AgNumber>,
    /// The inode chunks of each group. A group is added when a rule first needs its chunks.
    chunks: BTreeMap<AgNumber, GroupChunks>,
    /// The reverse map of each group, as the damaged volume has it.
    reverse_maps: RefCell<BTreeMap<AgNumber, Rc<GroupTree<Rmap>>>>,
    /// The forks of all inodes, according to the reverse maps of all groups. `None` until a rule
    /// first needs them.
    mapped: RefCell<Option<Rc<MappedExtents>>>,
    /// The free blocks of each group in this round (one check and the repairs that follow it), as
    /// ranges: the first block, and the block after the last one. `None` until they are first
    /// needed.
    free: Option<BTreeMap<AgNumber, Vec<(u32, u32)>>>,
    /// The changes since the start of the current attempt. `None` outside of attempts.
    journal: Option<AttemptRecord>,
    /// The blocks of each group that may belong to an inode that cannot be read, and are therefore
    /// not free. Computed together with `free`.
    reserved: BTreeMap<AgNumber, Vec<Rmap>>,
    /// The groups in which no btree of free space is whole, so that the blocks of an unreadable
    /// inode cannot be distinguished from free blocks.
    blind: BTreeSet<AgNumber>,
    /// The groups in `blind` from which blocks were taken although these blocks may belong to an
    /// unreadable inode. Such blocks are taken only if losses are allowed.
    taken_blindly: BTreeSet<AgNumber>,
    /// Findings about damage that stays, and that a check of the repaired volume does not report.
    withheld: Vec<Finding>,
}

impl<'p> Patient<'p> {
    /// Creates the state of a volume under repair, over an overlay of the damaged device.
    /// `superblock` is the one that `find_superblock` has found. The device may not have this
    /// superblock yet: rule `superblock` writes it.
    pub(crate) fn new(
        overlay: SharedDevice,
        superblock: Superblock,
        options: &RehearsalOptions,
        progress: &'p dyn Progress,
    ) -> Self {
        Self {
            overlay,
            progress,
            superblock,
            log_head: options.log_head,
            allows_loss: options.allow_loss,
            data_bytes: options.data_bytes,
            actions: Vec::new(),
            model: None,
            marked: BTreeSet::new(),
            marked_inodes: BTreeSet::new(),
            chunks: BTreeMap::new(),
            reverse_maps: RefCell::default(),
            mapped: RefCell::default(),
            free: None,
            journal: None,
            reserved: BTreeMap::new(),
            blind: BTreeSet::new(),
            taken_blindly: BTreeSet::new(),
            withheld: Vec::new(),
        }
    }

    /// Returns whether the caller stops the repair. A search may then end early: no rule uses the
    /// result of the search, because the next [`poll`](Self::poll) ends the repair.
    pub(crate) fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }

    /// Returns an error if the caller stops the repair. The rules call this function between rules
    /// and in long searches.
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair.
    pub(crate) fn poll(&self) -> Result<(), RepairError> {
        if self.is_stopped() { Err(RepairError::Stopped) } else { Ok(()) }
    }

    /// Returns `Break` if the caller stops the repair, for a reader of the log.
    pub(crate) fn continues(&self) -> ControlFlow<()> {
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the superblock that the repair uses.
    pub(crate) const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Replaces the superblock in memory. The caller writes it.
    pub(crate) fn set_superblock(&mut self, superblock: Superblock) {
        self.superblock = superblock;
    }

    /// Returns the geometry of the volume.
    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// Returns the overlay.
    pub(crate) fn device(&self) -> &dyn BlockDevice {
        &*self.overlay
    }

    /// Returns the overlay, for a reader that keeps a reference to it.
    pub(crate) fn shared_device(&self) -> SharedDevice {
        SharedDevice::clone(&self.overlay)
    }

    /// Returns a reader of damaged structures, over the overlay.
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        Evidence::new(self.device(), &self.superblock)
    }

    /// Returns the context that every verifier gets: the geometry and the head of the log.
    pub(crate) const fn context(&self) -> VerifyContext<'_> {
        VerifyContext { geometry: self.geometry(), log_head: self.log_head }
    }

    /// Returns the LSN of rebuilt structures: 0, "never logged". The log is clean, so no recovery
    /// compares it with a logged change, and each later change has a higher LSN.
    pub(crate) const fn lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Returns the LSN of the head of the log, if it is known.
    pub(crate) const fn log_head(&self) -> Option<Lsn> {
        self.log_head
    }

    /// Returns whether rules may lose contents.
    pub(crate) const fn allows_loss(&self) -> bool {
        self.allows_loss
    }

    /// Returns the length of the data device in bytes, if the overlay is over a `JoinedDevice`.
    pub(crate) const fn data_bytes(&self) -> Option<u64> {
        self.data_bytes
    }

    /// Returns the address in the overlay of the first block of the realtime device. `None` if the
    /// overlay is over the data device alone.
    pub(crate) fn realtime_device_addr(&self) -> Option<DiskAddr> {
        let start = crate::joined::realtime_start(self.data_bytes?);
        Some(DiskAddr(start / u64::from(BASIC_BLOCK_BYTES)))
    }

    /// Reads bytes of the volume in their current state, with all changes of the repair so far.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn read(&self, at: DiskAddr, bytes: &mut [u8]) -> Result<(), RepairError> {
        let offset = at.0.saturating_mul(BASIC_BLOCK_BYTES.into());
        self.overlay.read_at(bytes, offset).map_err(|error| RepairError::Io { offset, error })
    }

    /// Reads bytes as evidence. Returns `false` if the bytes cannot be read. The repair then
    /// continues without this evidence.
    pub(crate) fn can_read(&self, at: DiskAddr, bytes: &mut [u8]) -> bool {
        self.read(at, bytes).is_ok()
    }

    /// Writes bytes to the overlay. The caller has already stored the right checksum in the bytes.
    ///
    /// # Errors
    ///
    /// The error of the overlay.
    pub(crate) fn write(&mut self, at: DiskAddr, bytes: &[u8]) -> Result<(), RepairError> {
        self.model = None;
        self.note_write(at, bytes.len())?;
        let offset = at.0.saturating_mul(BASIC_BLOCK_BYTES.into());
        let written = self.overlay.write_at(bytes, offset, Durability::Cached);
        written.map_err(|error| RepairError::Io { offset, error })
    }

    /// Returns the reverse map of a group as it was at the first call for this group. If the map is
    /// damaged, returns the records of all readable leaves.
    pub(crate) fn reverse_map(&self, group: AgNumber) -> Rc<GroupTree<Rmap>> {
        if let Some(map) = self.reverse_maps.borrow().get(&group) {
            return Rc::clone(map);
        }
        let map = if self.geometry().has_ro_compat(RoCompatFeatures::RMAPBT) {
            let root = trees::agf(self, group).and_then(|header| header.header.reverse_map);
            trees::read::<ReverseMap>(self, group, root)
        } else {
            GroupTree { records: Vec::new(), blocks: BTreeSet::new(), is_whole: false }
        };
        let map = Rc::new(map);
        self.reverse_maps.borrow_mut().insert(group, Rc::clone(&map));
        map
    }

    /// Returns the forks of all inodes, as the reverse maps of the damaged volume record them.
    pub(crate) fn mapped(&self) -> Rc<MappedExtents> {
        if let Some(mapped) = &*self.mapped.borrow() {
            return Rc::clone(mapped);
        }
        let mapped = Rc::new(MappedExtents::of(self));
        *self.mapped.borrow_mut() = Some(Rc::clone(&mapped));
        mapped
    }

    /// Discards the cached inode chunks and reverse maps of all groups, and the forks that the
    /// reverse maps record. Called after blocks from which these were read have been restored.
    pub(crate) fn forget_groups(&mut self) {
        self.chunks.clear();
        self.reverse_maps.get_mut().clear();
        *self.mapped.get_mut() = None;
        (self.free, self.model) = (None, None);
    }

    /// Returns the inode chunks of a group.
    pub(crate) fn chunks(&mut self, group: AgNumber) -> &GroupChunks {
        if !self.chunks.contains_key(&group) {
            let found = chunks::find(self, group);
            self.chunks.insert(group, found);
        }
        self.chunks.get(&group).expect("the group was just inserted")
    }

    /// Returns the blocks of the inode btrees of a group.
    pub(crate) fn tree_blocks(&mut self, group: AgNumber) -> Vec<AgBlock> {
        self.chunks(group).tree_blocks.iter().copied().collect()
    }

    /// Returns the chunk that has this inode of a group. `None` if no known chunk has it.
    pub(crate) fn chunk_of(&mut self, group: AgNumber, inode: AgInode) -> Option<InodeChunk> {
        let chunks = &self.chunks(group).chunks;
        let after = chunks.partition_point(|chunk| chunk.start <= inode);
        let chunk = chunks.get(after.checked_sub(1)?)?;
        chunk.position(inode).map(|_| *chunk)
    }

    /// Returns whether a known chunk has this inode. Only then are the bytes at its address those
    /// of an inode, which a rule may write: a wrong record of a chunk can lead to data of a file.
    pub(crate) fn has_inode(&mut self, inode: InodeNumber) -> bool {
        let Some((group, in_group)) = self.geometry().split_inode(inode) else { return false };
        self.chunk_of(group, in_group).is_some_and(|chunk| {
            let position = chunk.position(in_group);
            position.is_some_and(|position| chunk.present() >> position & 1 != 0)
        })
    }

    /// Replaces the chunk that starts at the same inode as `chunk`, and marks the group for a
    /// rebuild of its inode btrees.
    ///
    /// # Panics
    ///
    /// Panics if no known chunk starts there: a mistake of the caller.
    pub(crate) fn set_chunk(&mut self, group: AgNumber, chunk: InodeChunk) {
        let found = self.chunks.entry(group).or_default();
        let index = found.chunks.binary_search_by_key(&chunk.start, |chunk| chunk.start);
        let index = index.expect("the chunk was found before");
        *found.chunks.get_mut(index).expect("the index was found") = chunk;
        self.note_chunks(group);
    }

    /// Sets the inode chunks of a group, and marks the group for a rebuild of its inode btrees.
    pub(crate) fn set_chunks(&mut self, group: AgNumber, chunks: Vec<InodeChunk>) {
        let found = self.chunks.entry(group).or_default();
        found.chunks = chunks;
        self.note_chunks(group);
    }

    fn note_chunks(&mut self, group: AgNumber) {
        self.model = None;
        // The blocks of the chunks may have been free until now.
        self.free = None;
        self.mark_inodes(group);
    }

    /// Marks a group for a rebuild of its inode btrees and AGI at the end of the round.
    pub(crate) fn mark_inodes(&mut self, group: AgNumber) {
        if self.marked_inodes.insert(group) {
            self.note_mark(group, true);
        }
        self.mark_group(group);
    }

    /// Returns the model of the volume. The model is read when it is first needed, and again after
    /// a change.
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair while the model is read.
    pub(crate) fn model(&mut self) -> Result<Rc<Model>, RepairError> {
        if let Some(model) = &self.model {
            return Ok(Rc::clone(model));
        }
        let groups: Vec<AgNumber> = self.geometry().groups().collect();
        let mut chunks = BTreeMap::new();
        for group in groups {
            chunks.insert(group, self.chunks(group).chunks.clone());
            self.poll()?;
        }
        let model = Rc::new(Model::read(self, chunks)?);
        self.model = Some(Rc::clone(&model));
        Ok(model)
    }

    /// Takes `count` free blocks, from group `near` where possible, and marks their groups for a
    /// rebuild of the space btrees. Takes adjacent blocks where possible.
    ///
    /// # Errors
    ///
    /// [`RepairError::NoSpace`] if too few blocks are free (I2).
    pub(crate) fn take_blocks(
        &mut self,
        near: AgNumber,
        count: u32,
    ) -> Result<Vec<FsBlock>, RepairError> {
        // Free blocks come from the claims of owners, not from the records of free space (I2).
        let mut free = match self.free.take() {
            Some(free) => free,
            None => self.find_free()?,
        };
        let all: u64 = free.values().flatten().map(|(start, end)| u64::from(end - start)).sum();
        if all < count.into() {
            self.free = Some(free);
            return Err(RepairError::NoSpace { count: count.into() });
        }
        let others = self.geometry().groups().filter(|group| *group != near);
        let order: Vec<AgNumber> = std::iter::once(near).chain(others).collect();
        let mut taken = Vec::new();
        for group in order {
            let missing = count - u32::try_from(taken.len()).expect("at most `count` are taken");
            let Some(runs) = free.get_mut(&group).filter(|_| missing > 0) else { continue };
            let blocks = take_of(runs, missing);
            // The claims of the group change, so its space is rebuilt (I2).
            if !blocks.is_empty() {
                self.mark_group(group);
                self.note_taken(group, &blocks);
                if self.blind.contains(&group) {
                    self.taken_blindly.insert(group);
                }
            }
            let geometry = self.geometry();
            taken
                .extend(blocks.into_iter().map(|block| geometry.join_block(group, AgBlock(block))));
        }
        self.free = Some(free);
        assert_eq!(taken.len(), count as usize, "the free blocks were counted");
        Ok(taken)
    }

    /// Takes extents out of the free blocks of this round. The caller calls this before it writes
    /// an inode that could not be read, and to which the extents belong: once the inode can be
    /// read, nothing reserves its blocks until its fork maps them.
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair.
    pub(crate) fn keep_extents(&mut self, extents: &[Extent]) -> Result<(), RepairError> {
        let mut free = match self.free.take() {
            Some(free) => free,
            None => self.find_free()?,
        };
        for extent in extents {
            let Some((group, start)) = self.geometry().split_block(extent.start) else { continue };
            let (first, end) = (start.0, start.0.saturating_add(extent.length_blocks));
            let runs = free.entry(group).or_default();
            let parts =
                runs.iter().flat_map(|run| [(run.0, run.1.min(first)), (run.0.max(end), run.1)]);
            *runs = parts.filter(|(start, end)| start < end).collect();
        }
        self.free = Some(free);
        Ok(())
    }

    /// Returns the blocks of some groups that no owner claims, as ranges in order: the first block,
    /// and the block after the last one. Some of these blocks may be reserved for an unreadable
    /// inode ([`is_reserved`](Self::is_reserved)).
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair.
    pub(crate) fn unclaimed(
        &mut self,
        groups: &BTreeSet<AgNumber>,
    ) -> Result<BTreeMap<AgNumber, Vec<(u32, u32)>>, RepairError> {
        let model = self.model()?;
        let mut claims = claims::of_volume(self, &model);
        let mut unclaimed = BTreeMap::new();
        for group in groups {
            let own = claims.remove(group).expect("each group has claims");
            let own = self.with_inodes(*group, own);
            unclaimed.insert(*group, claims::gaps(&own, self.geometry().ag_length(*group)));
        }
        Ok(unclaimed)
    }

    /// Returns whether one of these blocks may belong to an inode that cannot be read.
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair.
    pub(crate) fn is_reserved(
        &mut self,
        group: AgNumber,
        blocks: &Range<u32>,
    ) -> Result<bool, RepairError> {
        if self.free.is_none() {
            self.free = Some(self.find_free()?);
        }
        let reserved = self.reserved.get(&group);
        Ok(self.blind.contains(&group)
            || reserved.is_some_and(|reserved| reserve::contains_any(reserved, blocks)))
    }

    /// Finds the free blocks of all groups: those that no owner claims, that no record of the
    /// reverse map gives to an inode, and that are not reserved (I2).
    fn find_free(&mut self) -> Result<BTreeMap<AgNumber, Vec<(u32, u32)>>, RepairError> {
        let model = self.model()?;
        let mut claims = claims::of_volume(self, &model);
        let groups: Vec<AgNumber> = self.geometry().groups().collect();
        let mut free = BTreeMap::new();
        for group in groups {
            let length = self.geometry().ag_length(group);
            let own = claims.remove(&group).expect("each group has claims");
            let mut own = self.with_inodes(group, own);
            match reserve::of_group(self, &model, group, &own) {
                Reserve::Blocks(reserved) => {
                    self.blind.remove(&group);
                    own.extend(&reserved);
                    self.reserved.insert(group, reserved);
                }
                Reserve::Unknown => {
                    self.blind.insert(group);
                    if !self.allows_loss {
                        own.push(claims::claim(AgBlock(0), length, RmapOwner::Volume));
                    }
                }
            }
            free.insert(group, claims::gaps(&own, length));
        }
        Ok(free)
    }

    /// Clears the group's mark in `taken_blindly`, and returns whether it was set. The mark says
    /// that blocks were taken although they may belong to an unreadable inode.
    pub(crate) fn take_blind(&mut self, group: AgNumber) -> bool {
        self.taken_blindly.remove(&group)
    }

    /// Adds further claims to `own`, the claims in a group: those of the group's inode btrees, and
    /// those that the reverse map records for inodes.
    fn with_inodes(&mut self, group: AgNumber, mut own: Vec<Rmap>) -> Vec<Rmap> {
        let is_inode = |record: &&Rmap| matches!(record.owner, RmapOwner::Inode(_));
        own.extend(self.reverse_map(group).records.iter().filter(is_inode));
        let trees = self.chunks(group).tree_blocks.clone();
        own.extend(trees.into_iter().map(|block| claims::claim(block, 1, RmapOwner::InodeBtree)));
        own
    }

    /// Changes fields of an inode's core with `edit`, and writes the inode.
    ///
    /// # Errors
    ///
    /// The error of the device.
    ///
    /// # Panics
    ///
    /// Panics if the inode cannot be decoded: the caller must have checked it.
    pub(crate) fn set_inode(
        &mut self,
        inode: InodeNumber,
        edit: impl FnOnce(&mut InodeCore),
    ) -> Result<(), RepairError> {
        let found = self.evidence().inode(inode);
        let mut core = found.any_core().expect("the inode can be decoded").clone();
        edit(&mut core);
        self.write_inode(&core, &found.bytes)
    }

    /// Writes a new inode with empty forks to its place in a chunk, whatever bytes are there.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn make_inode(&mut self, core: &InodeCore) -> Result<(), RepairError> {
        let bytes = vec![0; self.geometry().inode_size as usize];
        self.write_inode(core, &bytes)
    }

    /// Writes an inode with the core `core` and the forks in `bytes`.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn write_inode(
        &mut self,
        core: &InodeCore,
        bytes: &[u8],
    ) -> Result<(), RepairError> {
        let mut core = core.clone();
        core.clamp_times();
        let disk = core.encode(self.geometry()).expect("times are clamped and counts were checked");
        let mut bytes = bytes.to_vec();
        let head = bytes.get_mut(..size_of_val(&disk)).expect("an inode is longer than its core");
        head.copy_from_slice(disk.as_bytes());
        let is_late = self.log_head.is_some_and(|head| core.lsn > head && !core.lsn.is_null());
        inode::seal(&mut bytes, if is_late { self.lsn() } else { core.lsn });
        self.write_raw_inode(core.number, &bytes)
    }

    /// Writes an inode whose bytes already have their checksum.
    ///
    /// # Errors
    ///
    /// The error of the device.
    pub(crate) fn write_raw_inode(
        &mut self,
        number: InodeNumber,
        bytes: &[u8],
    ) -> Result<(), RepairError> {
        let location = self.geometry().inode_location(number);
        let location = location.expect("the inode lies in the volume");
        let offset = u64::from(location.offset_bytes / BASIC_BLOCK_BYTES);
        self.write(DiskAddr(location.cluster.0 + offset), bytes)
    }

    /// Marks a group for a rebuild of its space btrees and headers at the end of the round.
    pub(crate) fn mark_group(&mut self, group: AgNumber) {
        if self.marked.insert(group) {
            self.note_mark(group, false);
        }
    }

    /// Marks the group of an inode for a rebuild of its space btrees and headers.
    pub(crate) fn mark_group_of_inode(&mut self, inode: InodeNumber) {
        if let Some((group, _)) = self.geometry().split_inode(inode) {
            self.mark_group(group);
        }
    }

    /// Marks the group of a block for a rebuild of its space btrees and headers. A block outside of
    /// the volume has no group.
    pub(crate) fn mark_group_of(&mut self, block: FsBlock) {
        if let Some((group, _)) = self.geometry().split_block(block) {
            self.mark_group(group);
        }
    }

    /// Returns the groups that are marked for a rebuild, and clears their marks. The boolean beside
    /// a group says whether the inode btrees of the group must be rebuilt too. Also discards the
    /// list of free blocks, which is computed again when it is needed.
    pub(crate) fn take_marks(&mut self) -> Vec<(AgNumber, bool)> {
        self.free = None;
        let inodes = std::mem::take(&mut self.marked_inodes);
        let marked = std::mem::take(&mut self.marked);
        marked.into_iter().map(|group| (group, inodes.contains(&group))).collect()
    }

    /// Discards the cached chunks of a group and the blocks of its inode btrees, after these btrees
    /// were rebuilt.
    pub(crate) fn forget_chunks(&mut self, group: AgNumber) {
        self.chunks.remove(&group);
    }

    /// Returns the number of actions so far.
    pub(crate) const fn count_actions(&self) -> usize {
        self.actions.len()
    }

    /// Returns the findings about damage that stays, and that a check of the repaired volume does
    /// not report.
    pub(crate) fn withheld(&self) -> &[Finding] {
        &self.withheld
    }

    /// Replaces the findings about damage that stays, and that a check of the repaired volume does
    /// not report. The plan lists them as left.
    pub(crate) fn withhold(&mut self, withheld: Vec<Finding>) {
        self.withheld = withheld;
    }

    /// Returns all actions, in order.
    pub(crate) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// Adds an action to the plan.
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}

/// Takes `count` blocks from `runs` (ranges of free blocks), or all blocks of `runs` if there are
/// fewer. Takes them from one run if one is long enough, and otherwise from the first runs.
fn take_of(runs: &mut Vec<(u32, u32)>, count: u32) -> Vec<u32> {
    let mut taken = Vec::new();
    if let Some((start, _)) = runs.iter_mut().find(|(start, end)| end - start >= count) {
        taken.extend(*start..*start + count);
        *start += count;
    } else {
        for (start, end) in runs.iter_mut() {
            let missing = count - u32::try_from(taken.len()).expect("at most `count` are taken");
            let part = missing.min(*end - *start);
            taken.extend(*start..*start + part);
            *start += part;
        }
    }
    runs.retain(|(start, end)| start < end);
    taken
}
