//! The commands that copy files into an image: their sources (host, archives, prototype files), and
//! the writer of files that they share.

mod ahead;
pub(crate) mod archive;
mod beneath;
pub(crate) mod census;
mod chunks;
pub(crate) mod composefs;
pub(crate) mod container;
pub(crate) mod cp;
pub(crate) mod cpio;
pub(crate) mod decompress;
pub(crate) mod host;
#[expect(clippy::module_inception, reason = "the file of a command bears its name")]
pub(crate) mod import;
pub(crate) mod origin;
pub(crate) mod policy;
pub(crate) mod prototype;
pub(crate) mod put;
pub(crate) mod sources;
mod tables_of_image;
pub(crate) mod tar;
pub(crate) mod unpack;
pub(crate) mod writer;

pub(crate) use tables_of_image::tables_of_image;
