//! A value that is set once and read for ever.

use core::fmt;
use core::marker::PhantomData;
use std::sync::OnceLock;

use crate::scope::{Scope, note_write};

/// A value that is set at most once. A reader pays one load, and nobody writes after the first
/// time: right for what a volume learns while it is opened.
pub struct SetOnce<T, S: Scope> {
    raw: OnceLock<T>,
    scope: PhantomData<S>,
}

impl<T, S: Scope> SetOnce<T, S> {
    /// A cell without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self { raw: OnceLock::new(), scope: PhantomData }
    }

    /// A cell that is set from the start.
    #[must_use]
    pub fn holding(value: T) -> Self {
        Self { raw: OnceLock::from(value), scope: PhantomData }
    }

    /// The value, once nobody can read it any more.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.raw.into_inner()
    }

    /// The value, once it is set.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        self.raw.get()
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// `value` back, if there is one already.
    #[cfg_attr(feature = "count", track_caller)]
    pub fn set(&self, value: T) -> Result<(), T> {
        note_write::<S>();
        self.raw.set(value)
    }

    /// The value, made by `make` if there is none yet. Threads that come meanwhile wait.
    #[inline]
    pub fn value_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.raw.get_or_init(|| {
            note_write::<S>();
            make()
        })
    }
}

impl<T, S: Scope> Default for SetOnce<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, S: Scope> fmt::Debug for SetOnce<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
