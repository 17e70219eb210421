//! Inodes as old records of the log have them.
//!
//! Owns: reading every whole record that is left in the log, in whatever cycle it was written, and
//! the last state in which an inode still had a name. Does **not** own: the replay of the log.
//!
//! A log is a ring. After an unmount its records are of no use to the volume, but they stay until
//! the ring comes round. They hold the inodes of files that were made or changed lately.

use std::collections::BTreeMap;

use xfs_device::SharedDevice;
use xfs_evidence::Evidence;
use xfs_format::inode::{CORE_BYTES, FORK_OFFSET_BYTES, InodeCore, seal};
use xfs_format::log_item::{InodeItem, LogItem, LoggedFields, core_to_disk};
use xfs_format::{InodeNumber, Lsn};
use xfs_log::{LogDevice, LogEntry, LogReader, LogState, Transaction};

/// The most inodes that are kept: some 700 bytes each.
const MOST_INODES: usize = 1 << 19;

/// A part of an inode, and the LSN with which it was logged.
type LoggedPart = Option<(Lsn, Vec<u8>)>;

/// An inode as the log has it: its core in disk form, and the regions of its forks.
#[derive(Default)]
struct Logged {
    core: LoggedPart,
    data: LoggedPart,
    attr: LoggedPart,
}

/// Returns the inodes for which `wanted` holds, in the last state of the log in which they had a
/// name. Each has its disk form, with a right checksum.
///
/// Damaged records are passed over. Forks that were logged as roots of btrees are left out.
pub(crate) fn inodes(
    evidence: &Evidence<'_>,
    log: SharedDevice,
    wanted: impl Fn(InodeNumber) -> bool,
) -> BTreeMap<InodeNumber, Vec<u8>> {
    let Ok(log) = LogDevice::new(log, evidence.superblock()) else { return BTreeMap::new() };
    let mut found: BTreeMap<InodeNumber, Logged> = BTreeMap::new();
    let mut block = 0;
    while block < log.length_blocks() {
        let Ok(header) = log.read_header(block) else {
            block += 1;
            continue;
        };
        let state = LogState {
            head: Lsn::new(header.lsn.cycle(), log.length_blocks()),
            tail: Lsn::new(header.lsn.cycle(), block),
            clean: false,
            last_record: block,
            buffer_bytes: header.size,
            torn: None,
            is_blank: false,
        };
        let mut reader = LogReader::new(&log, &state);
        let mut end = block;
        // The first error ends the run of records. The search goes on after it.
        while let Ok(Some(entry)) = reader.next_entry() {
            match entry {
                LogEntry::Record(header) => end = end.saturating_add(header.total_blocks()),
                LogEntry::Transaction(transaction) => {
                    take(evidence, &transaction, &wanted, &mut found);
                }
            }
        }
        block = end.max(block + 1);
    }
    let built = found.into_iter().filter_map(|(number, logged)| {
        build(evidence, number, &logged).map(|bytes| (number, bytes))
    });
    built.collect()
}

/// Takes the inodes of one transaction.
fn take(
    evidence: &Evidence<'_>,
    transaction: &Transaction,
    wanted: &impl Fn(InodeNumber) -> bool,
    found: &mut BTreeMap<InodeNumber, Logged>,
) {
    let (lsn, order) = (transaction.lsn(), transaction.order());
    let Ok(items) = transaction.items() else { return };
    for item in items.map_while(Result::ok) {
        let LogItem::Inode(item) = item else { continue };
        let number = item.format.inode;
        let is_known = found.contains_key(&number);
        let is_inside = evidence.geometry().split_inode(number).is_some();
        if !is_inside || !wanted(number) || (!is_known && found.len() >= MOST_INODES) {
            continue;
        }
        let Some(core) = item.core.first_chunk::<CORE_BYTES>() else { continue };
        let core = core_to_disk(core, order);
        if is_named(evidence, number, &core) {
            note(found.entry(number).or_default(), &item, lsn, &core);
        }
    }
}

/// Returns whether a core is that of a file that has a name.
fn is_named(evidence: &Evidence<'_>, number: InodeNumber, core: &[u8]) -> bool {
    let mut bytes = core.to_vec();
    bytes.resize(evidence.geometry().inode_size as usize, 0);
    InodeCore::decode(&bytes, number, evidence.geometry())
        .is_ok_and(|core| core.mode != 0 && core.nlink != 0)
}

fn note(logged: &mut Logged, item: &InodeItem<'_>, lsn: Lsn, core: &[u8]) {
    let is_newer = |old: &LoggedPart| old.as_ref().is_none_or(|(old, _)| *old <= lsn);
    let fields = item.format.fields;
    if is_newer(&logged.core) {
        logged.core = Some((lsn, core.to_vec()));
    }
    let is_plain = !fields.contains(LoggedFields::DATA_ROOT);
    if let Some(data) = item.data.filter(|_| is_plain && is_newer(&logged.data)) {
        logged.data = Some((lsn, data.to_vec()));
    }
    let is_plain = !fields.contains(LoggedFields::ATTR_ROOT);
    if let Some(attr) = item.attr.filter(|_| is_plain && is_newer(&logged.attr)) {
        logged.attr = Some((lsn, attr.to_vec()));
    }
}

/// Builds the disk form of an inode from its parts. Returns `None` if the core was never logged, or
/// if a fork does not fit.
fn build(evidence: &Evidence<'_>, number: InodeNumber, logged: &Logged) -> Option<Vec<u8>> {
    let (lsn, core) = logged.core.as_ref()?;
    let mut bytes = core.clone();
    bytes.resize(evidence.geometry().inode_size as usize, 0);
    let decoded = InodeCore::decode(&bytes, number, evidence.geometry()).ok()?;
    let middle = usize::from(decoded.fork_offset) * FORK_OFFSET_BYTES;
    let mut put = |start: usize, region: &[u8]| {
        let room = bytes.get_mut(CORE_BYTES + start..)?.get_mut(..region.len())?;
        room.copy_from_slice(region);
        Some(())
    };
    if let Some((_, data)) = &logged.data {
        put(0, data)?;
    }
    if let Some((_, attr)) = logged.attr.as_ref().filter(|_| decoded.has_attr_fork()) {
        put(middle, attr)?;
    }
    seal(&mut bytes, *lsn);
    Some(bytes)
}
