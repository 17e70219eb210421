use xfs_format::timestamp::Timestamp;

use super::{ByteList, Moment, ParentDirectory, Row, RowView};

#[track_caller]
fn check_moment(seconds: i64, nanoseconds: u32, expected: Option<i64>) {
    let moment = Moment::new(Timestamp::new(seconds, nanoseconds).unwrap());
    assert_eq!(moment.nanoseconds(), expected);
    assert_eq!(moment.seconds(), seconds);
}

#[test]
fn moments_cover_both_timestamp_formats() {
    check_moment(0, 0, Some(0));
    check_moment(-1, 999_999_999, Some(-1));
    check_moment(i64::from(i32::MIN), 0, Some(-2_147_483_648_000_000_000));
    check_moment(i64::from(i32::MAX), 999_999_999, Some(2_147_483_647_999_999_999));
    check_moment(9_223_372_036, 854_775_807, Some(i64::MAX));
    check_moment(9_223_372_036, 854_775_808, None);
    check_moment(16_299_260_425, 0, None);
}

#[test]
fn device_numbers_are_packed_as_linux_does() {
    let rdev =
        |major: u32, minor: u32| Row { packed_rdev: major << 18 | minor, ..Row::default() }.rdev();
    assert_eq!(rdev(8, 1), 0x801);
    assert_eq!(rdev(259, 0x12345), 0x1231_0345);
    assert_eq!(rdev(0, 0), 0);
}

#[test]
fn byte_list_round_trips() {
    let mut list = ByteList::default();
    list.push(b"one");
    list.push(b"");
    list.push(b"three");
    assert_eq!(list.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
    list.clear();
    assert!(list.is_empty());
    assert_eq!(list.iter().count(), 0);
}

#[test]
fn parents_are_in_the_order_of_the_columns_of_paths() {
    let mut paths = ByteList::default();
    [&b"/\xff"[..], b"/a", b"/\xfe", b"/b"].iter().for_each(|path| paths.push(path));
    let parents = [1, 2, 3, 4].map(|ino| ParentDirectory { ino, generation: 0 });
    let view = RowView {
        row: &Row::default(),
        ag: 0,
        block_units_log: 3,
        paths: &paths,
        parents: &parents,
        is_orphan: false,
        hash: None,
        symlink: None,
        xattrs: &ByteList::default(),
        realtime_fs_blocks: 0,
        names: None,
    };
    let order: Vec<u64> = view.parents_in_columns().map(|parent| parent.ino).collect();
    assert_eq!(order, [2, 4, 1, 3]);
}
