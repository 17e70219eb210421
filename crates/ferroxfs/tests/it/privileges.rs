//! Tests of set-ID bits, file capabilities, and the owners that a file can have.

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::SetMode;
use ferroxfs::contents::{AllocateMode, LateTimes, RangeMode};
use ferroxfs::{NewKind, PosixError, SetAttributes, Volume};

use crate::writing::{PLAIN, check, posix};

/// A value of `security.capability` in version 2. The version is the highest byte of the first
/// word, which is little-endian.
const CAPABLE: [u8; 20] = {
    let mut value = [0; 20];
    value[3] = 2;
    value
};

/// Checks that a write or a new owner removes the capabilities of a file. This holds for root too,
/// although root keeps set-ID bits.
#[test]
fn write_or_new_owner_removes_capabilities() {
    let change = |volume: &Volume| {
        let root = volume.root().unwrap();
        let program = root.create("program", &NewKind::Regular, &PLAIN).unwrap();
        let wrong = program.set_attribute("security.capability", b"x", SetMode::Create);
        assert_eq!(posix(wrong), PosixError::InvalidArgument);
        program.set_attributes(&SetAttributes::new().mode(0o6755)).unwrap();
        let changes: [(&str, &dyn Fn()); 4] = [
            ("write", &|| assert_eq!(program.open().unwrap().write_at(b"new", 0).unwrap(), 3)),
            ("truncate", &|| program.open().unwrap().set_len(1).unwrap()),
            ("allocate", &|| {
                let mode = RangeMode::Allocate(AllocateMode::KeepSize);
                program.open().unwrap().change_range(0..4096, mode).unwrap();
            }),
            ("chown", &|| {
                program.set_attributes(&SetAttributes::new().uid(0)).unwrap();
            }),
        ];
        for (what, change) in changes {
            program.set_attribute("security.capability", &CAPABLE, SetMode::Create).unwrap();
            change();
            let capability = program.attribute("security.capability".as_ref());
            assert_eq!(posix(capability), PosixError::NoAttribute, "{what}");
        }
        program.set_attribute("security.capability", &CAPABLE, SetMode::Create).unwrap();
        program.set_attributes(&SetAttributes::new().mode(0o6750)).unwrap();
        // These bytes were written before the file got its capabilities.
        program.open().unwrap().write_back_at(b"older", 0, LateTimes::FromCaller).unwrap();
    };
    let look = |volume: &Volume| {
        let program = volume.lookup("/program").unwrap();
        assert_eq!(program.metadata().mode & 0o7777, 0o6750);
        assert_eq!(program.attribute("security.capability".as_ref()).unwrap(), CAPABLE);
    };
    check("-l size=16m", change, look);
}

/// To chown(2), the ID `u32::MAX` means "unchanged". The kernel refuses to change a file whose
/// owner or group has this ID. Checks that ferroxfs refuses the ID.
#[test]
fn largest_owner_number_is_refused() {
    let change = |volume: &Volume| {
        let root = volume.root().unwrap();
        for (uid, gid) in [(u32::MAX, 0), (0, u32::MAX)] {
            let nobodys = PLAIN.uid(uid).gid(gid);
            let refused = root.create("file", &NewKind::Regular, &nobodys).map(drop);
            assert_eq!(posix(refused), PosixError::InvalidArgument);
            let refused = root.create_unnamed(&nobodys).map(drop);
            assert_eq!(posix(refused), PosixError::InvalidArgument);
        }
        let (uid, gid) = (Some(u32::MAX), Some(u32::MAX));
        for changes in [
            {
                let mut changes = SetAttributes::new();
                changes.uid = uid;
                changes
            },
            {
                let mut changes = SetAttributes::new().mode(0);
                changes.gid = gid;
                changes
            },
        ] {
            assert_eq!(posix(root.set_attributes(&changes)), PosixError::InvalidArgument);
        }
        root.set_attributes(&SetAttributes::new().uid(u32::MAX - 1)).unwrap();
    };
    let look = |volume: &Volume| {
        let root = volume.root().unwrap().metadata();
        assert_eq!((root.uid, root.gid, root.mode & 0o7777), (u32::MAX - 1, 0, 0o755));
    };
    check("-l size=16m", change, look);
}

#[test]
fn append_only_program_loses_its_privileges() {
    let change = |volume: &Volume| {
        let program = volume.root().unwrap().create("program", &NewKind::Regular, &PLAIN).unwrap();
        assert!(!program.drop_privileges(true).unwrap());
        program.set_attribute("security.capability", &CAPABLE, SetMode::Create).unwrap();
        let (mode, append) = (Some(0o6755), ExtendedFlags::APPEND);
        let mut changes = SetAttributes::new();
        changes.mode = mode;
        program.set_attributes(&changes).unwrap();
        program.set_attributes(&SetAttributes::new().xflags(append)).unwrap();
        assert_eq!(
            posix(program.remove_attribute("security.capability")),
            PosixError::NotPermitted
        );
        assert!(program.drop_privileges(false).unwrap());
        assert_eq!(program.metadata().mode & 0o7777, 0o6755);
        assert!(program.drop_privileges(true).unwrap());
        assert!(!program.drop_privileges(true).unwrap());
    };
    let look = |volume: &Volume| {
        let program = volume.lookup("/program").unwrap();
        assert_eq!(program.metadata().mode & 0o7777, 0o755);
        let capability = program.attribute("security.capability".as_ref());
        assert_eq!(posix(capability), PosixError::NoAttribute);
    };
    check("-l size=16m", change, look);
}
