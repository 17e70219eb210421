//! Permissions: what somebody may do, and what comes of it, is the same on a volume of the kernel and on
//! one of ours.
//!
//! Each seed is a case: a few files of random owners, modes, access control lists and flags, somebody with
//! random groups and capabilities, and one operation. The kernel does it by system calls of a thread with these
//! credentials, we do it on [`Volume::as_user`]. Answers are compared, and at the end everything that
//! the kernel shows of the two volumes.

mod actor;
mod kernel;
mod operation;
mod ours;
mod scene;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferroxfs::Volume;
use rustix::io::Errno;
use xfs_oracle::harness::{TrialError, patiently, seeds};
use xfs_oracle::{Geometry, Random, ready};

use crate::failed;
use crate::lists::umask;
use actor::Actor;
use operation::Operation;
use scene::Scene;

/// Cases of a usual run, and of a long one.
const CASES: u64 = 3000;
const LONG_CASES: u64 = 60_000;
/// Differences that are shown at most.
const SHOWN: usize = 20;

/// Somebody, what they find, and what they do with it.
#[derive(Debug)]
struct Case {
    seed: u64,
    scene: Scene,
    actor: Actor,
    operation: Operation,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let operation = Operation::random(seed, &mut random);
        let mut scene = Scene::random(&mut random);
        if operation.needs_contents() {
            scene.give_contents();
        }
        let actor = Actor::random(&mut random);
        Self { seed, scene, actor, operation }
    }

    /// The directory that it has to itself.
    fn folder(&self) -> PathBuf {
        format!("case-{}", self.seed).into()
    }
}

/// What an operation showed, or its errno.
type Answer = Result<String, i32>;

pub(crate) fn check(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let cases: Vec<_> = seeds(if is_long { LONG_CASES } else { CASES }).map(Case::new).collect();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let theirs = geometry.make(folder.path())?;
    let copies = folder.path().join("ours");
    fs::create_dir(&copies).map_err(failed)?;
    let ours = theirs.copy(&copies)?;

    let mount = theirs.mount(&[])?;
    let mut expected = Vec::new();
    for case in &cases {
        let folder = mount.path().join(case.folder());
        kernel::build(&folder, &case.scene).map_err(failed)?;
        expected.push(case.actor.does(|| kernel::perform(&folder, &case.operation))?);
    }
    let expected_facts = facts(mount.path(), &cases)?;
    mount.unmount()?;

    let volume = patiently(|| Volume::open_writable(&ours.data)).map_err(failed)?;
    let umask = umask()?;
    let found =
        cases.iter().map(|case| on_ours(&volume, case, umask)).collect::<Result<Vec<_>, _>>()?;
    volume.close().map_err(failed)?;
    if let Some(findings) = ours.findings()? {
        return Err(failed(findings));
    }
    let mount = ours.mount(&[])?;
    let found_facts = facts(mount.path(), &cases)?;
    mount.unmount()?;
    compare(&cases, (&found, &expected), (&found_facts, &expected_facts))
}

fn on_ours(volume: &Volume, case: &Case, umask: u16) -> Result<Answer, TrialError> {
    let folder = Path::new("/").join(case.folder());
    ours::build(volume, &folder, &case.scene).map_err(failed)?;
    let volume = volume.as_user(case.actor.credentials()?);
    let answer = ours::perform(&volume, &folder, &case.operation, umask);
    Ok(answer.map_err(|error| ferroxfs::errno(&error)))
}

fn compare(
    cases: &[Case],
    (found, expected): (&[Answer], &[Answer]),
    (found_facts, expected_facts): (&[String], &[String]),
) -> Result<(), TrialError> {
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let (ours, theirs) = (found.get(index), expected.get(index));
        let (left, left_there) = (found_facts.get(index), expected_facts.get(index));
        if ours != theirs || left != left_there {
            let [left, left_there] = [left, left_there].map(|left| left.map_or("", String::as_str));
            differences.push(format!(
                "{case:?}\nours:   {ours:?}\nkernel: {theirs:?}\nleft by us:\n{left}left by the \
                 kernel:\n{left_there}",
            ));
        }
    }
    let refused = expected.iter().filter(|answer| answer.is_err()).count();
    // A run in which nearly all is refused, or nothing, shows little.
    if cases.len() > 100 && !(cases.len() / 10..cases.len() * 9 / 10).contains(&refused) {
        return Err(failed(format!("{refused} of {} are refused", cases.len())));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    Err(failed(format!("{} of {} differ, among them:\n{shown}", differences.len(), cases.len())))
}

/// What the kernel shows of each case.
fn facts(root: &Path, cases: &[Case]) -> Result<Vec<String>, TrialError> {
    cases
        .iter()
        .map(|case| {
            let mut lines = String::new();
            let folder = root.join(case.folder());
            add_facts(&folder, Path::new(""), &mut lines).map_err(failed)?;
            Ok(lines)
        })
        .collect()
}

fn add_facts(root: &Path, below: &Path, lines: &mut String) -> std::io::Result<()> {
    let full = root.join(below);
    let metadata = fs::symlink_metadata(&full)?;
    let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
    let (links, size) = (metadata.nlink(), if metadata.is_dir() { 0 } else { metadata.size() });
    let attributes = attributes(&full)?;
    let path = below.display();
    lines.push_str(&format!("{path} {mode:o} {uid}:{gid} {links} {size} {attributes:?}\n"));
    if metadata.is_dir() {
        let names = fs::read_dir(&full)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            add_facts(root, &below.join(name), lines)?;
        }
    }
    Ok(())
}

/// Names and values of all attributes.
fn attributes(path: &Path) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let (mut names, mut value) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let length = rustix::fs::llistxattr(path, &mut names)?;
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found = Vec::new();
    for name in names {
        let length = rustix::fs::lgetxattr(path, name, &mut value)?;
        let bytes = value.iter().take(length).copied().collect();
        found.push((String::from_utf8_lossy(name).into_owned(), bytes));
    }
    found.sort();
    Ok(found)
}
