//! Tests of permissions: an operation of any user must have the same result on a volume that the
//! kernel mounts and on one that ferroxfs opens.
//!
//! Each seed is a case: a few files with random owners, modes, access control lists and flags, an
//! actor, and one operation. The actor is root or a user with random groups and capabilities. On
//! the volume of the kernel, a thread with these credentials makes system calls. On the volume of
//! ferroxfs, the test uses [`Volume::as_user`], or the volume itself as root. The test compares the
//! results of the operations. At the end it compares everything that the kernel shows of the two
//! volumes.

mod actor;
mod comparison;
mod kernel;
mod operation;
mod ours;
mod scene;

use std::fs;
use std::path::{Path, PathBuf};

use ferroxfs::{OpenOptions, Volume};
use xfs_oracle::harness::{TrialError, patiently, seeds};
use xfs_oracle::{Geometry, Random, ready};

use crate::failed;
use crate::lists::umask;
use actor::Actor;
use comparison::{Answer, Outcomes, compare};
use operation::Operation;
use scene::Scene;

/// Number of cases of a usual run.
const CASES: u64 = 3000;
const LONG_CASES: u64 = 60_000;

/// In one of this many cases, root performs the operation. In all other cases an ordinary user
/// does.
const ROOTS_SHARE: u64 = 6;

/// One case: the files of the scene, an actor, and the operation.
#[derive(Debug)]
struct Case {
    seed: u64,
    scene: Scene,
    /// The user that performs the operation. `None` is root.
    actor: Option<Actor>,
    operation: Operation,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut operation = Operation::random(seed, &mut random);
        let mut scene = Scene::random(&mut random);
        if operation.needs_contents() {
            scene.give_contents();
        }
        let actor = (!seed.is_multiple_of(ROOTS_SHARE)).then(|| Actor::random(&mut random));
        if actor.is_none() {
            operation.take_set_ids_of_new_directory();
        }
        Self { seed, scene, actor, operation }
    }

    /// Returns the path of the directory of the case.
    fn folder(&self) -> PathBuf {
        format!("case-{}", self.seed).into()
    }
}

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
    let mut answers = Vec::new();
    for case in &cases {
        let folder = mount.path().join(case.folder());
        kernel::build(&folder, &case.scene).map_err(failed)?;
        let perform = || kernel::perform(&folder, &case.operation);
        answers
            .push(case.actor.as_ref().map_or_else(|| Ok(perform()), |actor| actor.does(perform))?);
    }
    let expected = Outcomes { answers, facts: facts(mount.path(), &cases)? };
    mount.unmount()?;

    let volume = patiently(|| OpenOptions::new().write(true).open(&ours.data)).map_err(failed)?;
    let umask = umask()?;
    let answers =
        cases.iter().map(|case| on_ours(&volume, case, umask)).collect::<Result<_, _>>()?;
    volume.close().map_err(failed)?;
    if let Some(findings) = ours.findings()? {
        return Err(failed(findings));
    }
    let mount = ours.mount(&[])?;
    let found = Outcomes { answers, facts: facts(mount.path(), &cases)? };
    mount.unmount()?;
    Ok(compare(&cases, &found, &expected, |_, ours, theirs| ours == theirs)?)
}

fn on_ours(volume: &Volume, case: &Case, umask: u16) -> Result<Answer, TrialError> {
    let folder = Path::new("/").join(case.folder());
    ours::build(volume, &folder, &case.scene).map_err(failed)?;
    let perform = |volume: &Volume| ours::perform(volume, &folder, &case.operation, umask);
    let answer = match &case.actor {
        Some(actor) => perform(&volume.as_user(actor.credentials()?)),
        None => perform(volume),
    };
    Ok(answer.map_err(|error| error.errno()))
}

/// Returns, for each case, the attributes of all its files as the kernel shows them, in one string.
fn facts(root: &Path, cases: &[Case]) -> Result<Vec<String>, TrialError> {
    let facts_of = |case: &Case| comparison::facts(&root.join(case.folder())).map_err(failed);
    cases.iter().map(facts_of).collect()
}
