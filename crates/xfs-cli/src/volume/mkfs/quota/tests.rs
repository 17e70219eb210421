use ferroxfs::quota::{QuotaMode, QuotaType};

use super::{OwnerLimits, parse_type};

#[test]
fn types_have_the_names_of_mount_options() {
    assert_eq!(parse_type("pquota").unwrap(), (QuotaType::Project, QuotaMode::Enforce));
    assert_eq!(parse_type("usrquota").unwrap(), (QuotaType::User, QuotaMode::Enforce));
    assert_eq!(parse_type("gqnoenforce").unwrap(), (QuotaType::Group, QuotaMode::NoEnforce));
    for word in ["", "quota", "noquota", "uquota=1"] {
        assert!(parse_type(word).is_err(), "{word}");
    }
}

#[test]
fn limits_have_the_names_of_xfs_quota() {
    let parsed = OwnerLimits::parse(&"project=42:bsoft=1m,bhard=2m,isoft=3,ihard=4".into());
    let expected = OwnerLimits {
        kind: QuotaType::Project,
        id: 42,
        soft_bytes: 1 << 20,
        hard_bytes: 2 << 20,
        soft_inodes: 3,
        hard_inodes: 4,
    };
    assert_eq!(parsed.unwrap(), expected);
    for text in [
        "",
        "42:bhard=1m",
        "user=1000",
        "user=1000:",
        "user=1000:bhard",
        "user=1000:bhard=x",
        "user=1000:ihard=1k",
        "user=1000:bsoft=2m,bhard=1m",
        "user=1000:isoft=2,ihard=1",
        "owner=1000:bhard=1m",
        "user=-1:bhard=1m",
        "user=1000:rtbhard=1m",
    ] {
        assert!(OwnerLimits::parse(&text.into()).is_err(), "{text}");
    }
}
