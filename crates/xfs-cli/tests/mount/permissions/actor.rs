//! Callers of a mount. FUSE admits only the user who has mounted the volume. So all callers are
//! user and group 0, and differ in supplementary groups and in capabilities.

use ferroxfs::Capabilities;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets};
use xfs_oracle::Random;
use xfs_oracle::harness::TrialError;

/// The users that can own the files of a test case.
pub(crate) const USERS: [u32; 3] = [1000, 1001, 0];
pub(crate) const GROUPS: [u32; 3] = [2000, 2001, 0];

/// The credentials of a caller.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(super) groups: Vec<u32>,
    pub(super) capabilities: Capabilities,
}

pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

impl Actor {
    /// Returns a caller with user 0, without supplementary groups and capabilities.
    pub(super) fn plain() -> Self {
        Self { groups: Vec::new(), capabilities: Capabilities::empty() }
    }

    pub(super) fn random(random: &mut Random) -> Self {
        let groups = GROUPS.into_iter().filter(|_| random.below(3) == 0).collect();
        let single: Vec<_> = Capabilities::all().iter().collect();
        let capabilities = match random.below(6) {
            0 | 1 => pick(random, &single),
            2 => pick(random, &single) | pick(random, &single),
            3 if random.below(3) == 0 => Capabilities::all(),
            _ => Capabilities::empty(),
        };
        Self { groups, capabilities }
    }

    /// Runs `act` with these credentials, in a thread of its own: in Linux, credentials belong to a
    /// thread.
    pub(super) fn does<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, TrialError> {
        let acted = std::thread::scope(|scope| {
            let act = || self.put_on().map(|()| act());
            scope.spawn(act).join()
        });
        let failed = |what: String| TrialError::Failed(what);
        acted
            .map_err(|_| failed("a thread panicked".to_owned()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn put_on(&self) -> rustix::io::Result<()> {
        let groups: Vec<_> = self.groups.iter().copied().map(Gid::from_raw).collect();
        rustix::thread::set_thread_groups(&groups)?;
        let capabilities = CapabilitySet::from_bits_retain(self.capabilities.bits());
        let sets = CapabilitySets {
            effective: capabilities,
            permitted: capabilities,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, sets)
    }
}
