//! Tests of names, times and sizes of FAT.

use super::{FatGeometry, FatTime, ShortNames, exact_short_name, long_entries, long_parts};

const MIB: u64 = 1 << 20;

#[test]
fn short_names_stand_alone_or_with_a_number() {
    for (name, short) in [("BOOTX64.EFI", b"BOOTX64 EFI"), ("EFI", b"EFI        ")] {
        assert_eq!(exact_short_name(name).as_ref(), Some(short));
        assert!(long_parts(name).is_empty());
    }
    for long in ["efi", "A.B.C", "NINELETTERS", "A.LONG", "A B", ".EFI", "\u{c9}", "A+B"] {
        assert_eq!(exact_short_name(long), None, "{long}");
    }
    let given = ["a long name.conf", "A long nest.CONF", "ALONGN~1.CON", "\u{e9}.x", ".hidden"];
    let mut names = ShortNames::reserve(given.into_iter());
    let short = given.map(|name| names.of(name));
    let expected = [b"ALONGN~2CON", b"ALONGN~3CON", b"ALONGN~1CON", b"_~1     X  ", b"~1      HID"];
    assert_eq!(short.each_ref(), expected);
    let mut many = ShortNames::reserve(std::iter::empty());
    let all: std::collections::HashSet<_> =
        (0..1000).map(|number| many.of(&format!("name of a file {number}"))).collect();
    assert_eq!(all.len(), 1000);
}

#[test]
fn long_names_end_with_zero_unless_they_fill_their_part() {
    let parts = long_parts("thirteen unit");
    assert_eq!((parts.len(), parts[0][12]), (1, u16::from(b't')));
    let parts = long_parts("fourteen units");
    assert_eq!((parts.len(), parts[1][0], parts[1][1]), (2, u16::from(b's'), 0));
    assert_eq!(parts[1][2], u16::MAX);
    let bytes = long_entries("fourteen units", b"FOURTE~1   ");
    assert_eq!((bytes[0], bytes[32]), (0x42, 1));
    assert_eq!(bytes[13], bytes[45]);
}

#[test]
fn geometry_is_fat32_and_its_tables_suffice() {
    for mib in [34, 63, 64, 127, 128, 255, 256, 511, 512, 1000, 4096, 32 << 10] {
        let FatGeometry { sectors, cluster_bytes, table_sectors, clusters } =
            FatGeometry::of(mib * MIB);
        assert!((65525..0x0fff_fff5).contains(&clusters), "{mib}: {clusters}");
        assert!((clusters + 2) * 4 <= table_sectors * 512, "{mib}");
        let used = 32 + 2 * table_sectors + clusters * (cluster_bytes / 512);
        assert!((sectors - cluster_bytes / 512..=sectors).contains(&used), "{mib}: {used}");
    }
}

#[test]
fn times_are_kept_within_the_years_of_fat() {
    let time = FatTime::of_seconds(1_700_000_001);
    assert_eq!((time.date >> 9, time.date >> 5 & 15, time.date & 31), (43, 11, 14));
    assert_eq!((time.time >> 11, time.time >> 5 & 63, time.time & 31), (22, 13, 10));
    assert_eq!(time.hundredths, 100);
    assert_eq!(FatTime::of_seconds(0), FatTime::FIRST);
    assert_eq!(FatTime::of_seconds(i64::MAX), FatTime::FIRST);
    assert_eq!(FatTime::of_seconds(200_000_000_000).date >> 9, 127);
}
