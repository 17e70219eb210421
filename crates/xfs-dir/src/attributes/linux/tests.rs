//! Tests of conversions between the attribute names of XFS and those of Linux.

use xfs_buffer::{Error, PosixError};
use xfs_format::attr::Namespace;
use xfs_testkit::golden;

use super::{linux_names, split_linux_name};
use crate::Attributes;
use crate::fixture::{lookup, volume};

fn names(namespace: Namespace, name: &str) -> Vec<String> {
    let names = linux_names(namespace, name.as_bytes());
    names.map(|name| String::from_utf8(name).unwrap()).collect()
}

#[test]
fn attributes_are_listed_under_their_linux_names() {
    assert_eq!(names(Namespace::User, "a.b"), ["user.a.b"]);
    assert_eq!(names(Namespace::Security, "capability"), ["security.capability"]);
    assert_eq!(names(Namespace::Trusted, "a"), ["trusted.a"]);
    assert_eq!(names(Namespace::User, "SGI_ACL_FILE"), ["user.SGI_ACL_FILE"]);
    let access = ["system.posix_acl_access", "trusted.SGI_ACL_FILE"];
    assert_eq!(names(Namespace::Trusted, "SGI_ACL_FILE"), access);
    let default = ["system.posix_acl_default", "trusted.SGI_ACL_DEFAULT"];
    assert_eq!(names(Namespace::Trusted, "SGI_ACL_DEFAULT"), default);
    assert!(names(Namespace::Parent, "a").is_empty());
}

#[test]
fn linux_names_are_split_into_namespace_and_name() {
    let split = |full: &'static str| {
        split_linux_name(full.as_bytes())
            .map(|(namespace, name)| (namespace, str::from_utf8(name).unwrap()))
    };
    assert_eq!(split("user.a.b"), Some((Namespace::User, "a.b")));
    assert_eq!(split("trusted.a"), Some((Namespace::Trusted, "a")));
    assert_eq!(split("security.a"), Some((Namespace::Security, "a")));
    let access = Some((Namespace::Trusted, "SGI_ACL_FILE"));
    assert_eq!((split("system.posix_acl_access"), split("trusted.SGI_ACL_FILE")), (access, access));
    assert_eq!(split("user."), Some((Namespace::User, "")));
    for name in ["", "user", "system.a", "a", "System.posix_acl_access"] {
        assert_eq!(split(name), None, "{name}");
    }
}

#[test]
fn access_control_lists_have_a_value_for_each_name() {
    let image = golden();
    let cache = volume(&image);
    let inode = lookup(&cache, &image, "acl").unwrap();
    let attributes = Attributes::new(&cache, &inode);
    let raw = attributes.lookup_linux(b"trusted.SGI_ACL_FILE").unwrap();
    assert_eq!(raw, attributes.lookup(Namespace::Trusted, b"SGI_ACL_FILE").unwrap());
    let posix = attributes.lookup_linux(b"system.posix_acl_access").unwrap();
    // Linux has a version of four bytes and eight bytes for each entry; XFS has a count and twelve.
    assert_eq!((posix.len() - 4) / 8, (raw.len() - 4) / 12);
    assert_eq!(posix[..4], [2, 0, 0, 0]);
    let nameless = attributes.lookup_linux(b"user.");
    assert!(matches!(nameless, Err(Error::Posix(PosixError::InvalidArgument))));
    let absent = attributes.lookup_linux(b"system.posix_acl_default");
    assert!(matches!(absent, Err(Error::Posix(PosixError::NoAttribute))));
}
