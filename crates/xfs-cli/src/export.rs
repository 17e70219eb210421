//! Commands that copy files out of an image.

pub(crate) mod cat;
pub(crate) mod cp;
pub(crate) mod get;
pub(crate) mod host;
pub(crate) mod tar;
