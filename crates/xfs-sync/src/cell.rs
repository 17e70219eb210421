//! A value that is set at most once.

use core::fmt;
use core::marker::PhantomData;
use std::sync::OnceLock;

use crate::scope::{CountScope, note_write};

/// A value that is set at most once.
///
/// A read costs one load, and there are no writes after the first. The type suits facts that a
/// volume learns while it is opened.
pub struct SetOnce<T, S: CountScope> {
    raw: OnceLock<T>,
    scope: PhantomData<S>,
}

impl<T, S: CountScope> SetOnce<T, S> {
    /// Creates a cell without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self { raw: OnceLock::new(), scope: PhantomData }
    }

    /// Creates a cell that holds `value` from the start.
    #[must_use]
    pub fn holding(value: T) -> Self {
        Self { raw: OnceLock::from(value), scope: PhantomData }
    }

    /// Consumes the cell and returns its value, or `None` if no value was set.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.raw.into_inner()
    }

    /// Returns the value, or `None` while it is not set.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        self.raw.get()
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// Returns `value` if the cell is already set.
    #[cfg_attr(feature = "count", track_caller)]
    pub fn set(&self, value: T) -> Result<(), T> {
        note_write::<S>();
        self.raw.set(value)
    }

    /// Returns the value. If the cell has no value, calls `make` and stores its result. Other
    /// threads that call this function meanwhile wait for the result.
    #[inline]
    pub fn value_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.raw.get_or_init(|| {
            note_write::<S>();
            make()
        })
    }
}

impl<T, S: CountScope> Default for SetOnce<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, S: CountScope> fmt::Debug for SetOnce<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
