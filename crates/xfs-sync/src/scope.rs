//! Scopes: how widely a lock or an atomic is shared.

use core::fmt;

mod sealed {
    pub trait Sealed {}
}

/// How widely a lock or an atomic is shared among threads. Each lock and each atomic has a scope as
/// a part of its type.
pub trait CountScope: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Index of the scope in tables of counts: 0 for the narrowest scope.
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

        impl CountScope for $name {
            const INDEX: usize = $index;
            const NAME: &'static str = $text;
        }
    };
}

scope! {
    /// The scope of one thread's part of a value that is split by thread. Other threads rarely
    /// touch that part.
    Slot, 0, "slot"
}
scope! {
    /// The scope of one inode, buffer or open file.
    Object, 1, "object"
}
scope! {
    /// The scope of one allocation group, or of one shard of a table that is split by address.
    Group, 2, "group"
}
scope! {
    /// The scope of the whole volume.
    Volume, 3, "volume"
}

/// Counts one atomic write of scope `S`; does nothing without the feature `count`.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_write<S: CountScope>() {
    #[cfg(feature = "count")]
    crate::count::note_write(S::INDEX);
}

/// Counts one lock acquisition of scope `S`; does nothing without the feature `count`.
#[inline(always)]
#[cfg_attr(feature = "count", track_caller)]
pub(crate) fn note_lock<S: CountScope>() {
    #[cfg(feature = "count")]
    crate::count::note_lock(S::INDEX);
}
