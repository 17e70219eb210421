//! The short form of the attribute fork. Each change rewrites all attributes, which are a few
//! hundred bytes.

use xfs_buffer::Result;
use xfs_format::StructureAddress;
use xfs_format::attr::short_form::encode;
use xfs_format::attr::{AttrEntry, AttrShortForm, AttrValue};

use super::AttributeKey;

/// The length limit of names and values in short form, in bytes. Each must be shorter than this.
#[doc(alias = "XFS_ATTR_SF_ENTSIZE_MAX")]
const LIMIT: usize = 255;

/// The decoded attributes of a fork in short form.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortAttributes<'a> {
    entries: Vec<AttrEntry<'a>>,
}

impl<'a> ShortAttributes<'a> {
    pub(super) fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self> {
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

    /// Appends an attribute. Returns `false` if its name or value is too long for the short form.
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

    /// Encodes the attributes. Returns `None` if there are more attributes than the short form can
    /// count.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        encode(&self.entries)
    }
}
