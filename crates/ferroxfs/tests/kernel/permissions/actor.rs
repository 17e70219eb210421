//! The user that performs the operation of a test case, with its credentials in the kernel and in
//! the library.

use ferroxfs::{Capabilities, Credentials};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use xfs_oracle::Random;
use xfs_oracle::harness::TrialError;

use super::Answer;
use crate::failed;

/// The user IDs that the owners of the files and the actors of the test cases can have.
pub(super) const USERS: [u32; 3] = [1000, 1001, 0];
pub(super) const GROUPS: [u32; 3] = [2000, 2001, 0];

/// The user that performs the operation.
#[derive(Debug)]
pub(super) struct Actor {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    capabilities: Capabilities,
}

pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    let chosen = from.get(random.below(from.len() as u64) as usize);
    *chosen.expect("there is something to choose from")
}

impl Actor {
    pub(super) fn random(random: &mut Random) -> Self {
        let (uid, gid) = (pick(random, &USERS), pick(random, &GROUPS));
        let groups = GROUPS.into_iter().filter(|_| random.below(4) == 0).collect();
        let single: Vec<_> = Capabilities::all().iter().collect();
        let capabilities = match random.below(6) {
            0 | 1 => pick(random, &single),
            2 => pick(random, &single) | pick(random, &single),
            3 if random.below(3) == 0 => Capabilities::all(),
            _ => Capabilities::empty(),
        };
        Self { uid, gid, groups, capabilities }
    }

    pub(super) fn credentials(&self) -> Result<Credentials, TrialError> {
        let path = "/proc/sys/fs/protected_hardlinks";
        let protects = std::fs::read_to_string(path).map_err(failed)?.trim() == "1";
        Ok(Credentials::new(self.uid, self.gid)
            .groups(self.groups.iter().copied())
            .capabilities(self.capabilities)
            .protect_hard_links(protects))
    }

    /// Calls `act` with the credentials of this user. `act` runs in a thread of its own, because on
    /// Linux credentials belong to a thread.
    pub(super) fn does(&self, act: impl FnOnce() -> Answer + Send) -> Result<Answer, TrialError> {
        let acted = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.put_on()?;
                    Ok(act())
                })
                .join()
        });
        acted
            .map_err(|_| failed("a thread panicked"))?
            .map_err(|error: std::io::Error| failed(error))
    }

    fn put_on(&self) -> std::io::Result<()> {
        rustix::thread::set_keep_capabilities(true)?;
        let groups: Vec<_> = self.groups.iter().copied().map(Gid::from_raw).collect();
        rustix::thread::set_thread_groups(&groups)?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        let capabilities = CapabilitySet::from_bits_retain(self.capabilities.bits());
        let sets = CapabilitySets {
            effective: capabilities,
            permitted: capabilities,
            inheritable: CapabilitySet::empty(),
        };
        Ok(rustix::thread::set_capabilities(None, sets)?)
    }
}
