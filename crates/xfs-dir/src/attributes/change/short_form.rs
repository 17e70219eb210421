//! The short form: all attributes are written anew by each change, being a few hundred bytes.

use xfs_buffer::Result;
use xfs_format::Place;
use xfs_format::attr::short_form::encode;
use xfs_format::attr::{AttrEntry, AttrShortForm, AttrValue, Namespace};

use super::Key;

/// Names and values of this many bytes and more have no place in the short form.
#[doc(alias = "XFS_ATTR_SF_ENTSIZE_MAX")]
const LIMIT: usize = 255;

/// An attribute that owns its name and value.
#[derive(Clone, Debug)]
struct ShortAttribute {
    namespace: Namespace,
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl ShortAttribute {
    fn as_entry(&self) -> AttrEntry<'_> {
        let Self { namespace, name, value } = self;
        AttrEntry { namespace: *namespace, name, value: AttrValue::Local(value) }
    }
}

/// The attributes of the short form, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortAttributes {
    attributes: Vec<ShortAttribute>,
}

impl ShortAttributes {
    pub(super) fn decode(bytes: &[u8], place: Place) -> Result<Self> {
        let form = AttrShortForm::decode(bytes, place)?;
        form.verify()?;
        let mut short = Self::default();
        for entry in form.entries() {
            short.keep(&entry?);
        }
        Ok(short)
    }

    fn keep(&mut self, entry: &AttrEntry<'_>) {
        if let AttrValue::Local(value) = entry.value {
            let (namespace, name, value) = (entry.namespace, entry.name.into(), value.into());
            self.attributes.push(ShortAttribute { namespace, name, value });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.attributes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = AttrEntry<'_>> {
        self.attributes.iter().map(ShortAttribute::as_entry)
    }

    pub(super) fn find(&self, key: &Key<'_>) -> Option<usize> {
        self.attributes.iter().position(|attribute| key.is(&attribute.as_entry()))
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.attributes.remove(index);
    }

    /// Appends an attribute. `false` for one that has no place in any short form.
    pub(super) fn push(&mut self, entry: &AttrEntry<'_>) -> bool {
        let has_place = match entry.value {
            AttrValue::Local(value) => value.len() < LIMIT && entry.name.len() < LIMIT,
            AttrValue::Remote { .. } => false,
        };
        if has_place {
            self.keep(entry);
        }
        has_place
    }

    /// The bytes, or `None` for more attributes than the form can count.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        encode(&self.entries().collect::<Vec<_>>())
    }
}
