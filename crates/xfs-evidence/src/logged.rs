//! The states of inodes in old records of the log.
//!
//! Owns: the last logged state in which an inode had a name (a link count above 0), and the
//! decision whether that is the newest state of the inode. Does **not** own: reading the records
//! (`log_runs.rs`), or the replay of the log.
//!
//! # Why a state is the newest one
//!
//! Each change of an inode logs its whole core, and the parts of its forks that changed. Records
//! are overwritten in the order in which they were written. Assume that all records from the one
//! with a state up to the head of the log can be read, and that no later record has the inode. Then
//! that state has the newest core of the inode. This does not hold for programs that change a
//! volume without its log, such as `xfs_repair` and `xfs_db`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use xfs_device::SharedDevice;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore, InodeDisk, seal};
use xfs_format::log_item::{InodeItem, LoggedFields, LoggedItem};
use xfs_format::{AgInode, FormatVersion, InodeNumber, Lsn};
use xfs_log::{LogDevice, LogEntry, LoggedTransaction, apply_inode_item};
use zerocopy::FromBytes;

use crate::log_runs::read_runs;
use crate::volume::Evidence;

/// The largest number of inodes that are kept. Each takes some 700 bytes.
const MOST_INODES: usize = 1 << 19;

/// The last logged state of an inode in which the inode had a name (a link count above 0).
#[derive(Clone, Debug)]
pub struct LoggedInode {
    /// The inode in its disk form, with a right checksum. A fork that the log does not have is all
    /// zeros.
    pub bytes: Vec<u8>,
    /// Whether the log has the data fork: its contents, its extents, the root of its btree, or the
    /// device number.
    pub has_data: bool,
    /// Whether the log has the attribute fork.
    pub has_attr: bool,
    /// Whether this is the newest state of the inode.
    pub is_newest: bool,
}

/// The states of one inode, applied in the order of the log.
struct Replay {
    /// The bytes of the inode in its last state with a name. The checksum in them is not updated.
    /// Empty if the log has no such state.
    bytes: Vec<u8>,
    generation: u32,
    named: Lsn,
    /// The LSN of the newest state, in which the inode may have no name.
    newest: Lsn,
    has_data: bool,
    has_attr: bool,
}

impl Evidence<'_> {
    /// Returns the inodes for whose number `wanted` returns `true`. Each inode is returned in the
    /// last logged state in which it had a name. Inodes without such a state are left out.
    ///
    /// Skips damaged records. Returns no inodes for a volume of version 4. `log` is the device of
    /// the log, which is the data device of a volume with an internal log.
    ///
    /// Calls `poll` after each record and each transaction. If `poll` breaks, no inodes are
    /// returned.
    #[must_use]
    pub fn logged_inodes(
        &self,
        log: SharedDevice,
        wanted: impl Fn(InodeNumber) -> bool,
        mut poll: impl FnMut() -> ControlFlow<()>,
    ) -> BTreeMap<InodeNumber, LoggedInode> {
        // Inodes of version 4 have no checksum that would prove them.
        if self.geometry().version != FormatVersion::V5 {
            return BTreeMap::new();
        }
        let Ok(log) = LogDevice::new(log, self.superblock()) else { return BTreeMap::new() };
        let mut found = BTreeMap::new();
        // The LSN of the newest transaction with an item that cannot be read. It may hold a newer
        // state of any inode.
        let mut damaged: Option<Lsn> = None;
        let mut is_stopped = false;
        let unbroken = read_runs(&log, |entry| {
            if let LogEntry::Transaction(transaction) = entry
                && !self.take_inodes(transaction, &wanted, &mut found)
            {
                damaged = damaged.max(Some(transaction.lsn()));
            }
            let polled = poll();
            is_stopped = polled.is_break();
            polled
        });
        if is_stopped {
            return BTreeMap::new();
        }
        let unbroken = unbroken.map(|unbroken| unbroken.start);
        let logged = found.into_iter().filter(|(_, replay)| !replay.bytes.is_empty());
        logged
            .map(|(number, mut replay)| {
                let is_unbroken = unbroken.is_some_and(|start| replay.named >= start)
                    && damaged.is_none_or(|damaged| damaged < replay.named);
                seal(&mut replay.bytes, replay.named);
                let inode = LoggedInode {
                    is_newest: is_unbroken && replay.named == replay.newest,
                    bytes: replay.bytes,
                    has_data: replay.has_data,
                    has_attr: replay.has_attr,
                };
                (number, inode)
            })
            .collect()
    }

    /// Applies the inode items of one transaction to the states in `found`. Ignores an item if
    /// `wanted` returns `false` for its inode number. Returns `false` if an item cannot be read:
    /// then this item and all later ones of the transaction are skipped.
    fn take_inodes(
        &self,
        transaction: &LoggedTransaction,
        wanted: &impl Fn(InodeNumber) -> bool,
        found: &mut BTreeMap<InodeNumber, Replay>,
    ) -> bool {
        let Ok(items) = transaction.items() else { return false };
        for item in items {
            let Ok(item) = item else { return false };
            let LoggedItem::Inode(item) = item else { continue };
            let number = item.format.inode;
            let is_known = found.contains_key(&number);
            let is_inside = self.geometry().split_inode(number).is_some();
            if is_inside && wanted(number) && (is_known || found.len() < MOST_INODES) {
                let replay = found.entry(number).or_insert_with(Replay::new);
                replay.apply(self, transaction, &item);
            }
        }
        true
    }
}

impl Replay {
    const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            generation: 0,
            named: Lsn(0),
            newest: Lsn(0),
            has_data: false,
            has_attr: false,
        }
    }

    /// Applies an inode item of the next transaction in the log. The new state is kept only if, in
    /// that state, the inode is in use and has a name.
    fn apply(
        &mut self,
        evidence: &Evidence<'_>,
        transaction: &LoggedTransaction,
        item: &InodeItem<'_>,
    ) {
        let (lsn, order) = (transaction.lsn(), transaction.order());
        if lsn < self.newest {
            return;
        }
        self.newest = lsn;
        let mut bytes = self.bytes.clone();
        bytes.resize(evidence.geometry().inode_size as usize, 0);
        if apply_inode_item(item, order, &mut bytes).is_err() {
            return;
        }
        let Ok(core) = InodeCore::decode(&bytes, item.format.inode, evidence.geometry()) else {
            return;
        };
        if core.mode == 0 || core.nlink == 0 {
            return;
        }
        if core.generation != self.generation {
            // The inode belongs to another file now: no fork of the file before may stay.
            let mut own = vec![0; bytes.len()];
            if apply_inode_item(item, order, &mut own).is_err() {
                return;
            }
            bytes = own;
            (self.has_data, self.has_attr) = (false, false);
        }
        // An inode item has no link of an unlinked list. An inode with a name is on no such list.
        let (disk, _) = InodeDisk::mut_from_prefix(&mut bytes)
            .map_err(|_| ())
            .expect("an inode is as long as the superblock says");
        disk.next_unlinked = AgInode::NULL.0.into();
        let fields = item.format.fields;
        let is_of_device =
            matches!(core.file_type(), Some(FileType::CharDevice | FileType::BlockDevice));
        let data = if is_of_device { LoggedFields::DEVICE } else { LoggedFields::DATA };
        self.has_data |= fields.intersects(data);
        self.has_attr |= fields.intersects(LoggedFields::ATTR);
        (self.bytes, self.generation, self.named) = (bytes, core.generation, lsn);
    }
}

impl LoggedInode {
    /// Returns whether the whole fork is known: the log has it, or it is empty according to `core`.
    #[must_use]
    pub fn has_fork(&self, core: &InodeCore, kind: ForkKind) -> bool {
        let Some(format) = core.fork_format(kind) else { return true };
        let is_logged = if kind == ForkKind::Data { self.has_data } else { self.has_attr };
        let is_pipe = matches!(core.file_type(), Some(FileType::Fifo | FileType::Socket));
        let is_empty = format == ForkFormat::Extents && core.fork_extents(kind) == 0;
        is_logged || is_empty || (format == ForkFormat::Device && is_pipe)
    }
}
