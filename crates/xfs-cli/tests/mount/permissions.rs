//! Tests of permissions that the server checks (`nodefault_permissions`). The results must be the
//! same as on a mount of the kernel's XFS.
//!
//! The cases are the same as in the comparison of the library with the kernel. Each case runs on
//! both mounts, with the same system calls of the same thread. `FERROXFS_SEED=N` repeats one case;
//! `FERROXFS_LONG=1` runs more cases.

mod actor;
#[path = "../../../ferroxfs/tests/kernel/permissions/comparison.rs"]
mod comparison;
#[path = "../../../ferroxfs/tests/kernel/permissions/kernel.rs"]
mod kernel;
#[path = "../../../ferroxfs/tests/kernel/permissions/operation.rs"]
mod operation;
#[path = "../../../ferroxfs/tests/kernel/permissions/scene.rs"]
mod scene;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroxfs::Capabilities;
use rustix::io::Errno;
use xfs_oracle::Random;
use xfs_oracle::harness::{Trial, TrialError, seeds};

use crate::agreement;
use crate::mounted::{Mounted, ferroxfs, is_long, mounted, run, said, volume};
use actor::Actor;
use comparison::{Answer, Outcomes, compare};
use kernel::{build, perform};
use operation::{Made, Operation};
use scene::{Found, Kind, Scene};

/// The number of cases of a usual run. A long run has more.
const CASES: u64 = 1500;
const LONG_CASES: u64 = 60_000;
const CHECKED: &str = "nodefault_permissions,suid";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("server_checks_as_the_kernel_does", server_checks_as_the_kernel_does),
        Trial::new(
            "server_in_a_sandbox_checks_as_the_kernel_does",
            server_in_a_sandbox_checks_as_the_kernel_does,
        ),
        Trial::new(
            "lookup_of_one_user_is_not_reused_for_another",
            lookup_of_one_user_is_not_reused_for_another,
        ),
        Trial::new("execute_permission_is_checked", execute_permission_is_checked),
        Trial::new(
            "capabilities_of_another_user_namespace_do_not_count",
            capabilities_of_another_user_namespace_do_not_count,
        ),
        Trial::new("truncation_needs_write_permission", truncation_needs_write_permission),
        Trial::new("pipes_and_sockets_are_restricted", pipes_and_sockets_are_restricted),
        Trial::new("refused_change_keeps_set_id_bits", refused_change_keeps_set_id_bits),
        Trial::new("uncheckable_mount_is_refused", uncheckable_mount_is_refused),
        Trial::new(
            "checking_mount_agrees_with_the_model",
            agreement::checking_mount_agrees_with_the_model,
        ),
    ]
}

/// A test case: a user, a file, and an operation on that file.
#[derive(Debug)]
struct Case {
    seed: u64,
    scene: Scene,
    actor: Actor,
    operation: Operation,
}

impl Case {
    /// Creates the case for a seed. Returns `None` if the kernel's FUSE does not pass the operation
    /// of the case to its server.
    fn new(seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let operation = Operation::random(seed, &mut random);
        let mut scene = Scene::random(&mut random);
        if operation.needs_contents() {
            scene.give_contents();
        }
        let actor = Actor::random(&mut random);
        scene.0.iter_mut().for_each(|found| tame(found, &operation, &actor));
        let is_carried = match operation {
            Operation::Share | Operation::Exchange | Operation::Watch => false,
            // This operation asks for nothing.
            Operation::ChangeOwner(None, None) => false,
            _ => true,
        };
        is_carried.then_some(Self { seed, scene, actor, operation })
    }

    fn folder(&self) -> PathBuf {
        format!("case-{}", self.seed).into()
    }

    fn perform(&self, root: &Path) -> Result<Answer, TrialError> {
        let folder = root.join(self.folder());
        self.actor.does(|| perform(&folder, &self.operation))
    }

    fn only_looks(&self) -> bool {
        use Operation::{Access, Find, List, ListAttributes, OpenToRead, ReadAttribute, ReadLink};
        matches!(
            self.operation,
            Access(_) | Find(_) | List | ListAttributes | OpenToRead | ReadAttribute(_) | ReadLink
        )
    }
}

/// Changes the file of a test case so that known differences of FUSE do not matter. Pipes become
/// regular files ([`pipes_and_sockets_are_restricted`] tests pipes). A set-group-ID bit is cleared
/// if it would stay when the file is written. The capabilities of a file are removed if the
/// operation changes its owner: the kernel would remove them with the rights of the server before
/// it refuses the change.
fn tame(found: &mut Found, operation: &Operation, actor: &Actor) {
    const LENDS_GROUP: u16 = 0o2010;
    const SET_GROUP_ID: u16 = 0o2000;
    if found.kind == Kind::Fifo {
        found.kind = Kind::Regular;
    }
    let writes = matches!(operation, Operation::Write | Operation::Truncate | Operation::Allocate);
    if writes && (found.access.is_some() || found.mode & LENDS_GROUP != LENDS_GROUP) {
        found.mode &= !SET_GROUP_ID;
    }
    let gives = matches!(operation, Operation::ChangeOwner(..));
    if gives && actor.capabilities.contains(Capabilities::SETFCAP) {
        found.is_capable = false;
    }
}

fn cases() -> Vec<Case> {
    seeds(if is_long() { LONG_CASES } else { CASES }).filter_map(Case::new).collect()
}

pub(crate) fn server_checks_as_the_kernel_does() -> Result<(), TrialError> {
    compare_written(CHECKED)
}

fn compare_written(options: &str) -> Result<(), TrialError> {
    mask_nothing();
    let cases = cases();
    let mut ours = volume("parent-exchange")?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let theirs = ours.image.copy(folder.path())?;
    ours.mount(options);
    let answers = build_and_perform(&ours.path(), &cases)?;
    ours.unmount();
    let mount = ours.image.mount(&[])?;
    let found = Outcomes { answers, facts: facts(mount.path(), &cases) };
    mount.unmount()?;
    let mount = theirs.mount(&[])?;
    let answers = build_and_perform(mount.path(), &cases)?;
    let expected = Outcomes { answers, facts: facts(mount.path(), &cases) };
    mount.unmount()?;
    compare(&cases, &found, &expected, agree)?;
    ours.check()
}

/// Clears the umask of this process. Each trial that compares two mounts clears it, so that no
/// other trial changes it during a comparison.
fn mask_nothing() {
    rustix::process::umask(rustix::fs::Mode::empty());
}

/// Checks permissions on a read-only mount. The workers of its server are in a sandbox, so another
/// thread of the server reads the groups and capabilities of callers in /proc.
fn server_in_a_sandbox_checks_as_the_kernel_does() -> Result<(), TrialError> {
    mask_nothing();
    let cases: Vec<_> = cases().into_iter().filter(Case::only_looks).collect();
    let mut ours = volume("parent-exchange")?;
    let mount = ours.image.mount(&[])?;
    build_and_perform(mount.path(), &cases)?;
    mount.unmount()?;
    let mount = ours.image.mount(&["ro"])?;
    let perform =
        |root: &Path| cases.iter().map(|case| case.perform(root)).collect::<Result<_, _>>();
    let expected = only_answers(perform(mount.path())?);
    mount.unmount()?;
    ours.mount("ro,nodefault_permissions");
    crate::refusals::await_sandbox(&ours.server());
    let found = only_answers(perform(&ours.path())?);
    ours.unmount();
    Ok(compare(&cases, &found, &expected, agree)?)
}

/// Returns outcomes with these answers of the mount, and with empty facts about the files.
fn only_answers(answers: Vec<Answer>) -> Outcomes {
    Outcomes { facts: vec![String::new(); answers.len()], answers }
}

fn build_and_perform(root: &Path, cases: &[Case]) -> Result<Vec<Answer>, TrialError> {
    let mut answers = Vec::new();
    for case in cases {
        build(&root.join(case.folder()), &case.scene)
            .map_err(|error| format!("{case:?}: {error}"))?;
        answers.push(case.perform(root)?);
    }
    Ok(answers)
}

/// Returns whether both answers agree, up to known differences. A known difference comes from a
/// check that the kernel's FUSE makes before it asks the server, or instead of asking the server
/// (docs/mount-differences.md).
fn agree(case: &Case, ours: &Answer, theirs: &Answer) -> bool {
    if ours == theirs {
        return true;
    }
    match (ours, theirs) {
        (Err(ours), Err(_)) => {
            said_before(&case.operation).contains(&Errno::from_raw_os_error(*ours))
        }
        (Ok(_), Err(theirs)) => match case.operation {
            // The server is not asked about `.` and `..`.
            Operation::Find(path) => path.contains("/.") && *theirs == Errno::ACCESS.raw_os_error(),
            // Only a directory has one, so there is nothing to do for a file, even without
            // permission.
            Operation::RemoveAttribute("system.posix_acl_default") => {
                *theirs == Errno::PERM.raw_os_error()
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns the errors with which the kernel's FUSE itself answers an operation, in cases in which
/// the server would return another error.
fn said_before(operation: &Operation) -> &'static [Errno] {
    match operation {
        Operation::Unlink => &[Errno::PERM, Errno::ISDIR],
        Operation::RemoveDirectory => &[Errno::PERM, Errno::NOTDIR],
        Operation::Rename(..) => &[Errno::PERM, Errno::ISDIR, Errno::NOTDIR],
        Operation::Make(Made::Device(..), _) | Operation::Link | Operation::OpenQuietly => {
            &[Errno::PERM]
        }
        Operation::SetAttribute("system.posix_acl_default", _) => &[Errno::ACCESS],
        _ => &[],
    }
}

/// Returns the facts that the kernel shows about the files of each case, which are below `root`.
fn facts(root: &Path, cases: &[Case]) -> Vec<String> {
    cases.iter().map(|case| comparison::facts(&root.join(case.folder())).unwrap()).collect()
}

/// Makes a mount with a directory `d`, which belongs to another user, and a file in it. Only that
/// user and a group may enter the directory.
fn guarded(options: &str) -> Result<Mounted, TrialError> {
    let mount = mounted(options)?;
    fs::create_dir(mount.at("d")).unwrap();
    fs::write(mount.at("d/f"), "contents").unwrap();
    for (path, mode) in [("d/f", 0o640), ("d", 0o750)] {
        chown(mount.at(path), Some(1000), Some(2000)).unwrap();
        fs::set_permissions(mount.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    Ok(mount)
}

/// Checks that a lookup by one user reveals nothing to another user, nor to the same user after the
/// search permission on the directory was removed.
fn lookup_of_one_user_is_not_reused_for_another() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let member = Actor { groups: vec![2000], ..Actor::plain() };
    let plain = Actor::plain();
    let look = |actor: &Actor, name: &str| {
        let path = volume.at("d").join(name);
        let found = actor.does(|| fs::metadata(path).map(drop).map_err(|error| error.kind()));
        found.unwrap()
    };
    let (absent, denied) = (std::io::ErrorKind::NotFound, std::io::ErrorKind::PermissionDenied);
    for _ in 0..3 {
        assert_eq!(look(&member, "f"), Ok(()));
        assert_eq!(look(&member, "none"), Err(absent));
        assert_eq!(look(&plain, "f"), Err(denied));
        assert_eq!(look(&plain, "none"), Err(denied));
    }
    // An open directory stays open, and gives access to nothing else.
    let open = fs::File::open(volume.at("d")).unwrap();
    let beneath = |name: &str| {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let opened =
            plain.does(|| rustix::fs::openat(&open, name, flags, rustix::fs::Mode::empty()));
        opened.unwrap().map(drop)
    };
    assert_eq!(beneath("f"), Err(Errno::ACCESS));
    assert_eq!(beneath("none"), Err(Errno::ACCESS));
    let file = fs::File::open(volume.at("d/f")).unwrap();
    let close = || fs::set_permissions(volume.at("d"), fs::Permissions::from_mode(0o700)).unwrap();
    for _ in 0..3 {
        close();
        assert_eq!(look(&member, "f"), Err(denied));
        assert_eq!(look(&member, "none"), Err(denied));
        fs::set_permissions(volume.at("d"), fs::Permissions::from_mode(0o710)).unwrap();
        assert_eq!(look(&member, "f"), Ok(()));
        assert_eq!(look(&member, "none"), Err(absent));
    }
    close();
    let read = plain.does(|| std::io::read_to_string(&file).unwrap());
    assert_eq!(read?, "contents");
    drop((open, file));
    volume.check()
}

/// Checks execute permission. The kernel asks the server for it only when a file is opened for
/// execution.
fn execute_permission_is_checked() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let program = volume.at("d/program");
    fs::copy("/bin/true", &program).unwrap();
    fs::write(volume.at("d/script"), "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(volume.at("d"), fs::Permissions::from_mode(0o755)).unwrap();
    let runs = |name: &str, groups: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", groups]);
        // The program that executes it must have dropped its capabilities itself.
        let output = command.arg("env").arg(volume.at("d").join(name)).output().unwrap();
        let is_refused = said(&output).contains("Permission denied");
        assert!(output.status.success() != is_refused, "{}", said(&output));
        output.status.success()
    };
    for (mode, expected) in [
        (0o755, [true, true]),
        (0o644, [false, false]),
        // Some user may execute it, and users outside the group may not.
        (0o750, [true, false]),
        (0o705, [false, true]),
        (0o700, [false, false]),
    ] {
        for name in ["program", "script"] {
            chown(volume.at("d").join(name), Some(1000), Some(2000)).unwrap();
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(volume.at("d").join(name), permissions).unwrap();
            let found = ["--groups=2000", "--clear-groups"].map(|groups| runs(name, groups));
            assert_eq!(found, expected, "{name} {mode:o}");
        }
    }
    // A program need not be readable to be executed.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o710)).unwrap();
    assert!(runs("program", "--groups=2000"));
    let member = Actor { groups: vec![2000], ..Actor::plain() };
    let opened = member.does(|| fs::File::open(&program).map(drop))?;
    assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    volume.check()
}

/// Checks that the server ignores capabilities that a caller has in another user namespace.
fn capabilities_of_another_user_namespace_do_not_count() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let read = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("cat").arg(volume.at("d/f"));
        command.output().unwrap().status.success()
    };
    assert!(read(&["env"]));
    assert!(!read(&["unshare", "--user", "--map-root-user"]));
    assert!(!read(&["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--clear-groups"]));
    // A process without a number here cannot be looked at, which must not give it more rights.
    let mine = volume.at("mine");
    fs::write(&mine, "x").unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o600)).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "cat"]);
    run(unshare.arg(&mine));
    volume.check()
}

/// Checks that truncating a file by its name needs write permission, and that truncating it through
/// a descriptor that is open for writing needs none.
fn truncation_needs_write_permission() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let file = volume.at("d/f");
    let member = Actor { groups: vec![2000], ..Actor::plain() };
    let c_path = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).unwrap();
    let cut = || {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC;
        let opened = rustix::fs::open(&c_path, flags, rustix::fs::Mode::empty());
        let to_write = fs::OpenOptions::new().write(true).truncate(true).open(&file);
        (opened.map(drop), to_write.map(drop).map_err(|error| error.kind()))
    };
    assert_eq!(member.does(cut)?, (Err(Errno::ACCESS), Err(std::io::ErrorKind::PermissionDenied)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "contents");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
    let open = member.does(|| fs::OpenOptions::new().write(true).open(&file).unwrap())?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    Actor::plain().does(|| open.set_len(3).unwrap())?;
    assert_eq!(fs::read_to_string(&file).unwrap(), "con");
    drop(open);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
    assert_eq!(member.does(cut)?, (Ok(()), Ok(())));
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    volume.check()
}

/// Checks permissions of pipes and sockets, which the kernel opens without asking the server.
fn pipes_and_sockets_are_restricted() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let path = volume.at("d/pipe");
    run(Command::new("mkfifo").args(["-m", "640"]).arg(&path));
    chown(&path, Some(1000), Some(2000)).unwrap();
    let member = Actor { groups: vec![2000], ..Actor::plain() };
    let found = || member.does(|| fs::metadata(&path).map(drop).map_err(|error| error.kind()));
    assert_eq!(found()?, Err(std::io::ErrorKind::PermissionDenied));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    assert_eq!(found()?, Ok(()));
    volume.check()
}

/// Checks that a refused change of owner has no effects: the capabilities of the file stay.
fn refused_change_keeps_set_id_bits() -> Result<(), TrialError> {
    let volume = guarded(CHECKED)?;
    let file = volume.at("d/f");
    fs::set_permissions(volume.at("d"), fs::Permissions::from_mode(0o755)).unwrap();
    let (name, flags) = ("security.capability", rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(&file, name, &operation::CAPABLE, flags).unwrap();
    let refused = Actor::plain().does(|| chown(&file, Some(0), None).unwrap_err().kind())?;
    assert_eq!(refused, std::io::ErrorKind::PermissionDenied);
    let mut value = [0; 64];
    assert_eq!(rustix::fs::getxattr(&file, name, &mut value), Ok(operation::CAPABLE.len()));
    let setter = Actor { capabilities: Capabilities::SETFCAP, ..Actor::plain() };
    setter.does(|| rustix::fs::removexattr(&file, name))?.unwrap();
    assert_eq!(rustix::fs::getxattr(&file, name, &mut value), Err(Errno::NODATA));
    volume.check()
}

/// Checks that mounts whose server could not check permissions are refused.
fn uncheckable_mount_is_refused() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    for option in ["allow_other", "uid=1000", "gid=1000", "dev", "writeback_cache"] {
        let output =
            volume.mount_command(&format!("nodefault_permissions,{option}")).output().unwrap();
        let (name, said) = (option.split('=').next().unwrap(), said(&output));
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("nodefault_permissions and {name}")), "{said}");
    }
    // The program that mounted a connection has decided who checks permissions.
    let mut mount = ferroxfs(&["mount", "-o", "nodefault_permissions"]);
    let output = mount.arg(&volume.image.data).arg("/dev/fd/0").output().unwrap();
    assert!(said(&output).contains("another program has mounted"), "{}", said(&output));
    // If /proc shows other processes, callers cannot be identified.
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", env!("CARGO_BIN_EXE_ferroxfs"), "mount", "-f"]);
    unshare.args(["-o", "nodefault_permissions"]).arg(&volume.image.data).arg(volume.path());
    let output = unshare.output().unwrap();
    assert!(said(&output).contains("nodefault_permissions: /proc"), "{}", said(&output));
    volume.check()
}
