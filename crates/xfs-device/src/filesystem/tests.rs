//! Tests of finding the only XFS volume of a device.

use std::sync::Arc;

use super::{FindError, LocatedVolume, Selection, find_filesystem};
use crate::memory::MemoryDevice;
use crate::partition::PartitionChoice;
use crate::partition::tests::{Gpt, write, write_record};
use crate::signature::Contents;

fn find(disk: MemoryDevice, selection: &Selection) -> Result<LocatedVolume, FindError> {
    find_filesystem(Arc::new(disk), selection)
}

fn error(disk: MemoryDevice, selection: &Selection) -> FindError {
    find(disk, selection).err().expect("no volume is found")
}

fn two_partitions() -> MemoryDevice {
    Gpt::new(512, &[(1, 100, 199), (2, 200, 299)]).disk()
}

#[test]
fn whole_device_is_preferred() {
    let disk = two_partitions();
    write(&disk, 0, b"XFSB");
    write(&disk, 100 * 512, b"XFSB");
    let found = find(disk, &Selection::Auto).unwrap();
    assert_eq!((found.start, found.partition), (0, None));
}

#[test]
fn only_xfs_partition_is_found() {
    let disk = two_partitions();
    write(&disk, 200 * 512, b"XFSB");
    let found = find(disk, &Selection::Auto).unwrap();
    assert_eq!(found.start, 200 * 512);
    assert_eq!(found.device.length_bytes(), 100 * 512);
    assert_eq!(found.partition.unwrap().number, 2);
}

#[test]
fn several_xfs_partitions_are_listed_and_one_is_chosen() {
    let disks = || {
        let disk = two_partitions();
        write(&disk, 100 * 512, b"XFSB");
        write(&disk, 200 * 512, b"XFSB");
        disk
    };
    let several = error(disks(), &Selection::Auto);
    assert!(matches!(several, FindError::Several(_)));
    let text = several.to_string();
    assert!(text.contains("partition 1") && text.contains("partition 2"), "{text}");
    assert_eq!(find(disks(), &Selection::Partition(1.into())).unwrap().start, 100 * 512);
    let missing = error(disks(), &Selection::Partition(3.into()));
    assert!(matches!(
        missing,
        FindError::NoSuchPartition { choice: PartitionChoice::Number(3), .. }
    ));
}

#[test]
fn partition_is_found_by_its_name_if_only_one_has_it() {
    let named = |name: &str| Selection::Partition(name.parse().unwrap());
    // Both partitions have the name "n".
    let several = error(two_partitions(), &named("n"));
    assert!(matches!(&several, FindError::SeveralNamed { name, .. } if name == "n"));
    let text = several.to_string();
    assert!(text.contains("partition 1") && text.contains("partition 2"), "{text}");
    let missing = error(two_partitions(), &named("N"));
    assert!(missing.to_string().contains("has no partition \"N\"; its GPT has"), "{missing}");
    let one = Gpt::new(512, &[(5, 100, 199)]).disk();
    write(&one, 100 * 512, b"XFSB");
    assert_eq!(find(one, &named("n")).unwrap().partition.unwrap().number, 5);
    let record = MemoryDevice::new(1 << 20);
    write_record(&record, 0, &[(0x83, 100, 100)]);
    let nameless = error(record, &named("n"));
    assert!(matches!(nameless, FindError::NoSuchPartition { .. }));
}

#[test]
fn digits_are_the_number_of_a_partition() {
    assert_eq!("12".parse(), Ok(PartitionChoice::Number(12)));
    assert_eq!("12a".parse(), Ok(PartitionChoice::Name("12a".to_owned())));
    assert!("".parse::<PartitionChoice>().is_err());
    assert!("99999999999".parse::<PartitionChoice>().is_err());
}

#[test]
fn other_contents_are_named() {
    let disk = two_partitions();
    write(&disk, 100 * 512 + 1080, b"\x53\xef");
    let text = error(disk, &Selection::Auto).to_string();
    assert!(text.contains("GPT") && text.contains("ext2/3/4"), "{text}");

    // Only the first bytes are examined.
    let disk = MemoryDevice::new(2 << 20);
    write(&disk, 1 << 20, b"XFSB");
    let zeros = error(disk, &Selection::Auto);
    assert!(matches!(zeros, FindError::NotXfs(Contents::Zeros)));
    assert!(zeros.to_string().contains("only zeros in its first 66 KiB"), "{zeros}");
    assert!(zeros.hint().unwrap().contains("--offset"));
    let disk = MemoryDevice::new(1 << 20);
    assert!(matches!(error(disk, &Selection::Partition(1.into())), FindError::NoTable { .. }));

    let disk = MemoryDevice::new(8 << 20);
    write(&disk, 0, b"QFI\xfb");
    let image = error(disk, &Selection::Auto);
    assert!(matches!(image, FindError::NotXfs(Contents::Qcow2)));
    assert!(image.hint().unwrap().contains("qemu-nbd"));
}

#[test]
fn offset_is_used_as_given() {
    let disk = MemoryDevice::new(5000);
    write(&disk, 1000, b"XFSB");
    let found = find(disk, &Selection::Offset(1000)).unwrap();
    assert_eq!((found.start, found.device.length_bytes()), (1000, 4000));
    let nothing = error(MemoryDevice::new(5000), &Selection::Offset(1000));
    assert!(matches!(nothing, FindError::NotXfs(Contents::Zeros)));
    let empty = error(MemoryDevice::new(0), &Selection::Auto);
    assert_eq!(empty.to_string(), "is not an XFS volume: it is empty");
    assert!(empty.hint().unwrap().contains("mkfs"));
    assert!(matches!(error(MemoryDevice::new(0), &Selection::Offset(0)), FindError::NotXfs(_)));
    for offset in [5000, u64::MAX] {
        let past = error(MemoryDevice::new(5000), &Selection::Offset(offset));
        assert!(matches!(past, FindError::OffsetPastEnd { .. }));
    }
}

/// Checks that a volume with a damaged first sector is found. Opening it then reports the damaged
/// superblock, which says more than "no volume".
#[test]
fn volume_with_a_damaged_first_sector_is_found() {
    let start = 100 * 512;
    for sector in [512, 4096] {
        let disk = |magics: &[&[u8]]| {
            let disk = two_partitions();
            for (index, magic) in magics.iter().enumerate() {
                write(&disk, start + sector * (index as u64 + 1), magic);
            }
            disk
        };
        for selection in [Selection::Partition(1.into()), Selection::Offset(start)] {
            let refused = error(disk(&[b"XAGF"]), &selection);
            assert!(matches!(refused, FindError::NotXfs(_)), "{refused}");
            assert_eq!(find(disk(&[b"XAGF", b"XAGI"]), &selection).unwrap().start, start);
        }
    }
    let whole = MemoryDevice::new(1 << 20);
    write(&whole, 32 << 10, b"XAGF");
    write(&whole, 64 << 10, b"XAGI");
    assert_eq!(find(whole, &Selection::Auto).unwrap().start, 0);
}

#[test]
fn partition_of_a_truncated_disk_is_cut_off() {
    let disk = MemoryDevice::new(8 << 20);
    write_record(&disk, 0, &[(0x83, 100, u32::MAX)]);
    write(&disk, 51200, b"XFSB");
    let found = find(disk, &Selection::Auto).unwrap();
    assert_eq!(found.device.length_bytes(), (8 << 20) - 51200);
    assert_eq!(found.partition.unwrap().length_bytes, u64::from(u32::MAX) * 512);
}
