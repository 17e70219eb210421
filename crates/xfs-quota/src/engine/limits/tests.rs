use std::sync::LazyLock;

use xfs_format::Geometry;
use xfs_format::dquot::{DquotDisk, QuotaKind};
use xfs_trans::testing::{make, superblock};
use xfs_trans::{DquotFields, QuotaAmount};

use super::{DefaultLimits, GRACE_SECONDS};

const NOW: u64 = 1_800_000_000;

static GEOMETRY: LazyLock<Geometry> = LazyLock::new(|| superblock(&make()).geometry);

fn dquot(id: u32) -> DquotDisk {
    DquotDisk::unused(QuotaKind::User, id, &GEOMETRY)
}

fn fields(disk: DquotDisk, reserved_blocks: u64) -> DquotFields {
    DquotFields { disk, reserved: QuotaAmount::of_blocks(reserved_blocks) }
}

/// Returns whether an owner may get `wanted` more blocks at the time `NOW`. The owner has the hard
/// and the soft limit `limits`, uses `count` blocks, and has 5 reserved blocks. The owner's timer
/// ends at `timer`.
fn allows(limits: [u64; 2], count: u64, timer: u64, wanted: u64) -> bool {
    let mut disk = dquot(7);
    let [hard, soft] = limits;
    (disk.block_hard_limit, disk.block_soft_limit) = (hard.into(), soft.into());
    disk.blocks = count.into();
    if timer != 0 {
        disk.block_timer = disk.timer_of(timer);
    }
    let wanted = QuotaAmount::of_blocks(wanted);
    DefaultLimits::default().allow(&fields(disk, 5), wanted, || NOW)
}

#[test]
fn hard_limit_covers_count_and_reservations() {
    assert!(allows([100, 0], 90, 0, 5));
    assert!(!allows([100, 0], 90, 0, 6));
    assert!(allows([0, 0], 1 << 60, 0, 1 << 60));
    // A request for nothing is never refused.
    assert!(allows([100, 0], 200, 0, 0));
}

#[test]
fn soft_limit_refuses_only_after_its_timer() {
    assert!(allows([0, 50], 90, 0, 6));
    assert!(allows([0, 50], 90, NOW + 100, 6));
    assert!(!allows([0, 50], 90, NOW - 100, 6));
    assert!(allows([0, 50], 40, NOW - 100, 5));
}

#[test]
fn timer_starts_past_a_limit_and_stops_at_it() {
    let defaults = DefaultLimits::default();
    let mut disk = dquot(7);
    (disk.block_soft_limit, disk.blocks) = (10.into(), 10.into());
    defaults.set_timers(&mut disk, || NOW);
    assert_eq!(disk.block_timer.get(), 0);
    disk.blocks = 11.into();
    defaults.set_timers(&mut disk, || NOW);
    let end = disk.timer_seconds(disk.block_timer);
    assert!((NOW + GRACE_SECONDS..NOW + GRACE_SECONDS + 4).contains(&end), "{end}");
    // A timer that runs keeps its end.
    defaults.set_timers(&mut disk, || NOW + 1000);
    assert_eq!(disk.timer_seconds(disk.block_timer), end);
    disk.blocks = 10.into();
    defaults.set_timers(&mut disk, || NOW);
    assert_eq!(disk.block_timer.get(), 0);
}

#[test]
fn grace_period_of_id_0_sets_the_timer() {
    let defaults = DefaultLimits::default();
    let mut zero = dquot(0);
    zero.inode_timer = 600.into();
    defaults.set(&zero);
    let mut disk = dquot(7);
    (disk.inode_soft_limit, disk.inodes) = (1.into(), 2.into());
    defaults.set_timers(&mut disk, || NOW);
    assert_eq!(disk.timer_seconds(disk.inode_timer), NOW + 600);
}

#[test]
fn default_limits_fill_only_missing_limits() {
    let defaults = DefaultLimits::default();
    let mut zero = dquot(0);
    (zero.block_hard_limit, zero.inode_soft_limit) = (500.into(), 20.into());
    defaults.set(&zero);
    let mut disk = dquot(7);
    disk.inode_soft_limit = 3.into();
    let wanted = QuotaAmount::of_blocks(501);
    assert!(!defaults.allow(&fields(disk, 0), wanted, || NOW), "the default limit holds");
    defaults.fill(&mut disk);
    assert_eq!((disk.block_hard_limit.get(), disk.inode_soft_limit.get()), (500, 3));
}

#[test]
fn preallocation_shrinks_near_the_hard_limit() {
    let defaults = DefaultLimits::default();
    let ahead = |count: u64, wanted: u64| {
        let mut disk = dquot(7);
        (disk.block_hard_limit, disk.blocks) = (10_000.into(), count.into());
        defaults.blocks_ahead(&fields(disk, 0), QuotaAmount::of_blocks(wanted)).blocks
    };
    assert_eq!(ahead(1000, 1000), 1000);
    assert_eq!(ahead(9000, 2000), 1000);
    assert_eq!(ahead(9600, 2000), 400 >> 2);
    assert_eq!(ahead(9750, 2000), 250 >> 4);
    assert_eq!(ahead(9950, 2000), 50 >> 6);
    assert_eq!(ahead(10_000, 2000), 0);
}

#[test]
fn bigtime_timer_rounds_up_and_stays_in_its_range() {
    let disk = dquot(7);
    assert_eq!(disk.timer_seconds(disk.timer_of(1_800_000_001)), 1_800_000_004);
    assert_eq!(disk.timer_of(u64::MAX).get(), 4_074_815_106);
    assert_eq!(disk.timer_of(0).get(), 1);
}
