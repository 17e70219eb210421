//! Containers that only grow and that are read without a lock.
//!
//! Owns: a chain of versions of a value, whose last version is current, and a list made of
//! segments. The library keeps the sizes of a volume and its per-group state in them. Every
//! operation reads these values, and they change only when the volume grows. References to older
//! values stay valid, because nothing is freed before the container is dropped.
//!
//! A reader walks the chain, so a read costs one more step for each time that the volume has grown
//! since it was opened.

use core::fmt;

use crate::cell::SetOnce;
use crate::scope::CountScope;

/// A chain of versions of a value. The last one is current.
#[derive(Debug)]
pub struct VersionChain<T, S: CountScope> {
    value: T,
    next: SetOnce<Box<Self>, S>,
}

impl<T, S: CountScope> VersionChain<T, S> {
    /// Creates a chain of one value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { value, next: SetOnce::new() }
    }

    /// Returns the value that was added last.
    #[inline]
    #[must_use]
    pub fn last(&self) -> &T {
        let mut link = self;
        while let Some(next) = link.next.value() {
            link = next;
        }
        &link.value
    }

    /// Iterates over the values in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let links =
            core::iter::successors(Some(self), |link| link.next.value().map(|next| &**next));
        links.map(|link| &link.value)
    }

    /// Appends a value, which is the current one from then on.
    pub fn push(&self, value: T) {
        let mut link = self;
        let mut new = Box::new(Self::new(value));
        // If another thread was first, append after its value.
        while let Err(refused) = link.next.set(new) {
            new = refused;
            if let Some(next) = link.next.value() {
                link = next;
            }
        }
    }
}

/// A list that only grows.
pub struct AppendOnlyVec<T, S: CountScope> {
    segments: VersionChain<Box<[T]>, S>,
}

impl<T, S: CountScope> AppendOnlyVec<T, S> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at `index`, or `None` if the list is not that long.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        let mut left = index;
        for segment in self.segments.iter() {
            match segment.get(left) {
                Some(value) => return Some(value),
                None => left -= segment.len(),
            }
        }
        None
    }

    /// Iterates over all elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().flat_map(|segment| segment.iter())
    }

    /// Appends `values` to the list, in order.
    pub fn extend(&self, values: impl IntoIterator<Item = T>) {
        let values: Box<[T]> = values.into_iter().collect();
        if !values.is_empty() {
            self.segments.push(values);
        }
    }
}

impl<T, S: CountScope> FromIterator<T> for AppendOnlyVec<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { segments: VersionChain::new(values.into_iter().collect()) }
    }
}

impl<T: fmt::Debug, S: CountScope> fmt::Debug for AppendOnlyVec<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
