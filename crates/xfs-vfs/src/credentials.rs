//! The user, groups and capabilities with which an operation runs.

use bitflags::bitflags;

bitflags! {
    /// Powers beyond those of an ordinary user. The bit numbers are those of Linux, so that the
    /// number `CapEff` of /proc/PID/status can be used as it is (`from_bits_truncate`).
    /// Capabilities apply to all files: no user namespace maps the user IDs of the volume.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[doc(alias = "capabilities")]
    pub struct Capabilities: u64 {
        /// Give files to other owners and groups.
        const CHOWN = 1 << 0;
        /// Ignore permission bits and access control lists. Executing a file still needs an execute
        /// bit.
        const DAC_OVERRIDE = 1 << 1;
        /// Read any file, read and search any directory, find files by inode number.
        const DAC_READ_SEARCH = 1 << 2;
        /// Do anything that otherwise only the owner of a file may do.
        const FOWNER = 1 << 3;
        /// Keep set-ID bits when a file changes (a change by a user without this capability removes
        /// them). Set the set-group-ID bit for groups that the user is not in.
        const FSETID = 1 << 4;
        /// Set and clear the flags immutable and append-only.
        const LINUX_IMMUTABLE = 1 << 9;
        /// See and change trusted attributes, and operate on the volume as a whole.
        const SYS_ADMIN = 1 << 21;
        /// Make device nodes.
        const MKNOD = 1 << 27;
        /// Take leases on files of other owners.
        const LEASE = 1 << 28;
        /// Set the capabilities of files.
        const SETFCAP = 1 << 31;
    }
}

/// The user, groups and capabilities against which permissions are checked. `Volume::as_user` sets
/// them.
///
/// A user ID alone gives no power: user 0 without [`Capabilities`] is an ordinary owner of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    uid: u32,
    gid: u32,
    /// Supplementary groups, sorted.
    groups: Box<[u32]>,
    capabilities: Capabilities,
    protects_hard_links: bool,
}

impl Credentials {
    /// Returns the credentials of a user in one group, without capabilities. Files that this user
    /// makes belong to `uid` and `gid`.
    #[must_use]
    #[doc(alias = "fsuid")]
    #[doc(alias = "fsgid")]
    pub fn new(uid: u32, gid: u32) -> Self {
        let capabilities = Capabilities::empty();
        Self { uid, gid, groups: Box::default(), capabilities, protects_hard_links: false }
    }

    /// Returns the credentials of user and group 0 with all capabilities.
    #[must_use]
    pub fn root() -> Self {
        Self::new(0, 0).capabilities(Capabilities::all())
    }

    /// Sets the supplementary groups.
    #[must_use]
    #[doc(alias = "setgroups")]
    pub fn groups(mut self, groups: impl IntoIterator<Item = u32>) -> Self {
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable();
        self.groups = groups.into();
        self
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets whether hard links are protected, as Linux does with `fs.protected_hardlinks`. The user
    /// then cannot link a file of another owner that has set-ID bits or that the user cannot write.
    #[must_use]
    #[doc(alias = "protected_hardlinks")]
    pub fn protect_hard_links(mut self, protects: bool) -> Self {
        self.protects_hard_links = protects;
        self
    }

    /// Returns the user ID.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    pub(crate) fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns whether the user has a capability.
    #[must_use]
    pub fn has(&self, capability: Capabilities) -> bool {
        self.capabilities.contains(capability)
    }

    #[doc(alias = "in_group_p")]
    pub(crate) fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }

    pub(crate) fn protects_hard_links(&self) -> bool {
        self.protects_hard_links
    }
}
