use std::path::PathBuf;

use ferroxfs::quota::{QuotaMode, QuotaOptions};

use super::{ChannelKind, FuseMountOptions, OptionError, Service};
use crate::Checks;
use crate::server::{AccessTimes, SyncPolicy};

fn parse(list: &str) -> Result<FuseMountOptions, OptionError> {
    let mut options = FuseMountOptions::default();
    options.add(list).map(|()| options)
}

#[test]
fn mount_is_nosuid_and_nodev_by_default() {
    let facts = parse("rw,noatime").expect("options").facts(PathBuf::from("image"));
    assert_eq!((facts.suid, facts.dev, facts.exec, facts.read_only), (false, false, true, false));
    let facts = parse("suid,dev,noexec,ro").expect("options").facts(PathBuf::from("image"));
    assert_eq!((facts.suid, facts.dev, facts.exec, facts.read_only), (true, true, false, true));
}

/// Checks that `allow_suid` and `allow_dev` permit set-ID bits and devices, unless a later option
/// forbids them. Only ferroxfs has these two options, so mount(8) passes them on to ferroxfs.
/// mount(8) does not pass on `suid` and `dev`.
#[test]
fn allow_suid_and_allow_dev_survive_mount() {
    for (list, expected) in [
        ("allow_suid", (true, false)),
        ("allow_dev", (false, true)),
        ("nosuid,nodev,allow_suid,allow_dev", (true, true)),
        ("allow_suid,allow_dev,nosuid,nodev", (false, false)),
    ] {
        let facts = parse(list).expect("options").facts(PathBuf::from("image"));
        assert_eq!((facts.suid, facts.dev), expected, "{list}");
    }
}

#[test]
fn later_option_wins() {
    assert!(!parse("ro,rw").expect("options").is_read_only());
    assert!(parse("rw,ro").expect("options").is_read_only());
    for (list, expected) in [
        ("sync,async", SyncPolicy::Asked),
        ("async,sync", SyncPolicy::All),
        ("sync,wsync,async", SyncPolicy::Names),
        ("dirsync,async", SyncPolicy::Names),
    ] {
        assert_eq!(parse(list).expect("options").settings().durability, expected, "{list}");
    }
    parse("sync,async,writeback_cache").expect("options").open_options().expect("no conflict");
}

/// Checks that `norecovery` makes the volume read-only. The kernel accepts `norecovery` only with
/// `ro`.
#[test]
fn norecovery_implies_read_only() {
    for read in ["norecovery", "norecovery,ro", "rw,norecovery,ro"] {
        let options = parse(read).expect(read);
        assert!(options.is_read_only() && options.open_options().is_ok(), "{read}");
    }
    for written in ["norecovery,rw", "rw,norecovery", "ro,norecovery,rw"] {
        let both = parse(written).expect(written).open_options();
        let expected = OptionError::Conflict { first: "norecovery", second: "rw" };
        assert_eq!(both.expect_err(written), expected);
    }
}

#[test]
fn damaged_implies_read_only_and_excludes_checks_by_the_server() {
    for read in ["damaged", "damaged,ro", "rw,ro,damaged", "damaged,norecovery"] {
        let options = parse(read).expect(read);
        assert!(options.is_damaged() && options.is_read_only(), "{read}");
        assert!(options.open_options().is_ok(), "{read}");
    }
    for (both, second) in [
        ("damaged,rw", "rw"),
        ("rw,damaged", "rw"),
        ("damaged,nodefault_permissions", "nodefault_permissions"),
    ] {
        let error = parse(both).expect(both).open_options().expect_err(both);
        assert_eq!(error, OptionError::Conflict { first: "damaged", second });
    }
}

#[test]
fn options_set_the_settings() {
    let settings = parse("wsync,sync,noatime,uid=7,gid=8,threads=3").expect("options").settings();
    assert_eq!((settings.uid, settings.gid), (Some(7), Some(8)));
    assert_eq!(settings.durability, SyncPolicy::All);
    assert_eq!(settings.access_times, AccessTimes::Never);
    assert!(!settings.lazy_times);
    assert!(parse("lazytime").expect("options").settings().lazy_times);
    assert_eq!(parse("sync,wsync").expect("options").settings().durability, SyncPolicy::All);
}

#[test]
fn nodiratime_affects_only_directories() {
    for (list, expected) in [
        ("relatime", AccessTimes::Relative),
        ("nodiratime", AccessTimes::Files),
        ("relatime,nodiratime", AccessTimes::Files),
        ("nodiratime,relatime", AccessTimes::Files),
        ("noatime,nodiratime", AccessTimes::Never),
        ("nodiratime,noatime", AccessTimes::Never),
        ("noatime,relatime", AccessTimes::Relative),
        ("noatime,atime", AccessTimes::Relative),
        ("noatime,norelatime", AccessTimes::Never),
        ("nodiratime,diratime", AccessTimes::Relative),
        ("diratime,nodiratime", AccessTimes::Files),
        ("nodiratime,noatime,relatime", AccessTimes::Files),
    ] {
        assert_eq!(parse(list).expect("options").settings().access_times, expected, "{list}");
    }
}

#[test]
fn sizes_accept_suffixes() {
    assert_eq!(parse("cache=256M").expect("options").cache_bytes, Some(256 << 20));
    assert_eq!(parse("offset=1048576").expect("options").offset, Some(1 << 20));
    for bad in ["cache=1", "cache=", "cache=99999999T", "offset=x", "threads=0", "uid=-1"] {
        assert!(matches!(parse(bad), Err(OptionError::Value { .. })), "{bad}");
    }
}

#[test]
fn refused_option_is_named_in_the_error() {
    for name in ["strictatime", "ikeep", "swalloc"] {
        let refused = parse(name).expect_err(name);
        assert!(refused.is_refusal() && refused.to_string().starts_with(name), "{refused}");
    }
    let refused = parse("sunit=8").expect_err("sunit");
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(parse("nonsense"), Err(OptionError::Unknown { name: "nonsense".to_owned() }));
    for both in ["partition=1,offset=512", "writeback_cache,sync"] {
        let both = parse(both).expect("options").open_options();
        assert!(matches!(both, Err(OptionError::Conflict { .. })));
    }
}

#[test]
fn quota_options_choose_types_and_the_later_one_counts() {
    let quota = |list| parse(list).expect("options").quota;
    let expected = QuotaOptions::new().user(QuotaMode::NoEnforce).project(QuotaMode::Enforce);
    assert_eq!(quota("uquota,uqnoenforce,prjquota"), expected);
    assert_eq!(quota("uquota,gquota,noquota"), QuotaOptions::all(QuotaMode::Off));
    assert_eq!(quota("noquota,grpquota").group, QuotaMode::Enforce);
}

#[test]
fn missing_value_is_reported() {
    for name in ["offset", "partition", "logdev", "rtdev", "cache", "threads", "uid", "gid"] {
        let error = parse(name).expect_err(name);
        assert_eq!(error, OptionError::ValueMissing { name: name.to_owned() });
        assert!(
            error.to_string().starts_with(&format!("{name}: value missing: expected ")),
            "{error}"
        );
    }
}

/// Checks that each XFS option of Linux 6.18, and each that Linux has dropped lately, is either
/// accepted or refused with a reason. None of them is an unknown option.
#[test]
fn every_option_of_kernel_xfs_is_known() {
    for accepted in [
        "nouuid,inode64,noquota,nodiscard,norecovery",
        "quota,usrquota,uquota,grpquota,gquota,prjquota,pquota",
        "qnoenforce,uqnoenforce,gqnoenforce,pqnoenforce",
        "attr2,noikeep,nolargeio,nogrpid,sysvgroups,wsync,logdev=/dev/null",
        "dax=inode,dax=never",
    ] {
        parse(accepted).expect(accepted);
    }
    for refused in [
        "noalign swalloc sunit=8 swidth=8 allocsize=64k largeio filestreams inode32 ikeep noattr2",
        "logbufs=8 logbsize=32k lifetime nolifetime max_open_zones=6",
        "discard dax dax=always grpid bsdgroups max_atomic_write=1m errortag=1",
    ] {
        for option in refused.split(' ') {
            assert!(parse(option).expect_err(option).is_refusal(), "{option}");
        }
    }
}

#[test]
fn kernel_checks_permissions_by_default() {
    let checks = |list| parse(list).expect("options").settings().checks;
    assert_eq!(checks("rw"), Checks::Kernel);
    assert_eq!(checks("nodefault_permissions"), Checks::Server);
    assert_eq!(checks("nodefault_permissions,default_permissions"), Checks::Kernel);
    for allowed in ["io_uring", "ro", "suid", "lazytime", "sync", "threads=1", "norecovery"] {
        let list = format!("nodefault_permissions,{allowed}");
        parse(&list).expect(&list).open_options().expect(&list);
    }
    for (option, second) in [
        ("allow_other", "allow_other"),
        ("writeback_cache", "writeback_cache"),
        ("uid=0", "uid"),
        ("gid=0", "gid"),
        ("dev", "dev"),
    ] {
        let both = parse(&format!("nodefault_permissions,{option}")).expect(option).open_options();
        let expected = OptionError::Conflict { first: "nodefault_permissions", second };
        assert_eq!(both.expect_err(option), expected);
    }
}

#[test]
fn io_uring_option_selects_rings() {
    let service = |list| parse(list).expect("options").service();
    assert_eq!(service("threads=3").channel, ChannelKind::Device);
    let three = Service { threads: 3, spare: 0, channel: ChannelKind::IoUring };
    assert_eq!(service("threads=3,io_uring"), three);
}

#[test]
fn writeback_cache_needs_a_writable_mount() {
    assert!(parse("writeback_cache").expect("options").settings().writeback);
    assert!(!parse("writeback_cache,ro").expect("options").settings().writeback);
    assert!(!parse("rw").expect("options").settings().writeback);
}

#[test]
fn options_of_other_programs_are_ignored() {
    parse("defaults,x-systemd.automount,nofail,comment=a,_netdev,,fsname=b").expect("options");
}

/// Checks that each option that mount(8) of util-linux 2.41 documents for every filesystem is
/// either accepted or refused with a reason. None of them is an unknown option.
#[test]
fn every_option_of_mount8_is_known() {
    for accepted in [
        "async atime noatime auto noauto defaults dev nodev diratime nodiratime dirsync exec noexec group",
        "iversion nomand _netdev nofail relatime norelatime nostrictatime lazytime nolazytime suid nosuid",
        "silent loud owner remount ro rw sync user nouser users symfollow nosymfollow user=somebody",
        "nousers noowner nogroup X-mount.mkdir X-mount.mkdir=0755 X-mount.owner=1 x-systemd.automount",
        "comment=a uhelper=udisks2 helper=fuse",
    ] {
        for option in accepted.split(' ') {
            parse(option).expect(option);
        }
    }
    for refused in [
        "strictatime noiversion mand context=a fscontext=a defcontext=a rootcontext=a",
        "loop loop=/dev/loop0 sizelimit=1 bind rbind move private rprivate shared rshared slave",
        "rslave unbindable runbindable ro=vfs nosuid=recursive",
    ] {
        for option in refused.split(' ') {
            assert!(parse(option).expect_err(option).is_refusal(), "{option}");
        }
    }
}

#[test]
fn symlinks_are_followed_by_default() {
    let symlinks = |list| parse(list).expect("options").facts(PathBuf::from("image")).symlinks;
    assert!(symlinks("rw") && symlinks("nosymfollow,symfollow"));
    assert!(!symlinks("nosymfollow"));
}
