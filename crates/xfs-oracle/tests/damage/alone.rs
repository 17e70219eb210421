//! Damages that the checker of ferroxfs notices and `xfs_repair -n` of version 7.2 does not.

use xfs_oracle::harness::TrialError;

use crate::base::{Base, KINDS};
use crate::damage::Damage;
use crate::judge::Judge;
use crate::structures::{self, DiskStructure};
use crate::text;

/// A damage of one field that only the checker of ferroxfs notices, and the code of its finding.
struct Alone {
    structure: &'static str,
    field: &'static str,
    verb: &'static str,
    code: &'static str,
}

const fn alone(
    structure: &'static str,
    field: &'static str,
    verb: &'static str,
    code: &'static str,
) -> Alone {
    Alone { structure, field, verb, code }
}

const ALONE: [Alone; 8] = [
    alone("inode map-leaf", "u3.bmbt.ptrs[1]", "firstbit", "bt.pointer"),
    alone("inode map-node", "u3.bmbt.ptrs[1]", "firstbit", "bt.pointer"),
    alone("inode map-root", "u3.bmx[0].startblock", "firstbit", "map.outside"),
    alone("inode map-leaf: addr u3.bmbt.ptrs[1]", "recs[1].startblock", "firstbit", "map.outside"),
    alone("agfl 0", "magicnum", "middlebit", "agfl.magic"),
    alone("agi 0", "newino", "firstbit", "agi.newino"),
    alone("sb 1", "rootino", "lastbit", "sb.copy"),
    alone("sb 2", "rootino", "firstbit", "sb.copy-damaged"),
];

/// Makes each damage of the list `ALONE`, one at a time. Checks that the checker of ferroxfs
/// reports a finding with the code in the list.
pub(crate) fn check() -> Result<(), TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let [kind, _] = KINDS;
    let base = Base::make(kind, folder.path())?;
    let judge = Judge::new(&base.image.data)?;
    let structures = structures::all(&base)?;
    let mut wrong = Vec::new();
    for alone in ALONE {
        wrong.extend(missing(&base, &judge, (&structures, &alone))?);
    }
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(text(wrong.join("\n"))),
    }
}

/// Makes one damage. Returns a message if the checker of ferroxfs reports no finding with the code
/// in `alone`, or if the damage changes nothing. Otherwise returns `None`.
fn missing(
    base: &Base,
    judge: &Judge,
    (structures, alone): (&[DiskStructure], &Alone),
) -> Result<Option<String>, TrialError> {
    let Alone { structure, field, verb, code } = *alone;
    let found = structures.iter().find(|found| found.name == structure);
    let found = found.ok_or_else(|| text(format!("xfs_db does not find {structure}")))?;
    let damage = Damage::Field {
        structure: structure.to_owned(),
        commands: found.commands.clone(),
        field: field.to_owned(),
        verb,
    };
    let patches = damage.apply(base, &base.image.data)?;
    let verdict = judge.verdict(&base.image.data)?;
    damage.undo(base, &base.image.data, &patches)?;
    let is_found = verdict.check.iter().any(|finding| finding.split(": ").nth(1) == Some(code));
    println!("damages: {damage}: xfs_repair says {:?}", verdict.repair);
    Ok((patches.is_empty() || !is_found)
        .then(|| format!("{damage}: expected {code}, found {:?}", verdict.check)))
}
