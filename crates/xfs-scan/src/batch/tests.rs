use super::{Batch, Link, RowItem, SharedRun, push_item};
use crate::row::Row;

/// Checks I1 of `xfs_scan::batch`: the items of a row are contiguous, and reading them gives the
/// items that were added.
#[test]
fn items_round_trip() {
    let items = [
        RowItem::Link(Link { parent: 128, parent_generation: 7, name: b"a" }),
        RowItem::Symlink(b"../target"),
        RowItem::Xattr(b"user.x"),
        RowItem::Shared(SharedRun { start: 1 << 40, length: 9 }),
        RowItem::Realtime(1 << 41),
        RowItem::Link(Link { parent: u64::MAX, parent_generation: 0, name: &[0xff; 255] }),
    ];
    let mut batch = Batch::default();
    batch.arena.extend_from_slice(b"something before");
    let start = batch.arena.len();
    for item in items {
        push_item(&mut batch.arena, item);
    }
    let mut row = Row::default();
    assert!(batch.place_items(&mut row, start));
    assert_eq!(batch.items(&row).collect::<Vec<_>>(), items);
    assert_eq!(batch.items(&row).links().count(), 2);
    assert_eq!(batch.items(&Row::default()).count(), 0);
}

#[test]
fn row_with_an_invalid_range_has_no_items() {
    let row = Row { items_start: 5, items_length: 5, ..Row::default() };
    assert_eq!(Batch::default().items(&row).count(), 0);
}
