use super::id_tables::IdTables;
use super::{IdRange, Policy, parse_owner, parse_range, parse_rule, parse_time};
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::NamedValue;

#[test]
fn owners_ids_and_times_are_parsed() {
    assert_eq!(parse_owner("1:2".as_ref(), &IdTables::default()).unwrap(), (Some(1), Some(2)));
    assert_eq!(parse_owner("1".as_ref(), &IdTables::default()).unwrap(), (Some(1), None));
    assert_eq!(parse_owner(":2".as_ref(), &IdTables::default()).unwrap(), (None, Some(2)));
    assert!(parse_owner(":".as_ref(), &IdTables::default()).is_err());
    // No file could get this owner.
    assert!(parse_owner("4294967295:0".as_ref(), &IdTables::default()).is_err());
    assert!(parse_owner("0:4294967295".as_ref(), &IdTables::default()).is_err());
    let range = IdRange { from: 1, to: 2, count: 3 };
    assert_eq!(parse_range("1:2:3").unwrap(), range);
    for text in ["", "1", "1:", "1:2:3:4", "-1:2", "1:2:0", "4294967295:0", "0:4294967290:6"] {
        assert!(parse_range(text).is_err(), "{text}");
    }
    assert!(parse_range("0:4294967290:5").is_ok());
    assert_eq!(parse_time("-5", false).unwrap(), Some(Time { seconds: -5, nanoseconds: 0 }));
    assert_eq!(parse_time("clamp", true).unwrap(), None);
    assert!(parse_time("clamp", false).is_err());
}

#[test]
fn rules_for_modes_apply_in_order_and_not_to_links() {
    let rules = ["u=rwX,go=rX", "600:secret/*", "u+s:/bin/su"];
    let modes = rules.iter().map(|rule| parse_rule(&rule.into()).unwrap()).collect();
    let policy = Policy { modes, ..Policy::default() };
    let mode =
        |path: &str, mode| policy.change(path.as_bytes(), Facts { mode, ..Facts::default() }).mode;
    assert_eq!(mode("/x", 0o100_600), 0o100_644);
    assert_eq!(mode("x", 0o100_711), 0o100_755);
    assert_eq!(mode("d", 0o040_700), 0o040_755);
    assert_eq!(mode("/secret/key", 0o100_644), 0o100_600);
    assert_eq!(mode("bin/su", 0o100_755), 0o104_755);
    assert_eq!(mode("link", 0o120_777), 0o120_777);
}

#[test]
fn ids_in_lists_are_mapped_and_invalid_lists_stay() {
    let policy = Policy { id_map: vec![parse_range("1000:5:2").unwrap()], ..Policy::default() };
    let list = |id: u32| {
        let text = format!("user::rw-,user:{id}:r--,group::r--,mask::r--,other::---");
        crate::text::acl::archived_value(&text).0.unwrap()
    };
    let name = b"system.posix_acl_access".to_vec();
    let mapped = |value: Vec<u8>| {
        let attributes = vec![Ok(NamedValue { name: name.clone(), value })];
        let mut mapped = policy.relabel(b"/x", FileKind::Regular, attributes);
        mapped.pop().unwrap().unwrap().value
    };
    assert_eq!(mapped(list(1001)), list(6));
    assert_eq!(mapped(list(1002)), list(1002));
    assert_eq!(mapped(b"odd".to_vec()), b"odd");
}
