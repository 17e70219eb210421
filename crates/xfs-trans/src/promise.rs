//! Promises: what an intent says that will be done.
//!
//! Owns: promises in memory, which of them may share an intent, and their encoding. Does **not** own
//! what keeping one means: see [`Deferred`](crate::Deferred).

use xfs_format::log_item::{
    AttrIntent, AttrNames, AttrOperation, ExchangeIntent, ExtentFree, HostOrder, IntentDone,
    IntentExtents, ItemKind, LogItem, MapExtent, RefcountExtent, RmapExtent,
};
use xfs_format::{FsBlock, InodeNumber};

/// Extents that one intent may list, as the kernel limits it.
#[doc(alias = "XFS_EFI_MAX_FAST_EXTENTS")]
const MOST_EXTENTS: usize = 16;

/// What an intent says that will be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// An extent becomes free.
    #[doc(alias = "EFI")]
    ExtentFree(ExtentFree),
    /// The reverse map changes.
    #[doc(alias = "RUI")]
    Rmap(RmapExtent),
    /// Reference counts change.
    #[doc(alias = "CUI")]
    Refcount(RefcountExtent),
    /// The map of a file changes.
    #[doc(alias = "BUI")]
    Map(MapExtent),
    /// An extended attribute changes.
    #[doc(alias = "ATTRI")]
    Attr(Box<AttrPromise>),
    /// Two files exchange extents. The number of the intent is given when it is logged.
    #[doc(alias = "XMI")]
    Exchange(ExchangeIntent),
}

/// A change of an extended attribute, with the bytes that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrPromise {
    /// The file.
    pub inode: InodeNumber,
    /// Its generation; means something for parent pointers.
    pub generation: u32,
    /// What is done.
    pub operation: AttrOperation,
    /// The namespace.
    pub filter: u32,
    /// The attribute.
    pub name: Vec<u8>,
    /// What it is called afterwards, when a parent pointer is replaced.
    pub new_name: Option<Vec<u8>>,
    /// The value; empty where there is none.
    pub value: Vec<u8>,
    /// The value afterwards, when a parent pointer is replaced.
    pub new_value: Option<Vec<u8>>,
}

impl Promise {
    /// The item that makes it.
    pub(crate) const fn kind(&self) -> ItemKind {
        match self {
            Self::ExtentFree(_) => ItemKind::ExtentFree,
            Self::Rmap(_) => ItemKind::Rmap,
            Self::Refcount(_) => ItemKind::Refcount,
            Self::Map(_) => ItemKind::Map,
            Self::Attr(_) => ItemKind::Attr,
            Self::Exchange(_) => ItemKind::Exchange,
        }
    }

    /// How many promises of this kind one intent may make.
    pub(crate) const fn most_together(&self) -> usize {
        match self {
            Self::ExtentFree(_) | Self::Rmap(_) | Self::Refcount(_) => MOST_EXTENTS,
            Self::Map(_) | Self::Attr(_) | Self::Exchange(_) => 1,
        }
    }

    /// The first block, of promises that share an intent.
    pub(crate) const fn start(&self) -> Option<FsBlock> {
        match self {
            Self::ExtentFree(extent) => Some(extent.start),
            Self::Rmap(extent) => Some(extent.start),
            Self::Refcount(extent) => Some(extent.start),
            Self::Map(_) | Self::Attr(_) | Self::Exchange(_) => None,
        }
    }
}

/// What an intent of the log promises; `None` for an item that is no intent.
pub(crate) fn decode_intent(item: LogItem<'_>) -> Option<Vec<Promise>> {
    Some(match item {
        LogItem::ExtentFree(list) => list.extents.into_iter().map(Promise::ExtentFree).collect(),
        LogItem::Rmap(list) => list.extents.into_iter().map(Promise::Rmap).collect(),
        LogItem::Refcount(list) => list.extents.into_iter().map(Promise::Refcount).collect(),
        LogItem::Map(list) => list.extents.into_iter().map(Promise::Map).collect(),
        LogItem::Exchange(exchange) => vec![Promise::Exchange(exchange)],
        LogItem::Attr(AttrIntent { inode, generation, operation, filter, names, .. }) => {
            vec![Promise::Attr(Box::new(AttrPromise {
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

/// The intent that makes these promises, all of one kind.
pub(crate) fn encode_intent(id: u64, promises: &[Promise]) -> Vec<Vec<u8>> {
    let order = HostOrder::NATIVE;
    match promises.first() {
        Some(Promise::ExtentFree(_)) => LogItem::ExtentFree(free_list(id, promises)).encode(order),
        Some(Promise::Rmap(_)) => LogItem::Rmap(list(id, promises, |promise| match promise {
            Promise::Rmap(extent) => Some(*extent),
            _ => None,
        }))
        .encode(order),
        Some(Promise::Refcount(_)) => {
            LogItem::Refcount(list(id, promises, |promise| match promise {
                Promise::Refcount(extent) => Some(*extent),
                _ => None,
            }))
            .encode(order)
        }
        Some(Promise::Map(_)) => LogItem::Map(list(id, promises, |promise| match promise {
            Promise::Map(extent) => Some(*extent),
            _ => None,
        }))
        .encode(order),
        Some(Promise::Attr(attr)) => LogItem::Attr(attr_intent(id, attr)).encode(order),
        Some(Promise::Exchange(exchange)) => {
            LogItem::Exchange(ExchangeIntent { id, ..*exchange }).encode(order)
        }
        None => unreachable!("an intent promises something"),
    }
}

/// The completion of the intent that made these promises.
pub(crate) fn encode_done(id: u64, promises: &[Promise]) -> Vec<Vec<u8>> {
    let order = HostOrder::NATIVE;
    let kind = promises.first().and_then(|first| first.kind().completion());
    match kind {
        Some(ItemKind::ExtentFreeDone) => {
            LogItem::ExtentFreeDone(free_list(id, promises)).encode(order)
        }
        Some(kind) => LogItem::Done(IntentDone { kind, id }).encode(order),
        None => unreachable!("every intent has a completion"),
    }
}

fn free_list(id: u64, promises: &[Promise]) -> IntentExtents<ExtentFree> {
    list(id, promises, |promise| match promise {
        Promise::ExtentFree(extent) => Some(*extent),
        _ => None,
    })
}

fn list<E>(
    id: u64,
    promises: &[Promise],
    take: impl Fn(&Promise) -> Option<E>,
) -> IntentExtents<E> {
    let extents: Vec<E> = promises.iter().filter_map(take).collect();
    assert_eq!(extents.len(), promises.len(), "an intent makes promises of one kind");
    IntentExtents { id, extents }
}

fn attr_intent(id: u64, attr: &AttrPromise) -> AttrIntent<'_> {
    let names = AttrNames {
        name: &attr.name,
        new_name: attr.new_name.as_deref(),
        value: &attr.value,
        new_value: attr.new_value.as_deref(),
    };
    let AttrPromise { inode, generation, operation, filter, .. } = *attr;
    AttrIntent { id, inode, generation, operation, filter, names }
}

#[cfg(test)]
mod tests;
