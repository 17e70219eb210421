//! The states in which a power cut may leave a volume, given the states of a history and the
//! promises of each sync.
//!
//! Owns: judging a recovered volume. Does **not** own: devices, power cuts, recovery.
//!
//! # Rules
//!
//! One thread performed a history on a device that recorded its requests. The power failed after
//! some number of requests. The recovered volume must have:
//!
//! - **I1** Names, links, modes, owners, flags and attributes as after one operation of the
//!   history, the same operation for all of them. No operation is half done, and no operation is
//!   present without all earlier ones.
//! - **I2** A state that is not older than the promise of any sync that returned before the power
//!   cut. The state is not newer than the operations that had begun before the power cut.
//! - **I3** For each file, a size that the file had since the last sync that covered the file. Each
//!   sector has the contents that it had in some state since that sync. No byte of another file,
//!   and no byte from before the sync.
//!
//! Contents may be older than names, because unsynced data is written at any time. Operations that
//! move contents (collapse, insert, exchange) take several transactions, so a sector may be at any
//! offset of its file after a power cut.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::compare::Differences;
use crate::digest::SECTOR_BYTES;
use crate::model::{AllocationMode, Answer, Bytes, Durable, Model, NodeId, Operation};
use crate::view::Tree;

/// A history with the state of the model after each operation.
#[derive(Debug)]
pub struct CrashHistory {
    /// The states of the model: one before all operations, and one after each operation.
    states: Vec<HistoryState>,
    promises: Vec<SyncPromise>,
    /// Number of operations that the model had performed before the history, to reach the first
    /// state.
    earlier: u64,
}

#[derive(Debug)]
struct HistoryState {
    model: Model,
    /// Number of requests that the device had recorded at the start of the operation that led to
    /// this state.
    began: usize,
    /// The files whose contents were moved to other offsets or other files by the operation that
    /// led to this state.
    moved: Vec<NodeId>,
}

#[derive(Debug)]
struct SyncPromise {
    /// Number of requests that the device had recorded when the sync returned.
    position: usize,
    /// Index of the oldest state whose names the volume may show after a later power cut.
    names: usize,
    /// Index of the oldest state whose contents the file `file` may have after a later power cut.
    /// If `file` is `None`, the index is for all files.
    contents: usize,
    file: Option<NodeId>,
}

impl CrashHistory {
    /// Creates a history that starts with this state.
    pub fn new(model: Model) -> Self {
        let earlier = model.performed();
        let states = vec![HistoryState { model, began: 0, moved: Vec::new() }];
        Self { states, promises: Vec::new(), earlier }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the last operation that changed names and was made durable by a sync. Returns the
    /// number of requests that the device had recorded when that operation began, or `None` if
    /// there is no such operation.
    pub fn before_promised_change(&self) -> Option<usize> {
        let promised = self.promises.iter().map(|promise| promise.names).max()?;
        let names = self.states.get(promised)?.model.paths();
        let before = self.states.iter().take(promised).rposition(|s| s.model.paths() != names)?;
        self.states.get(before + 1).map(|state| state.began)
    }

    /// Returns whether a device that has recorded `position` requests may show the names of state
    /// number `state`. It may if some operation that had begun by then leads to a state with the
    /// same names.
    pub fn may_show(&self, state: usize, position: usize) -> bool {
        let Some(shown) = self.states.get(state) else { return false };
        let begun = self.states.iter().filter(|state| state.began <= position);
        let mut begun = begun.map(|state| state.model.paths());
        begun.any(|paths| paths == shown.model.paths())
    }

    /// Adds an operation, with the state after it. `positions` starts at the number of requests
    /// that the device had recorded when the operation began. It ends at the number that the device
    /// had recorded when the operation returned.
    pub fn note(
        &mut self,
        operation: &Operation,
        answer: &Answer,
        model: &Model,
        positions: Range<usize>,
    ) {
        let Range { start: began, end: returned } = positions;
        if answer.is_ok() {
            self.note_attempt(operation, model, began);
        } else {
            self.states.push(HistoryState { model: model.clone(), began, moved: Vec::new() });
        }
        if let (Operation::Sync(durable), Ok(_)) = (operation, answer) {
            self.promise(durable, model, returned);
        }
    }

    /// Adds an operation that promises nothing, with the state that it leads to if it was
    /// performed. After a failure of the device it is not known whether the operation was
    /// performed. The device had recorded `began` requests when the operation began.
    pub fn note_attempt(&mut self, operation: &Operation, model: &Model, began: usize) {
        let moved = moved(operation, model);
        self.states.push(HistoryState { model: model.clone(), began, moved });
    }

    fn promise(&mut self, durable: &Durable, model: &Model, position: usize) {
        let contents = self.len();
        let last_change = |id| {
            let changed_by = model.node(id).map_or(0, |node| node.changed_by);
            changed_by.saturating_sub(self.earlier) as usize
        };
        let promise = match durable {
            Durable::Volume => SyncPromise { position, names: contents, contents, file: None },
            Durable::File(target) | Durable::Contents(target) => {
                let Ok(id) = model.file(target) else { return };
                // fdatasync covers only contents: the name of its file may still be lost.
                let is_data = matches!(durable, Durable::Contents(_));
                let names = if is_data { 0 } else { last_change(id) };
                SyncPromise { position, names, contents, file: Some(id) }
            }
            Durable::Directory(path) => {
                let Some(id) = model.paths().get(path).copied() else { return };
                SyncPromise { position, names: last_change(id), contents: 0, file: Some(id) }
            }
        };
        self.promises.push(promise);
    }

    /// Judges a volume that was recovered after a power cut. The device had recorded `position`
    /// requests at the cut. `contents` reads a whole file of the recovered volume. Returns the
    /// index of the volume's state.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn judge(
        &self,
        tree: &Tree,
        position: usize,
        mut contents: impl FnMut(&str) -> Result<Bytes, String>,
    ) -> Result<usize, String> {
        let kept = || self.promises.iter().filter(|promise| promise.position <= position);
        let floor = kept().map(|promise| promise.names).max().unwrap_or(0);
        let begun = self.states.iter().rposition(|state| state.began <= position).unwrap_or(0);
        // At another time the same names may have referred to other files.
        let mut contradiction = None;
        for names in self.names(tree, floor, begun)? {
            match self.judge_contents(names, begun, kept, &mut contents) {
                Ok(()) => return Ok(names),
                Err(what) => contradiction = contradiction.or(Some(what)),
            }
        }
        Err(contradiction.unwrap_or_default())
    }

    /// Judges the contents of all files that have a name in the state with the number `names`.
    /// `begun` is the number of the newest possible state, and `kept` returns an iterator over the
    /// promises of the syncs that returned before the power cut.
    fn judge_contents<'a, P: Iterator<Item = &'a SyncPromise>>(
        &self,
        names: usize,
        begun: usize,
        kept: impl Fn() -> P,
        contents: &mut impl FnMut(&str) -> Result<Bytes, String>,
    ) -> Result<(), String> {
        let Some(state) = self.states.get(names) else { return Ok(()) };
        for (path, id) in state.model.paths() {
            if state.model.node(id).is_ok_and(|node| node.contents().is_some()) {
                let covers = |promise: &&SyncPromise| promise.file.is_none_or(|file| file == id);
                let since = kept().filter(covers).map(|promise| promise.contents).max();
                let found = contents(&path)?;
                self.check_contents(id, &found, since.unwrap_or(0), begun).map_err(|what| {
                    let since = since.unwrap_or(0);
                    format!("/{path}, names of {names}, contents of {since} to {begun}: {what}")
                })?;
            }
        }
        Ok(())
    }

    /// Returns the states whose names are those of `tree`, as indexes, the latest first. Only
    /// states with indexes from `floor` to `begun` are compared. If adjacent states have the same
    /// names for the same files, only one of them is returned.
    fn names(&self, tree: &Tree, floor: usize, begun: usize) -> Result<Vec<usize>, String> {
        let states = self.states.iter().enumerate().take(begun + 1).skip(floor);
        let matches = |model: &Model| model.differences_of_names(tree).into_result();
        let found = states.rev().filter(|(_, state)| matches(&state.model).is_ok());
        let mut found: Vec<_> = found.map(|(index, state)| (index, state.model.paths())).collect();
        found.dedup_by(|(_, older), (_, newer)| older == newer);
        if !found.is_empty() {
            return Ok(found.into_iter().map(|(index, _)| index).collect());
        }
        let older = self.states.iter().take(floor).rposition(|s| matches(&s.model).is_ok());
        if let Some(older) = older {
            return Err(format!("found state {older}, but state {floor} was promised"));
        }
        let closest = self.states.iter().take(begun + 1).skip(floor).map(|state| {
            let differences = state.model.differences_of_names(tree);
            (differences.count(), differences)
        });
        let (_, closest) =
            closest.min_by_key(|(count, _)| *count).unwrap_or_else(|| (0, Differences::default()));
        let report = closest.into_result().err().unwrap_or_default();
        Err(format!("found no state from {floor} to {begun}; the closest has {report}"))
    }

    /// Checks the size and the sectors of a file against its states in the history (I3): from state
    /// number `since`, at its last sync, to state number `begun`.
    fn check_contents(
        &self,
        id: NodeId,
        found: &Bytes,
        since: usize,
        begun: usize,
    ) -> Result<(), String> {
        let states = || self.states.iter().take(begun + 1).skip(since);
        let had =
            |state: &'_ HistoryState| state.model.node(id).ok().and_then(|n| n.contents().cloned());
        let versions: Vec<Bytes> = states().filter_map(had).collect();
        let sizes = || versions.iter().map(Bytes::size);
        // Before its creation a file has no contents, so a new file may have only its name.
        let least = if versions.len() <= begun - since { 0 } else { sizes().min().unwrap_or(0) };
        let most = sizes().max().unwrap_or(0);
        if !(least..=most).contains(&found.size()) {
            return Err(format!("{} bytes, expected {least} to {most}", found.size()));
        }
        let moved = states().skip(1).any(|state| state.moved.contains(&id));
        let anywhere: HashSet<&[u8]> = match moved {
            true => versions.iter().flat_map(|v| v.sectors().map(|(_, sector)| sector)).collect(),
            false => HashSet::new(),
        };
        let known =
            SectorHistory { versions: &versions, anywhere, may_be_empty: moved || least == 0 };
        known.check(found)
    }
}

/// The contents that the sectors of a file may have.
struct SectorHistory<'a> {
    versions: &'a [Bytes],
    anywhere: HashSet<&'a [u8]>,
    may_be_empty: bool,
}

impl SectorHistory<'_> {
    fn check(&self, found: &Bytes) -> Result<(), String> {
        let held: BTreeMap<u64, &[u8]> = found.sectors().collect();
        let expected = self.versions.iter().flat_map(|version| version.sectors());
        let offsets = expected.map(|(offset, _)| offset).chain(held.keys().copied());
        let offsets: std::collections::BTreeSet<u64> = offsets.collect();
        for offset in offsets.into_iter().filter(|offset| *offset < found.size()) {
            let sector = found.read(offset, SECTOR_BYTES as u64);
            let is_empty = sector.iter().all(|byte| *byte == 0);
            let is_known = is_empty && self.may_be_empty
                || self.anywhere.iter().any(|known| known.starts_with(&sector))
                || self.versions.iter().any(|version| holds(version, offset, &sector));
            if !is_known {
                let what = if is_empty { "is empty" } else { "has contents that it never had" };
                let head = sector.get(..16).unwrap_or(&sector);
                return Err(format!("the sector at {offset} {what}: {head:x?}"));
            }
        }
        Ok(())
    }
}

/// Returns whether this version of a file has the bytes `sector` at `offset`. The version reads as
/// zeros past its end.
fn holds(version: &Bytes, offset: u64, sector: &[u8]) -> bool {
    let mut bytes = version.read(offset, sector.len() as u64);
    bytes.resize(sector.len(), 0);
    bytes == sector
}

/// Returns the files whose contents the operation has moved to other offsets or other files.
fn moved(operation: &Operation, model: &Model) -> Vec<NodeId> {
    let targets = match operation {
        Operation::Allocate {
            file,
            mode: AllocationMode::Collapse | AllocationMode::Insert,
            ..
        } => {
            vec![file]
        }
        Operation::Exchange(ranges) => vec![&ranges.from, &ranges.to],
        _ => Vec::new(),
    };
    targets.into_iter().filter_map(|target| model.file(target).ok()).collect()
}

#[cfg(test)]
mod tests;
