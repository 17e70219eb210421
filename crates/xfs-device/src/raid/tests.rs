//! Tests of members of software RAIDs, which the tests write in the form of mdadm. `mdadm
//! --examine` confirms the form, if it is installed.
#![allow(
    clippy::little_endian_bytes,
    reason = "the numbers of md are little-endian on most machines"
)]

use std::sync::Arc;

use super::{RaidError, VolumeNote};
use crate::device::{BlockDevice, Durability, SharedDevice};
use crate::file::{FileDevice, FileOptions};
use crate::filesystem::{FindError, LocatedVolume, Selection, find_filesystem_among};
use crate::memory::MemoryDevice;

const LENGTH: u64 = 16 << 20;
const DATA_BYTES: u64 = 8 << 20;

/// A member of an array of two mirrors.
#[derive(Clone)]
struct Member {
    /// The version of the superblock: 0 to 2 for 1.x, and 90 for 0.90.
    minor: u64,
    level: u32,
    events: u64,
    role: u16,
    features: u32,
    array: u8,
}

impl Member {
    fn new(minor: u64) -> Self {
        Self { minor, level: 1, events: 20, role: 0, features: 0, array: 7 }
    }

    fn data_start(&self) -> u64 {
        if matches!(self.minor, 1 | 2) { 1 << 20 } else { 0 }
    }

    fn superblock(&self) -> (u64, Vec<u8>) {
        if self.minor == 90 { self.old_superblock() } else { self.new_superblock() }
    }

    fn new_superblock(&self) -> (u64, Vec<u8>) {
        let sector = match self.minor {
            0 => (LENGTH / 512 - 16) & !7,
            1 => 0,
            _ => 8,
        };
        let mut bytes = vec![0; 4096];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &0xa92b_4efc_u32.to_le_bytes());
        put(4, &1_u32.to_le_bytes());
        put(8, &self.features.to_le_bytes());
        put(16, &[self.array; 16]);
        put(32, b"host:0");
        put(72, &self.level.to_le_bytes());
        put(80, &(DATA_BYTES / 512).to_le_bytes());
        put(92, &2_u32.to_le_bytes());
        put(128, &(self.data_start() / 512).to_le_bytes());
        put(136, &(DATA_BYTES / 512).to_le_bytes());
        put(144, &sector.to_le_bytes());
        put(160, &0_u32.to_le_bytes());
        put(192, &1_700_000_000_u64.to_le_bytes());
        put(200, &self.events.to_le_bytes());
        put(208, &u64::MAX.to_le_bytes());
        put(220, &128_u32.to_le_bytes());
        put(256, &[0xff; 256]);
        put(256, &self.role.to_le_bytes());
        put(258, &1_u16.to_le_bytes());
        let sum = sum_of(&bytes[..512]);
        bytes[216..220].copy_from_slice(&sum.to_le_bytes());
        (sector * 512, bytes)
    }

    fn old_superblock(&self) -> (u64, Vec<u8>) {
        let mut bytes = vec![0; 4096];
        let mut put = |word: usize, value: u32| {
            bytes[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
        };
        let array = u32::from_le_bytes([self.array; 4]);
        let words = [(0, 0xa92b_4efc), (2, 90), (5, array), (7, self.level)];
        let sizes = [(8, (DATA_BYTES >> 10) as u32), (9, 2), (10, 2), (13, array), (14, array)];
        let state = [(15, array), (32, 1_700_000_000), (33, 1), (34, 2), (35, 2)];
        for (word, value) in words.into_iter().chain(sizes).chain(state) {
            put(word, value);
        }
        put(39, self.events as u32);
        put(40, (self.events >> 32) as u32);
        for (disk, number) in [(128, 0), (160, 1), (992, 0)] {
            put(disk, number);
            put(disk + 3, number);
            put(disk + 4, if self.role == 0 { 6 } else { 1 });
        }
        let sum = sum_of(&bytes);
        bytes[38 * 4..39 * 4].copy_from_slice(&sum.to_le_bytes());
        (LENGTH - (64 << 10), bytes)
    }

    /// Writes the member to a file: XFS at the start of its data, and `mark` after it.
    fn write(&self, mark: &[u8]) -> tempfile::NamedTempFile {
        let disk = MemoryDevice::new(LENGTH);
        let put = |at, bytes: &[u8]| disk.write_at(bytes, at, Durability::Cached).unwrap();
        let (at, superblock) = self.superblock();
        put(at, &superblock);
        let data = self.data_start();
        put(data, b"XFSB");
        put(data + 4, &4096_u32.to_be_bytes());
        put(data + 8, &(DATA_BYTES / 4096).to_be_bytes());
        put(data + 8192, mark);
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![0; LENGTH as usize];
        disk.read_at(&mut bytes, 0).unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }
}

/// Returns the checksum of a superblock whose checksum field is still 0: the sum of its words,
/// folded to 4 bytes.
fn sum_of(bytes: &[u8]) -> u32 {
    let words = bytes.as_chunks::<4>().0.iter();
    let sum: u64 = words.map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

fn find(
    members: &[&tempfile::NamedTempFile],
    options: FileOptions,
) -> Result<LocatedVolume, FindError> {
    let open = |file: &&tempfile::NamedTempFile| -> SharedDevice {
        Arc::new(FileDevice::open(file.path(), options).unwrap())
    };
    let devices: Vec<SharedDevice> = members.iter().map(open).collect();
    find_filesystem_among(Arc::clone(&devices[0]), &devices[1..], &Selection::Auto)
}

fn mark_of(found: &LocatedVolume) -> [u8; 4] {
    let mut mark = [0; 4];
    found.device.read_at(&mut mark, 8192).unwrap();
    mark
}

#[test]
fn one_mirror_is_read_with_a_note_and_never_written() {
    for minor in [0, 1, 2, 90] {
        let file = Member::new(minor).write(b"data");
        let found = find(&[&file], FileOptions::read_only()).unwrap();
        assert_eq!(found.device.length_bytes(), DATA_BYTES, "1.{minor}");
        assert_eq!(found.start, Member::new(minor).data_start());
        assert_eq!(mark_of(&found), *b"data");
        let expected = VolumeNote::OneMirror { mirrors: 2, active: 2, events: 20 };
        assert_eq!(found.notes, [expected], "1.{minor}");
        drop(found);
        let refused = find(&[&file], FileOptions::read_write()).err().unwrap();
        assert!(matches!(refused, FindError::Raid(RaidError::Write)), "1.{minor}: {refused}");
        assert!(refused.hint().unwrap().contains("mdadm --assemble"));
    }
}

#[test]
fn newest_mirror_is_read_and_the_stale_one_is_named() {
    for minor in [0, 1, 2, 90] {
        let stale = Member { events: 12, ..Member::new(minor) }.write(b"old ");
        let newest = Member::new(minor).write(b"new ");
        for (members, member) in [([&stale, &newest], 0), ([&newest, &stale], 1)] {
            let found = find(&members, FileOptions::read_only()).unwrap();
            assert_eq!(mark_of(&found), *b"new ");
            let expected = VolumeNote::StaleMember { member, events: 12, newest: 20 };
            assert_eq!(found.notes, [expected]);
        }
    }
}

#[test]
fn members_that_do_not_help_are_refused_by_name() {
    let other = Member { array: 8, ..Member::new(2) }.write(b"data");
    let first = Member::new(2).write(b"data");
    let refused = find(&[&first, &other], FileOptions::read_only()).err().unwrap();
    assert!(matches!(refused, FindError::Raid(RaidError::Stranger { member: 1 })), "{refused}");
    for role in [0xffff, 0xfffe] {
        let spare = Member { role, ..Member::new(2) }.write(b"data");
        let refused = find(&[&spare], FileOptions::read_only()).err().unwrap();
        assert!(matches!(refused, FindError::Raid(RaidError::NotActive)), "{refused}");
    }
    let rebuilding = Member { features: 2, events: 30, ..Member::new(2) }.write(b"bad ");
    let refused = find(&[&rebuilding], FileOptions::read_only()).err().unwrap();
    assert!(matches!(refused, FindError::Raid(RaidError::Incomplete)), "{refused}");
    let found = find(&[&rebuilding, &first], FileOptions::read_only()).unwrap();
    assert_eq!(mark_of(&found), *b"data");
    let parity = Member { level: 5, ..Member::new(2) }.write(b"data");
    let refused = find(&[&parity], FileOptions::read_only()).err().unwrap();
    assert!(matches!(refused, FindError::Container(_)), "{refused}");
    assert!(refused.hint().unwrap().contains("mdadm --assemble"), "{refused}");
}

/// Checks a volume whose last bytes look like the superblock of a RAID member, because they belong
/// to a file that holds such a member. The volume must keep its full length.
#[test]
fn superblock_inside_of_a_volume_is_the_contents_of_a_file() {
    let file = Member::new(0).write(b"data");
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes[8..16].copy_from_slice(&(LENGTH / 4096).to_be_bytes());
    std::fs::write(file.path(), bytes).unwrap();
    let found = find(&[&file], FileOptions::read_write()).unwrap();
    assert_eq!((found.device.length_bytes(), found.notes.len()), (LENGTH, 0));
}

#[test]
fn damaged_superblock_is_not_recognised() {
    for minor in [0, 1, 2, 90] {
        let (_, superblock) = Member::new(minor).superblock();
        for at in (0..512).chain(3968..4000) {
            if minor != 90 && at >= 512 || superblock[at] == 0xff {
                continue;
            }
            let member = Member::new(minor);
            let disk = MemoryDevice::new(LENGTH);
            let (place, mut bytes) = member.superblock();
            bytes[at] = 0xff;
            disk.write_at(&bytes, place, Durability::Cached).unwrap();
            let found = [super::read(&disk).unwrap(), super::read_at_end(&disk).unwrap()];
            assert_eq!(found, [None, None], "1.{minor}, byte {at}");
        }
    }
}

#[test]
fn mdadm_confirms_the_form_of_the_members() {
    for minor in [0, 1, 2, 90] {
        let file = Member::new(minor).write(b"data");
        let examine =
            std::process::Command::new("mdadm").arg("--examine").arg(file.path()).output();
        let Ok(output) = examine else {
            eprintln!("skipped: mdadm cannot be run");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "1.{minor}: {text}");
        assert!(text.contains("Raid Level : raid1") && text.contains("- correct"), "{text}");
        assert!(text.contains("Events : 20") || text.contains("Events : 0.20"), "{text}");
    }
}
