//! The superblock of a member of a software RAID, in its forms 0.90 and 1.x.

use std::io;

use crate::device::BlockDevice;

const SECTOR: u64 = 512;
const MAGIC: u64 = 0xa92b_4efc;
/// Number of bytes of a version 1 superblock before its table of roles.
const FIXED_BYTES: usize = 256;
const MAX_ROLES: usize = 1920;
const BLOCK_BYTES: usize = 4096;
/// The alignment in bytes of a superblock of version 0.90. The superblock starts at the last
/// aligned byte with at least this many bytes of the member after it.
const OLD_ALIGNMENT: u64 = 64 << 10;
const IN_SYNC: u64 = u64::MAX;

/// Feature bits of a superblock of version 1.x: part of the member was still being rebuilt
/// (`RECOVERY_OFFSET`), or the array was being reshaped (`RESHAPE`).
const RECOVERY_OFFSET: u64 = 1 << 1;
const RESHAPE: u64 = 1 << 2;
/// The lowest role number that does not stand for a place in the array, but for a journal, a failed
/// member or a spare.
const FIRST_ODD_ROLE: u64 = 0xfffd;
/// State bits of a disk in a superblock of version 0.90: it has failed (`OLD_FAULTY`), or it is a
/// working part of the array (`OLD_ACTIVE`).
const OLD_FAULTY: u64 = 1 << 0;
const OLD_ACTIVE: u64 = 1 << 1;
const OLD_SYNC: u64 = 1 << 2;

/// Facts from the superblock of a member that holds all data of its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberSuperblock {
    /// The UUID of the array.
    pub(crate) array: [u8; 16],
    pub(crate) events: u64,
    pub(crate) disks: u32,
    /// Number of members that have a place in the array.
    pub(crate) active_disks: u32,
    /// Whether this member has a place in the array, and is neither a spare nor failed.
    pub(crate) is_active: bool,
    /// Whether the data of the member was being rebuilt or reshaped.
    pub(crate) is_incomplete: bool,
    pub(crate) is_in_sync: bool,
    pub(crate) data_start: u64,
    pub(crate) data_bytes: u64,
}

/// The byte order of the numbers in a superblock.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

/// The bytes of a superblock, before they are decoded.
struct Raw<'a> {
    bytes: &'a [u8],
    order: Order,
}

/// Reads a superblock that lies before the data of its member: version 1.1 or 1.2. Returns `None`
/// if there is no superblock, or if the member does not hold all data of its array.
pub(crate) fn read(device: &dyn BlockDevice) -> io::Result<Option<MemberSuperblock>> {
    for (at, minor) in [(4096, 2), (0, 1)] {
        let Some(bytes) = block(device, at)? else { continue };
        if let Some(found) = version_1(&bytes, device, at / SECTOR, minor) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Reads a superblock that lies after the data of its member: version 1.0 or 0.90. Returns `None`
/// if there is no superblock, or if the member does not hold all data of its array.
pub(crate) fn read_at_end(device: &dyn BlockDevice) -> io::Result<Option<MemberSuperblock>> {
    let sectors = device.length_bytes() / SECTOR;
    if let Some(at) = sectors.checked_sub(16).map(|sector| sector & !7)
        && let Some(bytes) = block(device, at * SECTOR)?
        && let Some(found) = version_1(&bytes, device, at, 0)
    {
        return Ok(Some(found));
    }
    let end = device.length_bytes() & !(OLD_ALIGNMENT - 1);
    let Some(at) = end.checked_sub(OLD_ALIGNMENT) else { return Ok(None) };
    Ok(block(device, at)?.and_then(|bytes| version_0(&bytes, at)))
}

fn block(device: &dyn BlockDevice, at: u64) -> io::Result<Option<Vec<u8>>> {
    if at.checked_add(BLOCK_BYTES as u64).is_none_or(|end| end > device.length_bytes()) {
        return Ok(None);
    }
    let mut bytes = vec![0; BLOCK_BYTES];
    device.read_at(&mut bytes, at)?;
    Ok(Some(bytes))
}

impl Raw<'_> {
    fn number(&self, at: usize, length: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.get(..length)).unwrap_or_default();
        let add = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
        match self.order {
            Order::Little => bytes.iter().rev().fold(0, add),
            Order::Big => bytes.iter().fold(0, add),
        }
    }

    /// Returns the checksum of the first `length` bytes: their sum as words of 4 bytes, folded to 4
    /// bytes. The word at byte `own`, which holds the checksum itself, is left out.
    fn sum(&self, length: usize, own: usize) -> u64 {
        let words = (0..length / 4).map(|word| word * 4).filter(|at| *at != own);
        let mut sum: u64 = words.map(|at| self.number(at, 4)).sum();
        if length % 4 == 2 {
            sum += self.number(length - 2, 2);
        }
        ((sum & 0xffff_ffff) + (sum >> 32)) & 0xffff_ffff
    }
}

/// Decodes a superblock of version 1.`minor` that was found at `sector` of the device. Returns
/// `None` if the superblock is invalid, or if the member does not hold all data of its array.
fn version_1(
    bytes: &[u8],
    device: &dyn BlockDevice,
    sector: u64,
    minor: u64,
) -> Option<MemberSuperblock> {
    let raw = Raw { bytes, order: Order::Little };
    let roles = usize::try_from(raw.number(220, 4)).ok().filter(|roles| *roles <= MAX_ROLES)?;
    let is_sound = raw.number(0, 4) == MAGIC
        && raw.number(4, 4) == 1
        && raw.number(144, 8) == sector
        && raw.number(216, 4) == raw.sum(FIXED_BYTES + roles * 2, 216);
    let disks = raw.number(92, 4) as u32;
    if !is_sound || !holds_all(raw.number(72, 4), disks) {
        return None;
    }
    let role_of = |member: usize| raw.number(FIXED_BYTES + member * 2, 2);
    let active = (0..roles).filter(|member| role_of(*member) < u64::from(disks)).count();
    let own = usize::try_from(raw.number(160, 4)).ok().filter(|own| *own < roles);
    let features = raw.number(8, 4);
    let data_start = raw.number(128, 8).checked_mul(SECTOR)?;
    let room = match minor {
        0 => sector.checked_mul(SECTOR)?.checked_sub(data_start)?,
        _ => device.length_bytes().checked_sub(data_start)?,
    };
    let stated = raw.number(80, 8).checked_mul(SECTOR)?;
    let mut array = [0; 16];
    array.copy_from_slice(bytes.get(16..32)?);
    Some(MemberSuperblock {
        array,
        events: raw.number(200, 8),
        disks,
        active_disks: active as u32,
        is_active: own.is_some_and(|own| role_of(own) < FIRST_ODD_ROLE),
        is_incomplete: features & (RECOVERY_OFFSET | RESHAPE) != 0,
        is_in_sync: raw.number(208, 8) == IN_SYNC,
        data_start,
        data_bytes: stated.min(room),
    })
}

/// Decodes a superblock of version 0.90 that was found at byte `at` of the device. Returns `None`
/// if the superblock is invalid, or if the member does not hold all data of its array.
fn version_0(bytes: &[u8], at: u64) -> Option<MemberSuperblock> {
    let order = [Order::Little, Order::Big]
        .into_iter()
        .find(|order| Raw { bytes, order: *order }.number(0, 4) == MAGIC)?;
    let raw = Raw { bytes, order };
    let word = |index: usize| raw.number(index * 4, 4);
    let (events_low, events_high) = match order {
        Order::Little => (39, 40),
        Order::Big => (40, 39),
    };
    let disks = word(10) as u32;
    let is_sound = word(1) == 0
        && matches!(word(2), 90 | 91)
        && word(38) == raw.sum(BLOCK_BYTES, 38 * 4)
        && holds_all(word(7), disks);
    if !is_sound {
        return None;
    }
    let state_of = |disk: usize| word(disk + 4);
    let is_in_place =
        |state: u64| state & (OLD_FAULTY | OLD_ACTIVE | OLD_SYNC) == OLD_ACTIVE | OLD_SYNC;
    let mut array = [0; 16];
    for (place, index) in array.as_chunks_mut::<4>().0.iter_mut().zip([5, 13, 14, 15]) {
        place.copy_from_slice(bytes.get(index * 4..index * 4 + 4)?);
    }
    let active = (0..27).filter(|disk| is_in_place(state_of(128 + disk * 32))).count();
    Some(MemberSuperblock {
        array,
        events: word(events_high) << 32 | word(events_low),
        disks,
        active_disks: active as u32,
        is_active: is_in_place(state_of(992)),
        // Version 0.91 is that of an array during a reshape.
        is_incomplete: word(2) == 91,
        is_in_sync: word(33) & 1 != 0,
        data_start: 0,
        data_bytes: word(8).checked_mul(1024)?.min(at),
    })
}

/// Returns whether each member of an array with this level and number of disks holds all data of
/// the array.
fn holds_all(level: u64, disks: u32) -> bool {
    const LINEAR: u64 = 0xffff_ffff;
    level == 1 || (disks == 1 && matches!(level, 0 | LINEAR))
}
