use xfs_format::agf::AGF_SECTOR;
use xfs_format::agi::AGI_SECTOR;
use xfs_format::reservation::TransactionKind;
use xfs_format::{AgNumber, BlockKind};

use super::GroupHeader::{self, Inodes, Space};
use super::Transaction;
use crate::testing::{make, open};

fn latch(tx: &mut Transaction<'_>, header: GroupHeader) {
    let (group, sector, kind) = match header {
        Inodes(group) => (group, AGI_SECTOR, BlockKind::Agi),
        Space(group) => (group, AGF_SECTOR, BlockKind::Agf),
    };
    let geometry = tx.geometry();
    let at = geometry.header_disk_addr(group, sector);
    let _ = tx.read(at, geometry.sector_size, kind).unwrap();
}

#[test]
fn step_waits_only_for_headers_above_those_it_keeps() {
    let journal = open(&make(), 0);
    let groups = || (0..4).map(AgNumber);
    let ascending: Vec<_> = groups().map(Inodes).chain(groups().map(Space)).collect();
    for (place, kept) in ascending.iter().enumerate() {
        let mut tx = journal.begin(TransactionKind::Write, 0).unwrap();
        assert!(ascending.iter().all(|header| tx.may_wait_for(*header)), "nothing is kept");
        latch(&mut tx, *kept);
        tx.keep_header(*kept);
        for (other, header) in ascending.iter().enumerate() {
            assert_eq!(tx.may_wait_for(*header), other >= place, "{header:?} after {kept:?} (I1)");
        }
        assert_eq!(tx.keeps_space(), matches!(kept, Space(_)));
        // A roll releases headers, and a lower one that is kept later does not replace a higher.
        tx.roll().unwrap();
        assert!(ascending.iter().all(|header| tx.may_wait_for(*header)), "all are released");
        tx.keep_header(*kept);
        tx.keep_header(Inodes(AgNumber(0)));
        assert!(tx.may_wait_for(*kept));
        assert_eq!(tx.may_wait_for(Inodes(AgNumber(0))), place == 0, "the highest counts");
        tx.cancel();
    }
}

#[cfg(debug_assertions)]
#[test]
#[should_panic = "I1"]
fn wait_below_a_header_that_was_kept_unrecorded_is_found() {
    let journal = open(&make(), 0);
    let mut tx = journal.begin(TransactionKind::Write, 0).unwrap();
    latch(&mut tx, Space(AgNumber(1)));
    let _ = tx.may_wait_for(Space(AgNumber(0)));
}
