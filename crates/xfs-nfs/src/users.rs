//! The user of a call.
//!
//! NFS with AUTH_SYS (RFC 5531, appendix A) has no authentication: the client says who its user is.
//! So a server must choose its clients (`owner`), or give all of them the rights
//! of one user.

use ferroxfs::{Credentials, Volume};

use crate::xdr::{Decoder, Garbage};

/// The user and group ID of a caller that names no user, as on Linux.
const NOBODY: u32 = 65_534;
/// The most supplementary groups in AUTH_SYS.
const MOST_GROUPS: u32 = 16;
/// The most users of a connection whose view of the volume is kept.
const MOST_VIEWS: usize = 16;

/// The user whose rights the calls of clients have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActAs {
    /// The user that the client names.
    #[default]
    Caller,
    /// This user and this group, for every client.
    User {
        /// The user ID.
        uid: u32,
        /// The group ID.
        gid: u32,
    },
}

/// The user of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcCaller {
    pub(crate) uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl RpcCaller {
    /// Returns the caller that names no user.
    pub(crate) const fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Vec::new() }
    }

    /// Decodes the credentials of AUTH_SYS.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Garbage> {
        let mut credentials = Decoder::new(bytes);
        let (_stamp, _machine) = (credentials.u32()?, credentials.bytes()?);
        let (uid, gid) = (credentials.u32()?, credentials.u32()?);
        let count = credentials.u32()?;
        if count > MOST_GROUPS {
            return Err(Garbage);
        }
        let groups = (0..count).map(|_| credentials.u32()).collect::<Result<_, _>>()?;
        Ok(Self { uid, gid, groups })
    }

    pub(crate) fn acting_as(self, act_as: ActAs) -> Self {
        match act_as {
            ActAs::Caller => self,
            ActAs::User { uid, gid } => Self { uid, gid, groups: Vec::new() },
        }
    }

    fn credentials(&self) -> Credentials {
        match self.uid {
            0 => Credentials::root(),
            uid => Credentials::new(uid, self.gid).groups(self.groups.iter().copied()),
        }
    }
}

/// The views of the volume for the users of a connection. A view takes some memory for each
/// processor, so it is kept for later calls.
pub(crate) struct Views {
    volume: Volume,
    known: Vec<(RpcCaller, Volume)>,
}

impl Views {
    pub(crate) const fn new(volume: Volume) -> Self {
        Self { volume, known: Vec::new() }
    }

    /// Returns the volume for a caller.
    pub(crate) fn of(&mut self, caller: &RpcCaller) -> Volume {
        if let Some((_, view)) = self.known.iter().find(|(known, _)| known == caller) {
            return view.clone();
        }
        if self.known.len() == MOST_VIEWS {
            self.known.remove(0);
        }
        let view = self.volume.as_user(caller.credentials());
        self.known.push((caller.clone(), view.clone()));
        view
    }
}
