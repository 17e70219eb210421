//! Tests of hand-made records of reference counts, with the geometry of a volume that mkfs.xfs
//! made.

use super::{Refcount, RefcountCheck, RefcountDomain, Refcounts};
use crate::addr::{AgBlock, AgNumber};
use crate::btree::BtreeFormat;
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::group::Group;

const STAGING: u32 = 1 << 31;

fn decode(start: u32, count: u32, references: u32) -> Result<Refcount, Check> {
    let geometry = golden::geometry(golden!("plain.headers"));
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    let bytes = [start, count, references].map(u32::to_be_bytes).concat();
    Refcount::decode(&bytes, &group)
}

#[test]
fn top_bit_selects_the_domain() {
    let shared = decode(100, 5, 2).unwrap();
    assert_eq!((shared.domain, shared.start), (RefcountDomain::Shared, AgBlock(100)));
    let staging = decode(STAGING | 100, 5, 1).unwrap();
    assert_eq!((staging.domain, staging.start), (RefcountDomain::Staging, AgBlock(100)));
    assert_eq!(decode(100, 5, u32::MAX).unwrap().references, u32::MAX);
}

#[test]
fn counts_must_match_the_domain() {
    use RefcountCheck::{Range, Shared, Staging};
    let check = |start, count, references, expected| {
        assert_eq!(decode(start, count, references), Err(Check::Refcount(expected)));
    };
    check(100, 5, 0, Shared { start: 100, references: 0 });
    check(100, 5, 1, Shared { start: 100, references: 1 });
    check(STAGING | 100, 5, 2, Staging { start: 100, references: 2 });
    check(0, 5, 2, Range { start: 0, count: 5 });
    check(19199, 2, 2, Range { start: 19199, count: 2 });
    check(100, 0, 2, Range { start: 100, count: 0 });
}

#[test]
fn staging_sorts_after_shared() {
    let (shared, staging) = (decode(100, 5, 2).unwrap(), decode(STAGING | 50, 5, 1).unwrap());
    assert!(Refcounts::may_follow(&staging, &shared));
    assert!(!Refcounts::may_follow(&shared, &staging));
    assert!(Refcounts::may_follow(&decode(105, 1, 2).unwrap(), &shared));
    assert!(!Refcounts::may_follow(&decode(104, 1, 2).unwrap(), &shared));
    let key = Refcounts::decode_key(&(STAGING | 50).to_be_bytes());
    assert_eq!(key, Some(Refcounts::key(&staging)));
}
