//! Tests that compare the minimum log sizes with those of mkfs.xfs, for many block sizes, features,
//! stripe units and volume sizes.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::{BtreeHeights, Reservations, TransactionKind, minimum_log_blocks, unit_bytes};
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;

const MEASURED: &str = include_str!("minimum_log.tsv");

struct Row {
    geometry: Geometry,
    stripe_unit: u32,
    blocks: Option<u64>,
}

fn rows() -> impl Iterator<Item = (&'static str, Row)> {
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| (line, row(line).expect("the table has twelve columns")))
}

fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split('\t').collect();
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    let size = |index: usize| u32::try_from(number(index)?).ok();
    let mut ro_compat = RoCompatFeatures::INOBTCNT;
    ro_compat.set(RoCompatFeatures::FINOBT, number(3)? == 1);
    ro_compat.set(RoCompatFeatures::RMAPBT, number(4)? == 1);
    ro_compat.set(RoCompatFeatures::REFLINK, number(5)? == 1);
    let mut incompat = IncompatFeatures::FTYPE | IncompatFeatures::SPARSE_INODES;
    incompat.set(IncompatFeatures::PARENT, number(6)? == 1);
    incompat.set(IncompatFeatures::NREXT64, number(7)? == 1);
    let (block_size, inode_size) = (size(1)?, size(2)?);
    let block_log = u8::try_from(block_size.trailing_zeros()).ok()?;
    let inode_log = u8::try_from(inode_size.trailing_zeros()).ok()?;
    let data_blocks = number(0)? >> block_log;
    // The largest group is one block smaller than 1 TiB.
    let most = (1_u64 << (40 - block_log)) - 1;
    let ag_count = if data_blocks / 4 > most { data_blocks.div_ceil(most) } else { 4 };
    let ag_blocks = u32::try_from((data_blocks.div_ceil(ag_count)).min(most)).ok()?;
    Some(Row {
        geometry: Geometry {
            directory_block_log: u8::try_from(size(9)?.trailing_zeros()).ok()? - block_log,
            ag_count: u32::try_from(ag_count).ok()?,
            ag_blocks,
            ag_blocks_log: u8::try_from(ag_blocks.next_power_of_two().trailing_zeros()).ok()?,
            data_blocks,
            inode_alignment_blocks: (64 * inode_size) >> block_log,
            incompat,
            ro_compat,
            ..Geometry::without_groups(block_log, inode_log, size(8)?)
        },
        // With large sectors mkfs.xfs pads the log to whole blocks.
        stripe_unit: match (size(8)?, size(10)?) {
            (512, unit) => unit,
            (_, 1) => block_size,
            (_, unit) => unit,
        },
        blocks: words.get(11)?.parse().ok(),
    })
}

#[test]
fn minimum_log_matches_mkfs_xfs() {
    let mut wrong: Vec<String> = Vec::new();
    let mut seen = 0;
    for (line, row) in rows() {
        let ours = minimum_log_blocks(&row.geometry, row.stripe_unit);
        let fits = ours <= ((2 << 20) / u64::from(row.geometry.block_size)).max(512);
        seen += 1;
        if row.blocks.map_or(!fits, |blocks| ours != blocks) {
            wrong.push(format!("{line}: {ours}"));
        }
    }
    assert!(seen > 300);
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn heights_of_a_1_tib_volume() {
    // 1 TiB in four groups of 256 GiB.
    let line = "1099511627776\t4096\t512\t1\t1\t1\t1\t1\t512\t4096\t1\t0";
    let geometry = row(line).expect("the line has twelve columns").geometry;
    let heights = BtreeHeights::new(&geometry);
    assert_eq!(
        heights,
        BtreeHeights {
            free_space: 4,
            reverse_map: 6,
            refcount: 4,
            inode: 4,
            data_extents: 7,
            attr_extents: 5,
        }
    );
}

#[test]
fn absent_btrees_have_no_height() {
    let line = "1099511627776\t4096\t512\t0\t0\t0\t0\t0\t512\t4096\t1\t0";
    let geometry = row(line).expect("the line has twelve columns").geometry;
    let heights = BtreeHeights::new(&geometry);
    assert_eq!((heights.reverse_map, heights.refcount), (0, 0));
}

#[test]
fn unit_bytes_of_a_small_transaction() {
    // Its own bytes; three operation headers and the transaction header; one more operation; two
    // record headers of one block; padding for both writes.
    assert_eq!(unit_bytes(1000, 32 << 10, 1), 1000 + 40 + 12 + 2 * 512 + 2 * 512);
    assert_eq!(unit_bytes(1000, 32 << 10, 65536), 1000 + 40 + 12 + 2 * 512 + 2 * 65536);
}

#[test]
fn unit_bytes_of_a_transaction_that_spans_records() {
    let payload = (32 << 10) - 512;
    // A record that is filled to the last byte has no room for its operation.
    let bytes = unit_bytes(payload - 40, 32 << 10, 1);
    assert_eq!(bytes, payload + 2 * 12 + 3 * 512 + 2 * 512);
}

#[test]
fn reservation_of_every_kind_fits_the_smallest_log() {
    for (line, row) in rows() {
        let reservations = Reservations::new(&row.geometry);
        let log =
            minimum_log_blocks(&row.geometry, row.stripe_unit) * u64::from(row.geometry.block_size);
        for kind in TransactionKind::ALL {
            let reservation = reservations.of(kind);
            assert_ne!(reservation.bytes, 0);
            let whole = unit_bytes(reservation.bytes, 256 << 10, row.stripe_unit)
                * u64::from(reservation.steps);
            assert!(whole < log / 2, "{kind:?} takes {whole} of {log} bytes: {line}");
        }
    }
}

/// A volume with a realtime section, and the shortest log that mkfs.xfs 7.2 gives it. The numbers
/// are in blocks.
struct RealtimeCase {
    block_log: u8,
    ag_blocks: u32,
    features: RoCompatFeatures,
    incompat: IncompatFeatures,
    extent_blocks: u32,
    minimum: u64,
}

fn check_realtime(case: &RealtimeCase) {
    let features = IncompatFeatures::FTYPE
        | IncompatFeatures::SPARSE_INODES
        | IncompatFeatures::NREXT64
        | case.incompat;
    let mut geometry = Geometry {
        directory_block_log: 12_u8.saturating_sub(case.block_log),
        ag_count: 4,
        ag_blocks: case.ag_blocks,
        ag_blocks_log: u8::try_from(case.ag_blocks.next_power_of_two().trailing_zeros()).unwrap(),
        data_blocks: 4 * u64::from(case.ag_blocks),
        inode_alignment_blocks: (64 * 512) >> case.block_log,
        incompat: features,
        ro_compat: RoCompatFeatures::INOBTCNT | RoCompatFeatures::FINOBT | case.features,
        realtime_extent_blocks: case.extent_blocks,
        ..Geometry::without_groups(case.block_log, 9, 512)
    };
    geometry.realtime.blocks = 25_600;
    assert_eq!(minimum_log_blocks(&geometry, 1), case.minimum, "{:?}", case.features);
}

/// Checks the shortest logs of volumes with a realtime section against those of mkfs.xfs. The
/// largest transaction is the truncation of a realtime file: it frees two extents of the longest
/// length, which changes the most blocks of bitmaps.
#[test]
fn shortest_log_of_a_volume_with_a_realtime_section_is_that_of_mkfs() {
    let (map, sharing) = (RoCompatFeatures::RMAPBT, RoCompatFeatures::REFLINK);
    let (parent, groups) = (IncompatFeatures::PARENT, IncompatFeatures::METADIR);
    let case = |block_log, ag_blocks, features, incompat, minimum| RealtimeCase {
        block_log,
        ag_blocks,
        features,
        incompat,
        // By default a realtime extent has 4 KiB, or one larger block.
        extent_blocks: (4096 >> block_log).max(1),
        minimum,
    };
    let none = RoCompatFeatures::empty();
    for case in [
        case(12, 4096, map | sharing, parent | groups, 2845),
        case(12, 4224, map | sharing, parent | groups, 2907),
        case(12, 19_136, map | sharing, parent | groups, 2907),
        case(12, 4096, map, parent | groups, 2353),
        case(12, 4096, none, parent | groups, 2001),
        case(12, 4096, map, groups, 2353),
        case(12, 16_384, map | sharing, groups, 4916),
        case(13, 2048, map | sharing, parent | groups, 1766),
        case(13, 8192, map | sharing, parent | groups, 1766),
        case(14, 4096, map | sharing, parent | groups, 1429),
        case(14, 4096, none, parent, 1429),
        case(10, 65_536, none, parent, 4862),
        case(10, 65_536, none, IncompatFeatures::empty(), 8681),
    ] {
        check_realtime(&case);
    }
    let large = case(12, 16_384, map, parent | groups, 2001);
    check_realtime(&RealtimeCase { extent_blocks: 7, ..large });
}
