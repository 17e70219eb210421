use expect_test::expect;

use super::Summary;
use crate::row::{ByteList, Moment, OwnerNames, Row, RowView};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

fn add(summary: &mut Summary, row: Row, path: &str) {
    let mut paths = ByteList::default();
    if !path.is_empty() {
        paths.push(path.as_bytes());
    }
    let view = RowView {
        row: &row,
        ag: 0,
        block_units_log: 3,
        paths: &paths,
        is_orphan: path.is_empty(),
        hash: None,
        symlink: None,
        xattrs: &ByteList::default(),
        realtime_fs_blocks: 0,
        parents: &[],
        names: None,
    };
    summary.add(&view, std::iter::once(128).filter(|_| !path.is_empty()));
}

fn row(ino: u64, mode: u32, size: u64, age_days: i64) -> Row {
    let stamp = xfs_format::timestamp::Timestamp::new(NOW - age_days * DAY, 0).unwrap();
    let fs_blocks = size.div_ceil(4096);
    Row {
        ino,
        mode,
        size,
        fs_blocks,
        mtime: Moment::new(stamp),
        nlink: 1,
        extents: 1,
        ..Row::default()
    }
}

#[test]
fn summary_report_shows_owners_types_and_ages() {
    let mut parts = [Summary::new(NOW), Summary::new(NOW)];
    let [first, second] = &mut parts;
    add(first, row(128, 0o040_755, 4096, 0), "");
    add(first, Row { nlink: 2, ..row(131, 0o100_644, 5_000_000, 2) }, "/a\u{1b}[2J");
    add(first, Row { uid: 1000, extents: 70, ..row(132, 0o100_644, 1 << 30, 400) }, "/big");
    add(second, Row { uid: 1000, ..row(133, 0o120_777, 9, 10) }, "/link");
    add(second, row(134, 0o100_600, 1, 4000), "");
    let mut summary = Summary::new(NOW);
    for part in parts {
        summary.merge(part);
    }
    summary.finish_volume(|_| b"/".to_vec());
    // The volumes agree on the name of uid 1000 only.
    for user in ["root", "toor"] {
        let users = [(0, user.to_owned()), (1000, "ruth".to_owned())].into();
        summary.add_owner_names(&OwnerNames { users, ..OwnerNames::default() });
    }
    expect![[r#"
        5 inodes, 1.0 GiB in size, 1.0 GiB allocated
        1 file with several links, 0 inodes with attribute blocks, 2 orphans (8.0 KiB)

        By type                inodes         size    allocated  bar: inodes
          directory                 1      4.0 KiB      4.0 KiB  ######
          file                      3      1.0 GiB      1.0 GiB  ##################
          symlink                   1          9 B      4.0 KiB  ######

        By owner               inodes         size    allocated  bar: allocated
          ruth (1000)               2      1.0 GiB      1.0 GiB  ##############################
          uid 0                     3      4.7 MiB      4.7 MiB  #

        Files by size          inodes         size    allocated  bar: inodes
          1 B                       1          1 B      4.0 KiB  ##############################
          4.0 MiB ..                1      4.7 MiB      4.7 MiB  ##############################
          1.0 GiB ..                1      1.0 GiB      1.0 GiB  ##############################

        Files by extents       inodes         size    allocated  bar: inodes
          1                         2      4.7 MiB      4.7 MiB  ##############################
          64 ..                     1      1.0 GiB      1.0 GiB  ###############

        Changed within         inodes         size    allocated  bar: inodes
          a day                     1      4.0 KiB      4.0 KiB  ######
          a week                    1      4.7 MiB      4.7 MiB  ######
          30 days                   1          9 B      4.0 KiB  ######
          90 days                   0          0 B          0 B
          a year                    0          0 B          0 B
          3 years                   1      1.0 GiB      1.0 GiB  ######
          older                     1          1 B      4.0 KiB  ######

        Entries of a directory   directories
          2 ..                             1

        Biggest files
               1.0 GiB  /big
               4.7 MiB  /a\u{1b}[2J
                   1 B  (orphan, inode 134)

        Most extents
                    70  /big

        Most entries
                     3  /
    "#]]
    .assert_eq(&summary.to_string());
}

#[test]
fn top_inodes_do_not_depend_on_the_order() {
    let mut top = super::TopInodes::default();
    let mut reversed = super::TopInodes::default();
    // Five rank highest, and fifteen share the next rank, of which not all fit.
    for ino in 0..50_u64 {
        top.add(ino / 15 + 1, ino, Vec::new);
        reversed.add((49 - ino) / 15 + 1, 49 - ino, Vec::new);
    }
    assert_eq!(top.sorted(), reversed.sorted());
    let inodes: Vec<u64> = top.sorted().iter().map(|big| big.ino).collect();
    assert_eq!(inodes, [45, 46, 47, 48, 49, 30, 31, 32, 33, 34]);
}
