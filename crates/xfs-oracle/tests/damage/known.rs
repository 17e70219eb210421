//! Damages that xfs_repair notices and our checker does not, each with the reason.

use crate::damage::Damage;

/// A known difference.
struct Known {
    /// A part of the name of the structure.
    structure: &'static str,
    /// A part of the name of the field.
    field: &'static str,
    #[allow(dead_code, reason = "the reason is for readers of the list")]
    reason: &'static str,
}

const KNOWN: [Known; 0] = [];

/// Returns whether it is known that xfs_repair alone notices this damage.
pub(crate) fn is_known(damage: &Damage) -> bool {
    let name = damage.to_string();
    KNOWN.iter().any(|known| name.contains(known.structure) && name.contains(known.field))
}
