//! Payloads of intents: descriptions of the work that an intent announces.
//!
//! Owns: payloads in memory, which payloads may share an intent, and their encoding. Does **not**
//! own doing the described work: see [`Deferred`](crate::Deferred).

use xfs_format::log_item::{
    AttrIntent, AttrNames, AttrOperation, ExchangeIntent, ExtentFree, HostOrder, IntentDone,
    IntentExtents, ItemKind, LoggedItem, MapExtent, RefcountExtent, RmapExtent,
};
use xfs_format::{FsBlock, InodeNumber};

/// The greatest number of extents that one intent may list: the kernel's limit.
#[doc(alias = "XFS_EFI_MAX_FAST_EXTENTS")]
const MAX_EXTENTS: usize = 16;

/// The description of one piece of work that an intent announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentPayload {
    /// The work frees an extent.
    #[doc(alias = "EFI")]
    ExtentFree(ExtentFree),
    /// The work changes the reverse map.
    #[doc(alias = "RUI")]
    Rmap(RmapExtent),
    /// The work changes the reference counts of an extent.
    #[doc(alias = "CUI")]
    Refcount(RefcountExtent),
    /// The work frees an extent of the realtime section.
    #[doc(alias = "EFI_RT")]
    RealtimeFree(ExtentFree),
    /// The work changes the reverse map of a realtime group.
    #[doc(alias = "RUI_RT")]
    RealtimeRmap(RmapExtent),
    /// The work changes the reference counts of a realtime group.
    #[doc(alias = "CUI_RT")]
    RealtimeRefcount(RefcountExtent),
    /// The work changes the extent map of a file.
    #[doc(alias = "BUI")]
    Map(MapExtent),
    /// The work changes an extended attribute.
    #[doc(alias = "ATTRI")]
    Attr(Box<AttrPayload>),
    /// The work exchanges extents of two files. The ID in the payload is replaced when the intent
    /// is logged.
    #[doc(alias = "XMI")]
    Exchange(ExchangeIntent),
}

/// A change of an extended attribute, with its name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrPayload {
    /// The inode number of the file.
    pub inode: InodeNumber,
    /// The generation of the file's inode; used for parent pointers only.
    pub generation: u32,
    /// The operation on the attribute.
    pub operation: AttrOperation,
    /// The namespace of the attribute.
    pub filter: u32,
    /// The name of the attribute.
    pub name: Vec<u8>,
    /// The new name if a parent pointer is replaced; `None` otherwise.
    pub new_name: Option<Vec<u8>>,
    /// The value; empty if the operation has none.
    pub value: Vec<u8>,
    /// The new value if a parent pointer is replaced; `None` otherwise.
    pub new_value: Option<Vec<u8>>,
}

impl IntentPayload {
    /// Returns the kind of log item that carries this payload.
    pub(crate) const fn kind(&self) -> ItemKind {
        match self {
            Self::ExtentFree(_) => ItemKind::ExtentFree,
            Self::Rmap(_) => ItemKind::Rmap,
            Self::Refcount(_) => ItemKind::Refcount,
            Self::RealtimeFree(_) => ItemKind::RealtimeFree,
            Self::RealtimeRmap(_) => ItemKind::RealtimeRmap,
            Self::RealtimeRefcount(_) => ItemKind::RealtimeRefcount,
            Self::Map(_) => ItemKind::Map,
            Self::Attr(_) => ItemKind::Attr,
            Self::Exchange(_) => ItemKind::Exchange,
        }
    }

    /// Returns the greatest number of payloads of this kind in one intent. A step that works on a
    /// realtime group latches the inodes of the group before headers of allocation groups, so it
    /// works on one extent only.
    pub(crate) const fn max_per_intent(&self) -> usize {
        match self {
            Self::ExtentFree(_) | Self::Rmap(_) | Self::Refcount(_) => MAX_EXTENTS,
            Self::RealtimeFree(_)
            | Self::RealtimeRmap(_)
            | Self::RealtimeRefcount(_)
            | Self::Map(_)
            | Self::Attr(_)
            | Self::Exchange(_) => 1,
        }
    }

    /// Returns the first block of the payload's extent, by which the payloads of an intent are
    /// sorted. Returns `None` for a kind of which an intent has only one payload.
    pub(crate) const fn start(&self) -> Option<FsBlock> {
        match self {
            Self::ExtentFree(extent) => Some(extent.start),
            Self::Rmap(extent) => Some(extent.start),
            Self::Refcount(extent) => Some(extent.start),
            Self::RealtimeFree(_)
            | Self::RealtimeRmap(_)
            | Self::RealtimeRefcount(_)
            | Self::Map(_)
            | Self::Attr(_)
            | Self::Exchange(_) => None,
        }
    }
}

/// Returns the payloads of an intent that was read from the log, or `None` if the item is not an
/// intent.
pub(crate) fn decode_intent(item: LoggedItem<'_>) -> Option<Vec<IntentPayload>> {
    Some(match item {
        LoggedItem::ExtentFree(list) => {
            list.extents.into_iter().map(IntentPayload::ExtentFree).collect()
        }
        LoggedItem::Rmap(list) => list.extents.into_iter().map(IntentPayload::Rmap).collect(),
        LoggedItem::Refcount(list) => {
            list.extents.into_iter().map(IntentPayload::Refcount).collect()
        }
        LoggedItem::RealtimeFree(list) => {
            list.extents.into_iter().map(IntentPayload::RealtimeFree).collect()
        }
        LoggedItem::RealtimeRmap(list) => {
            list.extents.into_iter().map(IntentPayload::RealtimeRmap).collect()
        }
        LoggedItem::RealtimeRefcount(list) => {
            list.extents.into_iter().map(IntentPayload::RealtimeRefcount).collect()
        }
        LoggedItem::Map(list) => list.extents.into_iter().map(IntentPayload::Map).collect(),
        LoggedItem::Exchange(exchange) => vec![IntentPayload::Exchange(exchange)],
        LoggedItem::Attr(AttrIntent { inode, generation, operation, filter, names, .. }) => {
            vec![IntentPayload::Attr(Box::new(AttrPayload {
                inode,
                generation,
                operation,
                filter,
                name: names.name.to_vec(),
                new_name: names.new_name.map(<[u8]>::to_vec),
                value: names.value.to_vec(),
                new_value: names.new_value.map(<[u8]>::to_vec),
            }))]
        }
        _ => return None,
    })
}

/// Returns the log regions of an intent with these payloads, which must all be of one kind.
pub(crate) fn encode_intent(id: u64, payloads: &[IntentPayload]) -> Vec<Vec<u8>> {
    let order = HostOrder::NATIVE;
    match payloads.first() {
        Some(IntentPayload::ExtentFree(_)) => {
            LoggedItem::ExtentFree(free_list(id, payloads)).encode(order)
        }
        Some(IntentPayload::Rmap(_)) => LoggedItem::Rmap(rmap_list(id, payloads)).encode(order),
        Some(IntentPayload::Refcount(_)) => {
            LoggedItem::Refcount(refcount_list(id, payloads)).encode(order)
        }
        Some(IntentPayload::RealtimeFree(_)) => {
            LoggedItem::RealtimeFree(free_list(id, payloads)).encode(order)
        }
        Some(IntentPayload::RealtimeRmap(_)) => {
            LoggedItem::RealtimeRmap(rmap_list(id, payloads)).encode(order)
        }
        Some(IntentPayload::RealtimeRefcount(_)) => {
            LoggedItem::RealtimeRefcount(refcount_list(id, payloads)).encode(order)
        }
        Some(IntentPayload::Map(_)) => {
            LoggedItem::Map(list(id, payloads, |payload| match payload {
                IntentPayload::Map(extent) => Some(*extent),
                _ => None,
            }))
            .encode(order)
        }
        Some(IntentPayload::Attr(attr)) => LoggedItem::Attr(attr_intent(id, attr)).encode(order),
        Some(IntentPayload::Exchange(exchange)) => {
            LoggedItem::Exchange(ExchangeIntent { id, ..*exchange }).encode(order)
        }
        None => unreachable!("an intent has at least one payload"),
    }
}

/// Returns the log regions of the completion that ends the intent `id`. The intent carries these
/// payloads.
pub(crate) fn encode_done(id: u64, payloads: &[IntentPayload]) -> Vec<Vec<u8>> {
    let order = HostOrder::NATIVE;
    let kind = payloads.first().and_then(|first| first.kind().completion());
    match kind {
        Some(ItemKind::ExtentFreeDone) => {
            LoggedItem::ExtentFreeDone(free_list(id, payloads)).encode(order)
        }
        Some(ItemKind::RealtimeFreeDone) => {
            LoggedItem::RealtimeFreeDone(free_list(id, payloads)).encode(order)
        }
        Some(kind) => LoggedItem::Done(IntentDone { kind, id }).encode(order),
        None => unreachable!("every intent has a completion"),
    }
}

fn free_list(id: u64, payloads: &[IntentPayload]) -> IntentExtents<ExtentFree> {
    list(id, payloads, |payload| match payload {
        IntentPayload::ExtentFree(extent) | IntentPayload::RealtimeFree(extent) => Some(*extent),
        _ => None,
    })
}

fn rmap_list(id: u64, payloads: &[IntentPayload]) -> IntentExtents<RmapExtent> {
    list(id, payloads, |payload| match payload {
        IntentPayload::Rmap(extent) | IntentPayload::RealtimeRmap(extent) => Some(*extent),
        _ => None,
    })
}

fn refcount_list(id: u64, payloads: &[IntentPayload]) -> IntentExtents<RefcountExtent> {
    list(id, payloads, |payload| match payload {
        IntentPayload::Refcount(extent) | IntentPayload::RealtimeRefcount(extent) => Some(*extent),
        _ => None,
    })
}

fn list<E>(
    id: u64,
    payloads: &[IntentPayload],
    take: impl Fn(&IntentPayload) -> Option<E>,
) -> IntentExtents<E> {
    let extents: Vec<E> = payloads.iter().filter_map(take).collect();
    assert_eq!(extents.len(), payloads.len(), "the payloads of an intent are of one kind");
    IntentExtents { id, extents }
}

fn attr_intent(id: u64, attr: &AttrPayload) -> AttrIntent<'_> {
    let names = AttrNames {
        name: &attr.name,
        new_name: attr.new_name.as_deref(),
        value: &attr.value,
        new_value: attr.new_value.as_deref(),
    };
    let AttrPayload { inode, generation, operation, filter, .. } = *attr;
    AttrIntent { id, inode, generation, operation, filter, names }
}

#[cfg(test)]
mod tests;
