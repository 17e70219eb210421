//! The identity on whose behalf an operation runs.

use bitflags::bitflags;

bitflags! {
    /// Powers beyond those of an ordinary user, with the numbers of Linux, so that a set of the
    /// kernel's can be used as it is (`from_bits_truncate` of `CapEff`). They hold for the whole
    /// volume: its users are those of the caller's own user namespace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[doc(alias = "capabilities")]
    pub struct Capabilities: u64 {
        /// Give files to other owners and groups.
        const CHOWN = 1 << 0;
        /// Ignore permission bits and access control lists. Executing a file still takes an x bit.
        const DAC_OVERRIDE = 1 << 1;
        /// Read any file, read and search any directory, find files by number.
        const DAC_READ_SEARCH = 1 << 2;
        /// Do what only the owner of a file may do.
        const FOWNER = 1 << 3;
        /// Keep set-ID bits that others lose, and set them for foreign groups.
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

/// The identity that permissions are checked for: `Volume::as_user`.
///
/// Numbers alone give no power: user 0 without [`Capabilities`] is an ordinary owner of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    uid: u32,
    gid: u32,
    /// Sorted.
    groups: Box<[u32]>,
    capabilities: Capabilities,
    protects_hard_links: bool,
}

impl Credentials {
    /// Returns a user in one group, without capabilities. Files that it makes belong to both.
    #[must_use]
    #[doc(alias = "fsuid")]
    #[doc(alias = "fsgid")]
    pub fn new(uid: u32, gid: u32) -> Self {
        let capabilities = Capabilities::empty();
        Self { uid, gid, groups: Box::default(), capabilities, protects_hard_links: false }
    }

    /// Returns user and group 0 with all capabilities.
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

    /// Refuses further names for files of other owners that the user cannot write, or that have
    /// set-ID bits, as Linux does with `fs.protected_hardlinks`.
    #[must_use]
    #[doc(alias = "protected_hardlinks")]
    pub fn protect_hard_links(mut self, protects: bool) -> Self {
        self.protects_hard_links = protects;
        self
    }

    /// Returns the user.
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
