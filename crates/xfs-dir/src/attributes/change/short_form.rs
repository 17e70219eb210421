//! The short form: all attributes are written anew by each change, being a few hundred bytes.

use xfs_buffer::Result;
use xfs_format::Place;
use xfs_format::attr::short_form::encode;
use xfs_format::attr::{AttrEntry, AttrShortForm, AttrValue};

use super::AttributeKey;

/// Names and values of this many bytes and more have no place in the short form.
#[doc(alias = "XFS_ATTR_SF_ENTSIZE_MAX")]
const LIMIT: usize = 255;

/// The attributes of the short form, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortAttributes<'a> {
    entries: Vec<AttrEntry<'a>>,
}

impl<'a> ShortAttributes<'a> {
    pub(super) fn decode(bytes: &'a [u8], place: Place) -> Result<Self> {
        let form = AttrShortForm::decode(bytes, place)?;
        form.verify()?;
        Ok(Self { entries: form.entries().collect::<Result<_, _>>()? })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn entries(&self) -> &[AttrEntry<'a>] {
        &self.entries
    }

    pub(super) fn find(&self, key: &AttributeKey<'_>) -> Option<usize> {
        self.entries.iter().position(|entry| key.is(entry))
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.entries.remove(index);
    }

    /// Appends an attribute. `false` for one that has no place in any short form.
    pub(super) fn push(&mut self, entry: &AttrEntry<'a>) -> bool {
        let has_place = match entry.value {
            AttrValue::Local(value) => value.len() < LIMIT && entry.name.len() < LIMIT,
            AttrValue::Remote { .. } => false,
        };
        if has_place {
            self.entries.push(*entry);
        }
        has_place
    }

    /// The bytes, or `None` for more attributes than the form can count.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        encode(&self.entries)
    }
}
