//! The kinds of log items: their numbers in the log, their names, and which kind completes which.
//!
//! Owns: the numbers. Does **not** own: the fields that an item of each kind has.

/// The kind of a log item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// Intent to free extents.
    #[doc(alias = "EFI")]
    ExtentFree,
    /// Completion of freeing extents.
    #[doc(alias = "EFD")]
    ExtentFreeDone,
    /// A logged inode.
    Inode,
    /// A logged buffer.
    Buffer,
    /// A logged dquot.
    Dquot,
    /// The end of quota accounting.
    QuotaOff,
    /// Creation of a chunk of inodes.
    #[doc(alias = "ICREATE")]
    InodeCreate,
    /// Intent to change the reverse map.
    #[doc(alias = "RUI")]
    Rmap,
    /// Completion of a change of the reverse map.
    #[doc(alias = "RUD")]
    RmapDone,
    /// Intent to change reference counts.
    #[doc(alias = "CUI")]
    Refcount,
    /// Completion of a change of reference counts.
    #[doc(alias = "CUD")]
    RefcountDone,
    /// Intent to change the map of a file.
    #[doc(alias = "BUI")]
    Map,
    /// Completion of a change of the map of a file.
    #[doc(alias = "BUD")]
    MapDone,
    /// Intent to change an attribute.
    #[doc(alias = "ATTRI")]
    Attr,
    /// Completion of a change of an attribute.
    #[doc(alias = "ATTRD")]
    AttrDone,
    /// Intent to exchange extents of two files.
    #[doc(alias = "XMI")]
    Exchange,
    /// Completion of an exchange of extents.
    #[doc(alias = "XMD")]
    ExchangeDone,
    /// Intent to free extents of the realtime section.
    #[doc(alias = "EFI_RT")]
    RealtimeFree,
    /// Completion of freeing extents of the realtime section.
    #[doc(alias = "EFD_RT")]
    RealtimeFreeDone,
    /// Intent to change the reverse map of a realtime group.
    #[doc(alias = "RUI_RT")]
    RealtimeRmap,
    /// Completion of a change of the reverse map of a realtime group.
    #[doc(alias = "RUD_RT")]
    RealtimeRmapDone,
    /// Intent to change reference counts of a realtime group.
    #[doc(alias = "CUI_RT")]
    RealtimeRefcount,
    /// Completion of a change of reference counts of a realtime group.
    #[doc(alias = "CUD_RT")]
    RealtimeRefcountDone,
}

impl ItemKind {
    /// All kinds of items.
    pub const ALL: [Self; 23] = [
        Self::ExtentFree,
        Self::ExtentFreeDone,
        Self::Inode,
        Self::Buffer,
        Self::Dquot,
        Self::QuotaOff,
        Self::InodeCreate,
        Self::Rmap,
        Self::RmapDone,
        Self::Refcount,
        Self::RefcountDone,
        Self::Map,
        Self::MapDone,
        Self::Attr,
        Self::AttrDone,
        Self::Exchange,
        Self::ExchangeDone,
        Self::RealtimeFree,
        Self::RealtimeFreeDone,
        Self::RealtimeRmap,
        Self::RealtimeRmapDone,
        Self::RealtimeRefcount,
        Self::RealtimeRefcountDone,
    ];

    /// Returns the number that stands for this kind in the log.
    #[must_use]
    pub const fn encode(self) -> u16 {
        match self {
            Self::ExtentFree => 0x1236,
            Self::ExtentFreeDone => 0x1237,
            Self::Inode => 0x123b,
            Self::Buffer => 0x123c,
            Self::Dquot => 0x123d,
            Self::QuotaOff => 0x123e,
            Self::InodeCreate => 0x123f,
            Self::Rmap => 0x1240,
            Self::RmapDone => 0x1241,
            Self::Refcount => 0x1242,
            Self::RefcountDone => 0x1243,
            Self::Map => 0x1244,
            Self::MapDone => 0x1245,
            Self::Attr => 0x1246,
            Self::AttrDone => 0x1247,
            Self::Exchange => 0x1248,
            Self::ExchangeDone => 0x1249,
            Self::RealtimeFree => 0x124a,
            Self::RealtimeFreeDone => 0x124b,
            Self::RealtimeRmap => 0x124c,
            Self::RealtimeRmapDone => 0x124d,
            Self::RealtimeRefcount => 0x124e,
            Self::RealtimeRefcountDone => 0x124f,
        }
    }

    /// Returns the kind that this number stands for in the log, or `None` if the number is unknown.
    #[must_use]
    pub fn decode(raw: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.encode() == raw)
    }

    /// Returns the name used in messages and output, as in `xfs_logprint`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExtentFree => "EFI",
            Self::ExtentFreeDone => "EFD",
            Self::Inode => "INODE",
            Self::Buffer => "BUF",
            Self::Dquot => "DQUOT",
            Self::QuotaOff => "QUOTAOFF",
            Self::InodeCreate => "ICREATE",
            Self::Rmap => "RUI",
            Self::RmapDone => "RUD",
            Self::Refcount => "CUI",
            Self::RefcountDone => "CUD",
            Self::Map => "BUI",
            Self::MapDone => "BUD",
            Self::Attr => "ATTRI",
            Self::AttrDone => "ATTRD",
            Self::Exchange => "XMI",
            Self::ExchangeDone => "XMD",
            Self::RealtimeFree => "EFI_RT",
            Self::RealtimeFreeDone => "EFD_RT",
            Self::RealtimeRmap => "RUI_RT",
            Self::RealtimeRmapDone => "RUD_RT",
            Self::RealtimeRefcount => "CUI_RT",
            Self::RealtimeRefcountDone => "CUD_RT",
        }
    }

    /// Returns whether this is an intent, which a completion with the same identifier must follow.
    #[must_use]
    pub const fn is_intent(self) -> bool {
        self.completion().is_some()
    }

    /// Returns whether this is an intent about the free space, the reverse map or the reference
    /// counts of the realtime section. Such an intent changes no file.
    #[must_use]
    pub const fn is_of_realtime_space(self) -> bool {
        matches!(self, Self::RealtimeFree | Self::RealtimeRmap | Self::RealtimeRefcount)
    }

    /// Returns the kind that completes this intent, or `None` if this kind is no intent.
    #[must_use]
    pub const fn completion(self) -> Option<Self> {
        match self {
            Self::ExtentFree => Some(Self::ExtentFreeDone),
            Self::Rmap => Some(Self::RmapDone),
            Self::Refcount => Some(Self::RefcountDone),
            Self::Map => Some(Self::MapDone),
            Self::Attr => Some(Self::AttrDone),
            Self::Exchange => Some(Self::ExchangeDone),
            Self::RealtimeFree => Some(Self::RealtimeFreeDone),
            Self::RealtimeRmap => Some(Self::RealtimeRmapDone),
            Self::RealtimeRefcount => Some(Self::RealtimeRefcountDone),
            _ => None,
        }
    }
}
