//! Extended attributes, in any form.

use thiserror::Error;

/// A check of this structure that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AttrCheck {}
