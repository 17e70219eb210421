//! Record of the reference counts (`xfs_refcount_rec`).

use thiserror::Error;

/// A check of this structure that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum RefcountCheck {}
