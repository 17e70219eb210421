//! Values that are added to and never taken away, read without a lock.
//!
//! Owns: a chain of values of which the last counts, and a list that is made of pieces. For what a volume has
//! one of for each allocation group, and for its sizes: they change when it grows, which is seldom, and
//! are read by every operation. A reference to an older value stays good: nothing is freed before the
//! chain is.
//!
//! A reader goes along the chain, so what it costs grows with how often something was added: once more
//! for each time that a volume has grown while it was open.

use core::fmt;

use crate::cell::SetOnce;
use crate::scope::Scope;

/// A chain of values of which the last one counts.
#[derive(Debug)]
pub struct VersionChain<T, S: Scope> {
    value: T,
    next: SetOnce<Box<Self>, S>,
}

impl<T, S: Scope> VersionChain<T, S> {
    /// A chain of one value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { value, next: SetOnce::new() }
    }

    /// The value that was added last.
    #[inline]
    #[must_use]
    pub fn last(&self) -> &T {
        let mut link = self;
        while let Some(next) = link.next.value() {
            link = next;
        }
        &link.value
    }

    /// The values, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let links =
            core::iter::successors(Some(self), |link| link.next.value().map(|next| &**next));
        links.map(|link| &link.value)
    }

    /// Adds a value.
    pub fn push(&self, value: T) {
        let mut link = self;
        let mut new = Box::new(Self::new(value));
        // Somebody else may have been first: then it comes behind that one.
        while let Err(refused) = link.next.set(new) {
            new = refused;
            if let Some(next) = link.next.value() {
                link = next;
            }
        }
    }
}

/// A list that only gets longer.
pub struct AppendOnlyVec<T, S: Scope> {
    pieces: VersionChain<Box<[T]>, S>,
}

impl<T, S: Scope> AppendOnlyVec<T, S> {
    /// How long it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What stands at this place.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        let mut left = index;
        for piece in self.pieces.iter() {
            match piece.get(left) {
                Some(value) => return Some(value),
                None => left -= piece.len(),
            }
        }
        None
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Adds to its end.
    pub fn extend(&self, values: impl IntoIterator<Item = T>) {
        let values: Box<[T]> = values.into_iter().collect();
        if !values.is_empty() {
            self.pieces.push(values);
        }
    }
}

impl<T, S: Scope> FromIterator<T> for AppendOnlyVec<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { pieces: VersionChain::new(values.into_iter().collect()) }
    }
}

impl<T: fmt::Debug, S: Scope> fmt::Debug for AppendOnlyVec<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
