use alloc::vec;
use alloc::vec::Vec;

use super::MetadataRootLayout;
use crate::btree::{BtreeHeader, BtreeIdentity, BtreeKind};
use crate::checks::btree::BtreeCheck;
use crate::golden::{self, golden};
use crate::{DiskAddr, Geometry};

fn layout(kind: BtreeKind, fork_bytes: usize) -> MetadataRootLayout {
    MetadataRootLayout { kind, fork_bytes }
}

/// Returns a root in the form of a whole block, with a distinct byte in each entry.
fn block(geometry: &Geometry, kind: BtreeKind, level: u16, count: u16) -> Vec<u8> {
    let mut block = vec![0; geometry.block_size as usize];
    let identity = BtreeIdentity { kind, owner: 7, address: DiskAddr::NULL };
    BtreeHeader { identity, level, count, left: None, right: None }.encode(geometry, &mut block);
    let sizes = kind.layout();
    let mut fill = |start: usize, width: usize, first: u8| {
        for index in 0..usize::from(count) {
            block[start + index * width..][..width].fill(first + index as u8);
        }
    };
    if level == 0 {
        fill(sizes.header_bytes(), sizes.record_bytes, 1);
    } else {
        fill(sizes.header_bytes(), sizes.node_key_bytes(), 1);
        fill(sizes.pointers_offset(geometry.block_size), sizes.pointer_bytes(), 0x80);
    }
    block
}

#[test]
fn root_comes_back_from_its_inode() {
    let geometry = golden::geometry(golden!("plain.headers"));
    for kind in [BtreeKind::RealtimeReverseMap, BtreeKind::RealtimeRefcount] {
        let layout = layout(kind, 192);
        for level in [0, 1, 3] {
            for count in u16::from(level > 0)..=layout.capacity(level.into()) as u16 {
                let whole = block(&geometry, kind, level, count);
                let mut fork = vec![0xff; 192];
                layout.pack(level.into(), count.into(), &whole, &mut fork);
                assert_eq!(layout.header(&fork).unwrap(), (level.into(), count.into()));
                let mut again = block(&geometry, kind, level, 0);
                again[6..8].copy_from_slice(&count.to_be_bytes());
                layout.unpack(&fork, &mut again).unwrap();
                assert!(again == whole, "{kind:?}, level {level}, {count} entries");
            }
        }
    }
}

/// Checks the capacities of a root and the offset of its pointers against values from an image that
/// the kernel wrote.
#[test]
fn pointers_of_a_root_lie_after_the_room_for_keys() {
    let geometry = golden::geometry(golden!("plain.headers"));
    for (kind, fork_bytes, capacity, pointers) in [
        (BtreeKind::RealtimeReverseMap, 192, [7, 3], 124),
        (BtreeKind::RealtimeRefcount, 196, [16, 12], 52),
    ] {
        let layout = layout(kind, fork_bytes);
        assert_eq!([layout.capacity(0), layout.capacity(1)], capacity);
        let mut fork = vec![0; fork_bytes];
        layout.pack(1, 1, &block(&geometry, kind, 1, 1), &mut fork);
        assert_eq!(fork[pointers..pointers + 8], [0x80; 8]);
        assert_eq!(fork[pointers - 1], 0);
        let [keys, children] = layout.parts(&fork).unwrap();
        assert_eq!((keys.len(), children), (kind.layout().node_key_bytes(), &[0x80; 8][..]));
    }
}

#[test]
fn root_with_more_entries_than_room_is_refused() {
    let layout = layout(BtreeKind::RealtimeReverseMap, 192);
    for (level, count) in [(0_u16, 8_u16), (1, 4), (1, 0)] {
        let mut fork = vec![0; 192];
        fork[..2].copy_from_slice(&level.to_be_bytes());
        fork[2..4].copy_from_slice(&count.to_be_bytes());
        assert!(matches!(layout.header(&fork), Err(BtreeCheck::Count { .. })), "{level}, {count}");
    }
    assert!(layout.header(&[0; 100]).is_err());
}
