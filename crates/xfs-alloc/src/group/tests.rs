//! Tests of blocks of a group that a btree takes although no transaction has reserved them.

use xfs_buffer::{Error, PosixError};
use xfs_format::AgNumber;
use xfs_format::reservation::TransactionKind;
use xfs_trans::testing::make_with;

use super::GroupSpace;
use crate::testing::open;

/// Lets a btree take blocks while all free blocks are reserved. Checks that these blocks count as a
/// debt, and that returned blocks reduce the debt before they count as free.
#[test]
fn blocks_that_come_back_pay_the_debt_first() {
    let journal = open(&make_with(""), 0);
    let available = || {
        let mut most = 0;
        for bit in (0..40).rev().map(|bit| 1_u64 << bit) {
            if let Ok(tx) = journal.begin(TransactionKind::Write, most + bit) {
                tx.cancel();
                most += bit;
            }
        }
        most
    };
    let before = available();
    let mut tx = journal.begin(TransactionKind::Write, before).unwrap();
    let group = GroupSpace::open(&mut tx, AgNumber(0)).unwrap().expect("the header is free");
    let refused = journal.begin(TransactionKind::Write, 1).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Posix(PosixError::NoSpace)), "all blocks are reserved");
    group.count_unreserved(&tx, 10);
    group.return_unreserved(&tx, 4).unwrap();
    group.return_unreserved(&tx, 25).unwrap();
    group.leave(&mut tx);
    tx.cancel();
    assert_eq!(available(), before + 19, "25 + 4 came back, and 10 of them were owed");
}
