//! Tests of the replay of dquots, onto a block that the tests put into the golden image.

use xfs_device::Durability;
use xfs_format::dquot::{
    DQUOT_BLOCK_BYTES, DQUOT_MAGIC, DquotCheck, DquotDisk, QuotaFlags, dquot_at, seal_block,
};
use xfs_format::log_item::{
    BufferFormat, BufferRegion, BufferType, DquotFormat, DquotItem, LogItemCheck, LoggedBuffer,
    LoggedItem, QuotaOff,
};
use xfs_format::superblock::{self, SuperblockDisk};
use xfs_format::{Check, DiskAddr, FsBlock, Lsn};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{Bench, read};

/// The ID of the dquot that the tests change. It is the third dquot of its block.
const INDEX: u32 = 2;
/// The quota flags in the superblock of the test volume: users and projects are accounted and
/// checked.
const FLAGS: QuotaFlags = QuotaFlags::USER_ACCOUNTED
    .union(QuotaFlags::USER_CHECKED)
    .union(QuotaFlags::PROJECT_ACCOUNTED)
    .union(QuotaFlags::PROJECT_CHECKED);

/// A volume with a block of user dquots, and a log that the tests write.
struct QuotaBench {
    bench: Bench,
    /// The address of the block of dquots. The volume's own log lies there, which the tests do not
    /// use.
    at: DiskAddr,
}

impl QuotaBench {
    fn new() -> Self {
        let bench = Bench::new();
        let mut sector = read(&*bench.data, 0, 512);
        let (disk, _) = SuperblockDisk::mut_from_prefix(&mut sector).unwrap();
        let log = FsBlock(disk.log_start.get());
        disk.quota_flags = FLAGS.bits().into();
        superblock::seal(&mut sector);
        bench.data.write_at(&sector, 0, Durability::Cached).unwrap();
        let at = bench.superblock.geometry.block_disk_addr(log).unwrap();
        let quota = Self { bench, at };
        quota.store(&quota.block());
        quota
    }

    /// Returns a block of user dquots from ID 0 on, as the kernel makes it.
    fn block(&self) -> Vec<u8> {
        let geometry = &self.bench.superblock.geometry;
        let mut block = vec![0; geometry.block_size as usize];
        for (slot, id) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(0_u32..) {
            let mut dquot = DquotDisk::new_zeroed();
            dquot.magic = DQUOT_MAGIC.into();
            (dquot.version, dquot.kind) = (1, 1);
            dquot.id = id.into();
            dquot.uuid = *geometry.meta_uuid.as_bytes();
            slot.copy_from_slice(dquot.as_bytes());
        }
        seal_block(&mut block);
        block
    }

    fn store(&self, block: &[u8]) {
        let offset = self.at.byte_offset().unwrap();
        self.bench.data.write_at(block, offset, Durability::Cached).unwrap();
    }

    /// Returns the dquot with this ID as the test volume has it, but with `blocks` as its number of
    /// used blocks.
    fn dquot(&self, id: u32, blocks: u64) -> DquotDisk {
        let mut dquot = *dquot_at(&self.block(), id).unwrap();
        dquot.blocks = blocks.into();
        dquot
    }

    fn format(&self, id: u32) -> DquotFormat {
        let offset_bytes = id * DQUOT_BLOCK_BYTES as u32;
        DquotFormat { id, at: self.at, blocks: 1, offset_bytes }
    }

    /// Appends to the log a transaction that logs `dquot`.
    fn append(&mut self, format: DquotFormat, dquot: &DquotDisk) -> Lsn {
        let dquot = dquot.as_bytes().first_chunk().unwrap();
        let item = LoggedItem::Dquot(DquotItem { format, dquot });
        self.bench.log.append_transaction(1, &[item])
    }

    /// Appends a transaction that logs the dquot [`INDEX`] with `blocks` as its number of used
    /// blocks.
    fn append_count(&mut self, blocks: u64) -> Lsn {
        self.append(self.format(INDEX), &self.dquot(INDEX, blocks))
    }

    /// Replays the log. Returns the number of used blocks in the dquot [`INDEX`], and the state of
    /// quota.
    fn replay(&self) -> (u64, QuotaFlags) {
        let replayed = self.bench.replay().unwrap();
        let block = read(&*replayed.device(), self.at.byte_offset().unwrap(), self.block().len());
        let flags = QuotaFlags::from_bits_retain(replayed.superblock().quota_flags);
        (dquot_at(&block, INDEX).unwrap().blocks.get(), flags)
    }

    /// Changes the dquot [`INDEX`], and stores its block on disk with correct checksums.
    fn store_changed(&self, change: impl FnOnce(&mut DquotDisk)) {
        let mut block = self.block();
        let slot = block.chunks_exact_mut(DQUOT_BLOCK_BYTES).nth(INDEX as usize).unwrap();
        change(DquotDisk::mut_from_bytes(slot).unwrap());
        seal_block(&mut block);
        self.store(&block);
    }
}

#[test]
fn dquot_gets_its_last_logged_change() {
    let mut quota = QuotaBench::new();
    quota.append_count(7);
    quota.append_count(8);
    assert_eq!(quota.replay(), (8, FLAGS));
}

#[test]
fn newer_dquot_is_skipped() {
    let mut quota = QuotaBench::new();
    let lsn = quota.append_count(7);
    quota.append_count(8);
    quota.store_changed(|dquot| (dquot.lsn, dquot.blocks) = (lsn.0.into(), 5.into()));
    assert_eq!(quota.replay(), (8, FLAGS), "the second change is newer");
    let mut quota = QuotaBench::new();
    let lsn = quota.append_count(7);
    quota.store_changed(|dquot| (dquot.lsn, dquot.blocks) = (lsn.0.into(), 5.into()));
    assert_eq!(quota.replay(), (5, FLAGS));
}

#[test]
fn end_of_accounting_skips_dquots_of_its_type_in_the_whole_log() {
    for (flags, expected) in [(1, 0), (8 | 0x40, 7)] {
        let mut quota = QuotaBench::new();
        quota.append_count(7);
        quota.bench.log.append_transaction(1, &[LoggedItem::QuotaOff(QuotaOff { flags })]);
        assert_eq!(quota.replay(), (expected, FLAGS), "{flags:#x}");
    }
}

/// Damages the block of dquots on disk in several ways. Checks that recovery succeeds, does not
/// write the block, and marks the counts of users as not checked.
#[test]
fn damaged_block_is_left_alone_and_its_type_is_counted_again() {
    let check = |damage: &dyn Fn(&QuotaBench)| {
        let mut quota = QuotaBench::new();
        damage(&quota);
        quota.append_count(7);
        let (blocks, flags) = quota.replay();
        assert_ne!(blocks, 7);
        assert_eq!(flags, FLAGS.difference(QuotaFlags::USER_CHECKED));
    };
    check(&|quota| quota.store(&vec![0; quota.block().len()]));
    check(&|quota| quota.store_changed(|dquot| dquot.id = 9.into()));
    check(&|quota| quota.store_changed(|dquot| dquot.lsn = Lsn::new(1000, 0).0.into()));
    check(&|quota| {
        let mut block = quota.block();
        block.iter_mut().skip(3).step_by(DQUOT_BLOCK_BYTES).for_each(|kind| *kind = 4);
        seal_block(&mut block);
        quota.store(&block);
    });
    // Another dquot of the block belongs to no owner of this place.
    check(&|quota| {
        let mut block = quota.block();
        block[DQUOT_BLOCK_BYTES + 7] ^= 1;
        quota.store(&block);
    });
}

/// Leaves dquots on disk as a torn write does: the LSN is new, the other fields are old, and so the
/// checksum is wrong. Checks that the items of the log repair these dquots, and that the other
/// dquots of the block keep their limits. Checks also that the flag for checked counts stays in the
/// superblock only if the log repairs every damaged dquot of the block.
#[test]
fn torn_dquot_is_repaired_by_its_items() {
    let torn = |indices: &[u32]| {
        let mut quota = QuotaBench::new();
        quota.append_count(7);
        let last = quota.append_count(8);
        let mut block = quota.block();
        for (slot, limit) in block.chunks_exact_mut(DQUOT_BLOCK_BYTES).zip(1_u64..) {
            DquotDisk::mut_from_bytes(slot).unwrap().block_hard_limit = limit.into();
        }
        seal_block(&mut block);
        for index in indices {
            let slot = block.chunks_exact_mut(DQUOT_BLOCK_BYTES).nth(*index as usize).unwrap();
            DquotDisk::mut_from_bytes(slot).unwrap().lsn = last.0.into();
        }
        quota.store(&block);
        let replayed = quota.bench.replay().unwrap();
        let block = read(&*replayed.device(), quota.at.byte_offset().unwrap(), block.len());
        assert_eq!(dquot_at(&block, INDEX + 3).unwrap().block_hard_limit.get(), 6);
        quota.replay()
    };
    assert_eq!(torn(&[INDEX]), (8, FLAGS));
    let not_checked = FLAGS.difference(QuotaFlags::USER_CHECKED);
    assert_eq!(torn(&[INDEX, INDEX + 1]), (8, not_checked), "no item repairs the other dquot");
    assert_eq!(torn(&[INDEX + 1]), (8, not_checked));
}

/// Logs a whole block of dquots as a buffer, and a change of one of its dquots, while the block on
/// disk holds zeros. Checks that the replayed block contains the changed dquot.
#[test]
fn new_block_of_dquots_is_replayed_before_its_dquots() {
    let mut quota = QuotaBench::new();
    quota.store(&vec![0; quota.block().len()]);
    let block = quota.block();
    let item = |bytes| {
        let pieces = vec![BufferRegion { offset_bytes: 0, bytes }];
        let blocks = (block.len() / 512) as u16;
        let mut bitmap = vec![0; (block.len() / 128).div_ceil(32)];
        for bit in 0..block.len() / 128 {
            bitmap[bit / 32] |= 1 << (bit % 32);
        }
        let flags = BufferType::UserDquot.flags();
        let format = BufferFormat { regions: 2, flags, at: quota.at, blocks, bitmap };
        LoggedItem::Buffer(LoggedBuffer { format, pieces })
    };
    let dquot = quota.dquot(INDEX, 7);
    let fields = dquot.as_bytes().first_chunk().unwrap();
    let change = LoggedItem::Dquot(DquotItem { format: quota.format(INDEX), dquot: fields });
    quota.bench.log.append_transaction(1, &[change, item(&block)]);
    assert_eq!(quota.replay(), (7, FLAGS));
    // A block of another type than its item says is not written.
    let mut other = block.clone();
    other.iter_mut().skip(3).step_by(DQUOT_BLOCK_BYTES).for_each(|kind| *kind = 4);
    seal_block(&mut other);
    let mut damaged = QuotaBench::new();
    damaged.bench.log.append_transaction(1, &[item(&other)]);
    assert_eq!(damaged.replay(), (0, FLAGS.difference(QuotaFlags::USER_CHECKED)));
}

/// Logs a dquot item with one wrong field, for several fields in turn. Checks that recovery refuses
/// each item as damaged.
#[test]
fn damaged_dquot_item_is_refused() {
    let check = |change: &dyn Fn(&mut DquotFormat, &mut DquotDisk)| {
        let mut quota = QuotaBench::new();
        let (mut format, mut dquot) = (quota.format(INDEX), quota.dquot(INDEX, 7));
        change(&mut format, &mut dquot);
        quota.append(format, &dquot);
        quota.bench.check()
    };
    let magic = check(&|_, dquot| dquot.magic = 0.into());
    assert!(matches!(magic, Check::Magic { .. }), "{magic}");
    let kind = DquotCheck::Kind { id: INDEX, kind: 3 };
    assert_eq!(check(&|_, dquot| dquot.kind = 3), kind.into());
    let id = DquotCheck::Id { id: 9, expected: INDEX };
    assert_eq!(check(&|_, dquot| dquot.id = 9.into()), id.into());
    let offset = DquotCheck::Offset { id: INDEX, offset: 136 };
    assert_eq!(check(&|format, _| format.offset_bytes = 136), offset.into());
    let blocks = LogItemCheck::OutOfRange { field: "blocks of dquots", value: 2 };
    assert_eq!(check(&|format, _| format.blocks = 2), blocks.into());
    let outside = check(&|format, _| format.at = DiskAddr(u64::MAX));
    assert!(matches!(outside, Check::LogItem(LogItemCheck::OutsideVolume { .. })), "{outside}");
}

/// Stores only the replayed block of dquots on disk, as if the recovery had been interrupted, and
/// recovers again. Checks that the second recovery gives the same counts.
#[test]
fn repeated_recovery_gives_the_same_counts() {
    let mut quota = QuotaBench::new();
    quota.append_count(7);
    quota.append_count(8);
    let replayed = quota.bench.replay().unwrap();
    let block = read(&*replayed.device(), quota.at.byte_offset().unwrap(), quota.block().len());
    drop(replayed);
    quota.store(&block);
    assert_eq!(quota.replay(), (8, FLAGS));
}
