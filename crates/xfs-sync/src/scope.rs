//! Scopes: how widely a lock or an atomic is shared.

use core::fmt;

mod sealed {
    pub trait Sealed {}
}

/// How widely a lock or an atomic is shared. Part of the type of each.
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
    /// One thread's part of a value that is split by thread. Other threads rarely touch it.
    Slot, 0, "slot"
}
scope! {
    /// One inode, buffer or open file.
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

/// Counts one atomic write of scope `S`; does nothing without the feature `count`.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_write<S: Scope>() {
    #[cfg(feature = "count")]
    crate::count::note_write(S::INDEX);
}

/// Counts one lock acquisition of scope `S`; does nothing without the feature `count`.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_lock<S: Scope>() {
    #[cfg(feature = "count")]
    crate::count::note_lock(S::INDEX);
}
