//! The log overhead of a transaction, and the shortest log that a volume may have.

use super::{OPERATION_BYTES, Reservation, Reservations, TransactionKind};
use crate::addr::BASIC_BLOCK_BYTES;
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;
use crate::log_record::MAX_RECORD_BYTES;

/// Length of the header of a transaction in the log, in bytes.
const TRANSACTION_HEADER_BYTES: u64 = 16;
/// Number of payload bytes for which a record needs one header.
const BYTES_PER_HEADER: u64 = 32 << 10;
/// Number of transactions of the largest kind for which the shortest log has space.
#[doc(alias = "XFS_MIN_LOG_FACTOR")]
const LOG_FACTOR: u64 = 3;
/// Levels of the reverse map that old kernels assumed for any volume with shared extents.
#[doc(alias = "XFS_OLD_REFLINK_RMAP_MAXLEVELS")]
const OLD_REVERSE_MAP_LEVELS: u32 = 9;
/// Number of transactions of a chain for which old kernels granted log space to a write or a
/// truncation, on volumes with shared extents.
const OLD_REFLINK_STEPS: u32 = 8;
/// Length in bytes of the longest attribute name, which the kernel counts with a zero byte at its
/// end. The longest value takes the rest of the largest leaf entry.
const LONGEST_NAME: u64 = 256;

/// Returns the log space in bytes that a transaction needs if it logs `bytes` bytes.
///
/// The space includes operation headers, record headers for all records that the transaction may
/// span, and the commit record, padded to the log's stripe unit. `record_bytes` is the size of the
/// writer's buffers.
#[doc(alias = "xfs_log_calc_unit_res")]
#[must_use]
pub fn unit_bytes(bytes: u64, record_bytes: u32, log_stripe_unit_bytes: u32) -> u64 {
    let record = u64::from(record_bytes);
    let header = record.div_ceil(BYTES_PER_HEADER) * u64::from(BASIC_BLOCK_BYTES);
    let payload = record - header;
    let start = OPERATION_BYTES + TRANSACTION_HEADER_BYTES + OPERATION_BYTES;
    let mut bytes = bytes + start;
    // Each record in which a region continues needs one more operation, which may need one more
    // record.
    let mut records = bytes.div_ceil(payload);
    bytes += records * OPERATION_BYTES;
    while bytes.div_ceil(payload) > records {
        bytes += OPERATION_BYTES;
        records += 1;
    }
    let padding = match log_stripe_unit_bytes {
        0 | 1 => BASIC_BLOCK_BYTES,
        unit => unit,
    };
    // The commit record has its own header. Both writes may be padded.
    bytes + (records + 1) * header + 2 * u64::from(padding)
}

/// Returns the smallest number of blocks of a volume's log: space for three of the largest
/// transactions. The three can overlap. One transaction runs, and another one is being written to
/// the log. The log still keeps a third one, whose changes are not yet written in place.
#[doc(alias = "xfs_log_calc_minimum_size")]
#[must_use]
pub fn minimum_log_blocks(geometry: &Geometry, log_stripe_unit_bytes: u32) -> u64 {
    let largest = largest(geometry);
    let unit = unit_bytes(largest.bytes, MAX_RECORD_BYTES, log_stripe_unit_bytes);
    let sector = u64::from(BASIC_BLOCK_BYTES);
    let needed = (unit * u64::from(largest.steps)).div_ceil(sector);
    // Two units: for the buffer that is being filled and the one in flight. Without a stripe unit
    // the kernel uses the size of a sector as a number of sectors: 1024 sectors. That can never
    // change.
    let one = match log_stripe_unit_bytes {
        0 | 1 => needed + 2 * sector,
        unit => {
            let unit = u64::from(unit) / sector;
            needed.next_multiple_of(unit) + 2 * unit
        }
    };
    (one * LOG_FACTOR).div_ceil(geometry.block_basic_blocks().into())
}

/// Returns the reservation of the largest transaction, from which the minimum log size follows.
fn largest(geometry: &Geometry) -> Reservation {
    // Kernel developers found that the sums were far too high before they added parent pointers.
    // They corrected the sums only for volumes with parent pointers: a kernel must mount all
    // volumes that an older mkfs made.
    let is_old = !geometry.has_incompat(IncompatFeatures::PARENT);
    let mut reservations = Reservations::new(geometry);
    let has_reflink = reservations.has(RoCompatFeatures::REFLINK);
    let has_reverse_map = reservations.has(RoCompatFeatures::RMAPBT);
    if is_old {
        reservations.refcount_in_place = true;
        if has_reflink && has_reverse_map {
            reservations.heights.reverse_map = OLD_REVERSE_MAP_LEVELS;
        }
    }
    let mut largest = Reservation { bytes: 0, steps: 1 };
    for kind in TransactionKind::ALL {
        let mut reservation = reservations.of(kind);
        if is_old && has_reflink && counts_intents(kind) {
            reservation.steps = OLD_REFLINK_STEPS;
        }
        let total = reservation.bytes * u64::from(reservation.steps);
        if total > largest.bytes * u64::from(largest.steps) {
            largest = reservation;
        }
    }
    let attribute = largest_attribute(&reservations, is_old);
    if attribute > largest.bytes * u64::from(largest.steps) {
        let steps = reservations.of(TransactionKind::SetAttr).steps;
        largest = Reservation { bytes: attribute, steps };
    }
    largest
}

const fn counts_intents(kind: TransactionKind) -> bool {
    matches!(
        kind,
        TransactionKind::Write | TransactionKind::Truncate | TransactionKind::AllocateQuota
    )
}

/// Returns the number of log bytes of a transaction that sets the largest attribute that fits an
/// attribute leaf. With `is_old`, counts the bytes as kernels without parent pointers do.
#[doc(alias = "xfs_log_calc_max_attrsetm_res")]
fn largest_attribute(reservations: &Reservations<'_>, is_old: bool) -> u64 {
    let geometry = reservations.geometry;
    let levels = reservations.heights.attr_extents;
    let block = u64::from(geometry.block_size);
    let bytes = (block / 2 + block / 4).saturating_sub(LONGEST_NAME + 1);
    let value_blocks = bytes.div_ceil(block);
    // The old sum used the number of bytes of the value as a number of blocks.
    let mapped = if is_old { bytes } else { value_blocks };
    let value = value_blocks + reservations.map_blocks(mapped, levels);
    let blocks = reservations.attr_tree_blocks() + value;
    let one = reservations.of(TransactionKind::SetAttr).bytes;
    one + reservations.of(TransactionKind::SetAttrBlock).bytes * blocks
}
