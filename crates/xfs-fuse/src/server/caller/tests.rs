use ferroxfs::Capabilities;

use super::{CallerId, CallerRights, Callers, Proc, ProcAccess, Status, maps_all, namespaces};

const TEXT: &str = "Name:\tevil Uid:\t0\t0\t0\t0\nUmask:\t0022\nState:\tS (sleeping)\nNgid:\t0\nPid:\t4711\n\
    Uid:\t1000\t1001\t1002\t1003\nGid:\t2000\t2001\t2002\t2003\nFDSize:\t64\nGroups:\t4 24 2003 \n\
    NSpid:\t4711\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n\
    CapEff:\t0000000000000003\nCapBnd:\t000001ffffffffff\n";

fn parse(text: &str) -> Option<Status> {
    Status::parse(text.as_bytes())
}

#[test]
fn status_of_a_thread_is_parsed() {
    let status = parse(TEXT).expect("a status");
    assert_eq!((status.uid, status.gid), (1003, 2003));
    assert_eq!(status.groups, [4, 24, 2003]);
    assert_eq!(status.capabilities, Capabilities::CHOWN | Capabilities::DAC_OVERRIDE);
    let none = parse(&TEXT.replace("Groups:\t4 24 2003 ", "Groups:\t ")).expect("a status");
    assert_eq!(none.groups, []);
    // Capabilities of future kernels are ignored.
    let all = TEXT.replace("CapEff:\t0000000000000003", "CapEff:\tffffffffffffffff");
    assert_eq!(parse(&all).expect("a status").capabilities, Capabilities::all());
}

#[test]
fn malformed_status_yields_nothing() {
    for line in ["Uid:\t", "Gid:\t", "Groups:\t", "CapEff:\t"] {
        assert_eq!(parse(&TEXT.replace(&format!("\n{line}"), "\nOther:\t")), None, "{line}");
        assert_eq!(
            parse(&TEXT.replace(&format!("\n{line}"), &format!("\n{line}x"))),
            None,
            "{line}"
        );
    }
    assert_eq!(parse(&TEXT.replace("1000\t1001\t1002\t1003", "1000\t1001\t1002")), None);
    assert_eq!(parse(&TEXT.replace("1003", "-1")), None);
    assert_eq!(parse(""), None);
    for length in 0..TEXT.find("CapBnd").expect("the last line") - 2 {
        // A truncated status yields nothing or fewer capabilities: they come last.
        let cut = Status::parse(&TEXT.as_bytes()[..length]);
        assert!(cut.is_none_or(|status| status.capabilities.is_empty()), "{length}");
    }
}

#[test]
fn process_namespaces_are_counted() {
    assert_eq!(namespaces(TEXT.as_bytes()), 1);
    assert_eq!(namespaces(TEXT.replace("NSpid:\t4711", "NSpid:\t4711\t1").as_bytes()), 2);
    assert_eq!(namespaces(b"Name:\told\n"), 1);
}

#[test]
fn id_map_with_gaps_is_detected() {
    assert!(maps_all("         0          0 4294967295\n"));
    assert!(maps_all("0 0 1000\n1000 5000 4294966295\n"));
    assert!(!maps_all("         0       1000          1\n"));
    assert!(!maps_all(""));
}

fn myself() -> CallerId {
    let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    CallerId { uid: uid.as_raw(), gid: gid.as_raw(), thread }
}

/// Checks I5 of `xfs_fuse::server::caller`: a thread has the groups and capabilities that system
/// calls report, except that the overflow group is left out.
#[test]
fn calling_thread_has_its_own_rights() {
    let proc = Proc::open().expect("/proc");
    let groups: Vec<u32> = rustix::process::getgroups()
        .expect("groups")
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .filter(|group| Some(*group) != proc.nobodys)
        .collect();
    let effective = rustix::thread::capabilities(None).expect("capabilities").effective;
    let capabilities = Capabilities::from_bits_truncate(effective.bits());
    assert_eq!(proc.rights(myself()), CallerRights { groups, capabilities });
}

/// Checks I2 of `xfs_fuse::server::caller`: a thread ID or a user that /proc does not confirm gives
/// no groups and no capabilities.
#[test]
fn unknown_caller_has_no_rights() {
    let proc = Proc::open().expect("/proc");
    let me = myself();
    for asked in [
        CallerId { thread: 0, ..me },
        CallerId { thread: u32::MAX, ..me },
        // The credentials of another user or group.
        CallerId { uid: me.uid + 1, ..me },
        CallerId { gid: me.gid + 1, ..me },
    ] {
        assert_eq!(proc.rights(asked), CallerRights::default(), "{asked:?}");
    }
}

#[test]
fn helper_thread_reads_the_same_rights() {
    let [here, there] =
        [ProcAccess::Worker, ProcAccess::Helper].map(|by| Callers::new(by).expect("/proc"));
    let by_reader = there.reader.as_ref().map(|reader| reader.rights(myself()));
    assert_eq!(by_reader, Some(here.proc.rights(myself())));
    assert!(here.reader.is_none());
}
