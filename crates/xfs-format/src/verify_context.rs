//! The facts about a volume that every verifier needs, whatever structure it checks.

use crate::addr::Lsn;
use crate::geometry::Geometry;

/// The input of a verifier, except the bytes of the structure and their address.
#[derive(Clone, Copy, Debug)]
pub struct VerifyContext<'a> {
    /// Geometry of the volume, including the UUID of its metadata.
    pub geometry: &'a Geometry,
    /// The head of the log, or `None` while it is unknown. No LSN may be after the head.
    pub log_head: Option<Lsn>,
}
