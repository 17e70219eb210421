//! How widely a lock or an atomic is shared.

use core::fmt;

mod sealed {
    pub trait Sealed {}
}

/// How widely something that is written is shared. Named in the type of each lock and atomic.
pub trait Scope: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Position in tables of counts: 0 for the narrowest scope.
    const INDEX: usize;
    /// The scope's name.
    const NAME: &'static str;
}

macro_rules! scope {
    ($(#[$doc:meta])* $name:ident, $index:literal, $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Scope for $name {
            const INDEX: usize = $index;
            const NAME: &'static str = $text;
        }
    };
}

scope! {
    /// One thread's share of something: rarely met by another thread.
    Slot, 0, "slot"
}
scope! {
    /// One inode, buffer, open file.
    Object, 1, "object"
}
scope! {
    /// One allocation group, or one shard of a table split by address.
    Group, 2, "group"
}
scope! {
    /// The whole volume.
    Volume, 3, "volume"
}

/// Adds one atomic write of scope `S` to the count; nothing without the feature.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_write<S: Scope>() {
    #[cfg(feature = "count")]
    crate::count::note_write(S::INDEX);
}

/// Adds one lock of scope `S` taken to the count; nothing without the feature.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_lock<S: Scope>() {
    #[cfg(feature = "count")]
    crate::count::note_lock(S::INDEX);
}
