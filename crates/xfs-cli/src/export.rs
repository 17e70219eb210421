//! Commands that copy files out of an image, one module each, and the writers of trees and archives
//! that they share.

pub(crate) mod cat;
pub(crate) mod cp;
pub(crate) mod get;
pub(crate) mod host;
pub(crate) mod salvage;
pub(crate) mod tar;
