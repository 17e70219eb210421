//! Damages that xfs_repair notices and our checker does not, each with the reason.

use crate::damage::Damage;

/// A class of damages that only xfs_repair notices: changes of certain fields of certain
/// structures.
struct Known {
    /// Text that occurs in the names of the structures concerned.
    structure: &'static str,
    /// Text that occurs in the names of the fields concerned.
    field: &'static str,
    #[allow(dead_code, reason = "the reason is for readers of the list")]
    reason: &'static str,
}

const KNOWN: [Known; 3] = [
    Known {
        structure: "inode ",
        field: "core.nlinkv2: ones",
        reason: "the kernel keeps a link count of all ones as it is (XFS_NLINK_PINNED), so such a \
                 count says nothing about the number of names",
    },
    Known {
        structure: "addr rmaproot",
        field: "extentflag",
        reason: "kernels before 6.4 leave the flag for unwritten blocks in keys of nodes and \
                 compare keys without it, so both values are legal",
    },
    Known {
        structure: "",
        field: ".incomplete",
        reason: "a crash while an attribute is replaced leaves such an attribute, so the finding \
                 `attr.incomplete` is of the severity `preen`",
    },
];

/// Returns whether the list `KNOWN` has this damage as one that only xfs_repair notices.
pub(crate) fn is_known(damage: &Damage) -> bool {
    let name = damage.to_string();
    KNOWN.iter().any(|known| name.contains(known.structure) && name.contains(known.field))
}
