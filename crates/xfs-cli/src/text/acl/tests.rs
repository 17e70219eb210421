use ferroxfs::attr::Acl;
use ferroxfs::attr::{AclCheck, AclTag};

use super::{AclBuilder, GivenEntry, InvalidEntry, entry_text, value_text};

fn given(text: &str) -> Vec<GivenEntry> {
    GivenEntry::parse_all(text).unwrap()
}

/// Finishes the list and returns its entries as text.
fn text(builder: AclBuilder) -> String {
    let list = builder.finish().unwrap();
    list.iter().flat_map(Acl::entries).map(entry_text).collect::<Vec<_>>().join(" ")
}

/// Sets these entries in the access control list of a directory. Before, the list is equivalent to
/// mode 0o640. Compares the resulting list, as text, with `expected`.
#[track_caller]
fn check_modified(entries: &str, expected: &str) {
    let mut builder = AclBuilder::of(Some(&Acl::from_mode(0o640)));
    builder.modify(&given(entries), true);
    builder.set_mask(false);
    assert_eq!(text(builder), expected);
}

#[test]
fn entries_change_a_list() {
    check_modified("u::7,o::r", "user::rwx group::r-- other::r--");
    check_modified("u:7:rw", "user::rw- user:7:rw- group::r-- mask::rw- other::---");
    check_modified(
        "user:9:x, user:7:r--\ngroup:5:X",
        "user::rw- user:7:r-- user:9:--x group::r-- group:5:--x mask::r-x other::---",
    );
    check_modified("u:7:rwx,m::r", "user::rw- user:7:rwx group::r-- mask::r-- other::---");
    check_modified("m:r,o:x", "user::rw- group::r-- mask::r-- other::--x");
    check_modified("u:root:r", "user::rw- user:0:r-- group::r-- mask::r-- other::---");
}

#[test]
fn entries_are_removed() {
    let list = AclBuilder::given(&given("u::6,u:7:7,g::6,g:8:1,m::4,o::0"), false);
    let mut builder = list.clone();
    builder.remove(&given("u:7,g:9"));
    assert_eq!(text(builder), "user::rw- group::rw- group:8:--x mask::r-- other::---");
    let mut builder = list.clone();
    builder.remove_extended();
    assert_eq!(text(builder), "user::rw- group::r-- other::---", "what was masked stays masked");
    let mut builder = list;
    builder.remove(&given("o:"));
    assert_eq!(builder.finish(), Err(AclCheck::Incomplete));
}

#[test]
fn new_list_is_completed() {
    let mut builder = AclBuilder::given(&given("u:7:rw"), false);
    builder.complete_from(&AclBuilder::of(Some(&Acl::from_mode(0o751))));
    builder.set_mask(false);
    assert_eq!(text(builder), "user::rwx user:7:rw- group::r-x mask::rwx other::--x");
}

#[test]
fn invalid_entries_are_refused() {
    for text in ["u", "x::r", "u:7:z", "u:7:8", "m:7:r", "d:"] {
        assert_eq!(GivenEntry::parse_all(text), Err(InvalidEntry::Entry(text.to_owned())));
    }
    let nobody = || "no-such-name-here".to_owned();
    assert_eq!(GivenEntry::parse_all("u:no-such-name-here:r"), Err(InvalidEntry::User(nobody())));
    assert_eq!(GivenEntry::parse_all("u:7:r:w"), Err(InvalidEntry::User("w".to_owned())));
    assert_eq!(
        GivenEntry::parse_all("d:g:no-such-name-here:r"),
        Err(InvalidEntry::Group(nobody()))
    );
    assert!(given("d:u:7:r")[0].is_default);
    assert!(!given("u:7")[0].has_permissions());
    assert_eq!(given("mask")[0].tag, AclTag::Mask);
}

#[test]
fn lists_become_text() {
    let entry = |tag: u8, permissions: u8, id: u8| [tag, 0, permissions, 0, id, 0, 0, 0];
    let list = [
        &[2, 0, 0, 0][..],
        &entry(0x01, 6, 255),
        &entry(0x02, 4, 7),
        &entry(0x04, 4, 255),
        &entry(0x10, 4, 255),
        &entry(0x20, 0, 255),
    ]
    .concat();
    let text = "user::rw-,user:7:r--,group::r--,mask::r--,other::---";
    assert_eq!(value_text(&list).as_deref(), Some(text));
    assert_eq!(value_text(&list[..5]), None);
    assert_eq!(value_text(b"\x01\0\0\0"), None);
    assert_eq!(value_text(b""), None);
}
