use xfs_format::acl::{AclCheck, AclEntry, AclTag};

use super::Acl;

fn entry(tag: AclTag, permissions: u16) -> AclEntry {
    AclEntry { tag, permissions }
}

/// Returns an access control list with these permissions for the owner, user 7, the owning group,
/// the mask and others.
fn named(permissions: [u16; 5]) -> Acl {
    let tags = [AclTag::Owner, AclTag::User(7), AclTag::OwningGroup, AclTag::Mask, AclTag::Other];
    Acl::new(tags.into_iter().zip(permissions).map(|(tag, p)| entry(tag, p)).collect()).unwrap()
}

#[test]
fn mode_bits_and_list_agree() {
    let plain = Acl::from_mode(0o100_754);
    assert!(plain.is_minimal());
    assert_eq!(plain.mode_bits(), 0o754);
    assert_eq!(plain.with_mode(0o4620), Acl::from_mode(0o620));
    let list = named([7, 6, 5, 4, 1]);
    assert!(!list.is_minimal());
    assert_eq!(list.mode_bits(), 0o741, "the group bits are not the mask");
    assert_eq!(list.with_mode(0o100_620), named([6, 6, 5, 2, 0]), "a named entry changed");
}

#[test]
fn inherited_list_grants_no_more_than_the_mode() {
    let list = named([7, 7, 5, 6, 5]);
    assert_eq!(list.inherited(0o100_640), (named([6, 7, 5, 4, 0]), 0o100_640));
    assert_eq!(list.inherited(0o042_777), (list.clone(), 0o042_765));
    let plain = Acl::from_mode(0o750);
    assert_eq!(plain.inherited(0o100_666), (Acl::from_mode(0o640), 0o100_640));
}

#[track_caller]
fn check_invalid(entries: &[AclEntry], expected: AclCheck) {
    assert_eq!(Acl::new(entries.to_vec()), Err(expected));
}

#[test]
fn invalid_list_is_refused() {
    let [owner, group, other] =
        [AclTag::Owner, AclTag::OwningGroup, AclTag::Other].map(|tag| entry(tag, 7));
    let (user, mask) = (entry(AclTag::User(1), 7), entry(AclTag::Mask, 7));
    check_invalid(&[], AclCheck::Incomplete);
    check_invalid(&[owner, group], AclCheck::Incomplete);
    check_invalid(&[owner, other, group], AclCheck::Order);
    check_invalid(&[owner, owner, group, other], AclCheck::Order);
    check_invalid(&[owner, group, mask, mask, other], AclCheck::Order);
    check_invalid(&[owner, user, group, other], AclCheck::NoMask);
    check_invalid(
        &[owner, entry(AclTag::User(u32::MAX), 7), group, mask, other],
        AclCheck::ReservedId,
    );
    assert!(Acl::new(vec![owner, group, mask, other]).is_ok());
    assert!(Acl::new(vec![owner, user, group, mask, other]).is_ok());
}
