//! Tests of reading tables of users and groups, such as /etc/passwd.

use super::NameTable;

#[test]
fn table_of_users_has_the_first_name_of_each_id() {
    let table =
        NameTable::parse(b"root:x:0:0::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\nu7:x:7:7\nbad:x:y\n");
    assert_eq!(table.find(0), Some(b"root".as_slice()));
    assert_eq!(table.find(7), Some(b"u7".as_slice()));
    assert_eq!(table.find(8), None);
}

#[test]
fn table_of_projects_has_the_id_after_the_name() {
    let table = NameTable::parse(b"# comment:5\nlogs:6\n\nhome: 70000\n");
    assert_eq!(table.find(6), Some(b"logs".as_slice()));
    assert_eq!(table.find(70_000), Some(b"home".as_slice()));
    assert_eq!(table.find(5), None);
    assert_eq!(table.find_id(b"logs"), Some(6));
}
