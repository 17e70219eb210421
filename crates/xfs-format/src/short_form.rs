//! Iteration over the entries of a short form, that is, of attributes or directory entries inside
//! an inode.
//!
//! Owns: how an iteration ends, at the last entry or after the first damaged one. Does **not** own
//! the entries (`attr::short_form`, `directory::short_form`).

/// Implements `Iterator` for the entries of a short form. The iterator has the fields `left`, the
/// number of entries that are not returned yet, and `form`, and a method `parse`.
macro_rules! short_form_iterator {
    ($entries:ident, $entry:ident) => {
        impl<'a> Iterator for $entries<'a> {
            type Item = Result<$entry<'a>, Corruption>;

            fn next(&mut self) -> Option<Self::Item> {
                self.left = self.left.checked_sub(1)?;
                let parsed = self.parse();
                if parsed.is_err() {
                    self.left = 0;
                }
                Some(parsed.map_err(|check| self.form.corrupt(check)))
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (0, Some(self.left.into()))
            }
        }
    };
}

pub(crate) use short_form_iterator;
