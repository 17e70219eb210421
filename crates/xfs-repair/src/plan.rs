//! The plan: everything that a repair would change, in one deterministic text.
//!
//! Owns: the parts of the plan, the text of the plan, and the check of such a text when it is read.
//! Does **not** own: how a plan is made (`planning`), or the contents of the changes. A plan holds
//! digests only, so it can be shown to other people.
//!
//! # Format
//!
//! One JSON object on each line, with the schema `ferroxfs.repair/1`. The kinds of lines, in this
//! order: one `plan`, any number of `action`, `run`, `left` and `unreadable`, one `end`. The line
//! `end` has the digest of all bytes before it.
//!
//! The same image and the same options give the same text, byte for byte. An apply depends on that:
//! it makes the plan again and compares the texts, so a plan that was edited, or that belongs to
//! another image, is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Map, Value, json};
use uuid::Uuid;
use xfs_check::{Code, Finding, Place, Severity};

use crate::action::Action;
use crate::digest::Digest;
use crate::error::{RepairError, Result};

/// The name and version of the format.
pub const SCHEMA: &str = "ferroxfs.repair/1";
/// The greatest length in bytes of a line of a plan that is read from a file.
const MOST_LINE_BYTES: usize = 1 << 20;

/// The result of the first step of a repair, which makes the log clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOutcome {
    /// The log was clean.
    Clean,
    /// The log was replayed, and work that a crash left open was finished.
    Replayed,
    /// The log was replayed, but interrupted operations could not be finished. Rules repair the
    /// damage that they leave.
    ReplayedInPart,
    /// The log was made empty, because it is damaged or older than the volume. An action says
    /// whether a part of it was replayed before.
    Formatted,
}

impl LogOutcome {
    /// Returns the word that stands for the outcome in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Replayed => "replayed",
            Self::ReplayedInPart => "replayed-in-part",
            Self::Formatted => "formatted",
        }
    }
}

/// A changed run of bytes, with its digests before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedRun {
    /// The byte offset on the volume at which the run starts.
    pub offset: u64,
    /// The length of the run in bytes.
    pub length: u32,
    /// The digest of the run's bytes before the repair.
    pub before: Digest,
    /// The digest of the run's bytes after the repair.
    pub after: Digest,
}

/// A finding of the checker that the plan does not repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFinding {
    /// The code of the finding.
    pub code: Code,
    /// The object that the finding is about.
    pub place: Place,
    /// The value that was found, in words.
    pub found: String,
}

impl LeftFinding {
    /// Copies the parts of a finding that a plan shows.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        Self { code: finding.code, place: finding.place, found: finding.found.clone() }
    }
}

/// A plan of a repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The UUID of the volume.
    pub uuid: Uuid,
    /// The length of the device in bytes.
    pub device_bytes: u64,
    /// The offset at which the realtime device starts: the repair puts it after the data device.
    /// `None` if the volume has no realtime device of its own.
    pub realtime_start: Option<u64>,
    /// Whether rules that lose something were allowed.
    pub allow_loss: bool,
    /// The result of making the log clean.
    pub log: LogOutcome,
    /// The number of findings of damage before the first round of checks and repairs. By then the
    /// superblock and the log are already repaired.
    pub findings: u64,
    /// The number of rounds of checking and repairing that are part of the plan.
    pub rounds: u32,
    /// The number of rounds that were taken back, because the volume was worse or no better after
    /// them. Damage that only these rounds would have changed is in `left`.
    pub withdrawn: u32,
    /// The actions, in the order in which they are done.
    pub actions: Vec<Action>,
    /// The runs of bytes that the plan changes, in the order of addresses.
    pub runs: Vec<ChangedRun>,
    /// The damage that the plan does not repair.
    pub left: Vec<LeftFinding>,
    /// Parts of the volume that the check could not look at after the repair.
    pub unchecked: Vec<String>,
    /// Ranges that the device cannot read, each with the error of the host.
    pub unreadable: Vec<(Range<u64>, String)>,
}

impl Plan {
    /// Returns whether the plan changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether the volume is damaged before the repair. A dirty log that can be replayed
    /// does not count as damage.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let is_replay_only = self.log == LogOutcome::Replayed && self.actions.is_empty();
        !self.leaves_clean() || !(self.is_empty() || is_replay_only)
    }

    /// Returns whether the volume is clean after the repair.
    #[must_use]
    pub fn leaves_clean(&self) -> bool {
        self.left.is_empty() && self.unchecked.is_empty() && self.unreadable.is_empty()
    }

    /// Returns whether any action of the plan loses something.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.actions.iter().any(|action| !action.loses.is_empty())
    }

    /// Returns the number of changed bytes.
    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.length)).sum()
    }

    /// Returns the plan as text. The last line has the digest of the lines before it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.lines() {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        let digest = Digest::of(text.as_bytes());
        _ = writeln!(text, "{}", json!({"kind": "end", "digest": digest.to_string()}));
        text
    }

    /// Returns the plan as one JSON object: the values of the line `plan`, and a list for each
    /// other kind of line.
    #[must_use]
    pub fn document(&self) -> Map<String, Value> {
        let mut object = Map::new();
        let kinds = [("action", "actions"), ("run", "runs"), ("left", "left")];
        let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for line in self.lines() {
            let Value::Object(mut line) = line else { unreachable!("each line is an object") };
            let kind = line.shift_remove("kind").expect("each line has a kind");
            match kinds.iter().find(|(name, _)| kind == *name) {
                Some((_, list)) => lists.entry(list).or_default().push(line.into()),
                None if kind == "plan" => object.extend(line),
                None => lists.entry("unreadable").or_default().push(line.into()),
            }
        }
        for list in kinds.map(|(_, list)| list).into_iter().chain(["unreadable"]) {
            let list_of = lists.remove(list).into_iter().flatten();
            object.insert(list.to_owned(), list_of.collect());
        }
        object
    }

    fn lines(&self) -> Vec<Value> {
        let mut lines = vec![json!({
            "schema": SCHEMA,
            "kind": "plan",
            "uuid": self.uuid.to_string(),
            "device_bytes": self.device_bytes,
            "allow_loss": self.allow_loss,
            "log": self.log.word(),
            "findings": self.findings,
            "rounds": self.rounds,
            "withdrawn": self.withdrawn,
            "actions": self.actions.len(),
            "runs": self.runs.len(),
            "bytes": self.changed_bytes(),
            "left": self.left.len(),
            "unchecked": self.unchecked,
        })];
        if let (Some(Value::Object(head)), Some(start)) = (lines.first_mut(), self.realtime_start) {
            head.insert("realtime_start".to_owned(), start.into());
        }
        for (number, action) in self.actions.iter().enumerate() {
            let codes: Vec<&str> = action.codes.iter().map(|code| code.word()).collect();
            let loses: Vec<&str> = action.loses.iter().map(|loss| loss.what.as_str()).collect();
            lines.push(json!({
                "kind": "action",
                "number": number,
                "rule": action.rule,
                "place": place(&action.place),
                "codes": codes,
                "keeps": action.keeps,
                "loses": loses,
            }));
        }
        lines.extend(self.runs.iter().map(|run| {
            json!({
                "kind": "run",
                "offset": run.offset,
                "length": run.length,
                "before": run.before.to_string(),
                "after": run.after.to_string(),
            })
        }));
        lines.extend(self.left.iter().map(|left| {
            json!({
                "kind": "left",
                "code": left.code.word(),
                "severity": left.code.severity().name(),
                "place": place(&left.place),
                "found": left.found,
            })
        }));
        lines.extend(self.unreadable.iter().map(|(range, error)| {
            json!({
                "kind": "unreadable",
                "offset": range.start,
                "length": range.end - range.start,
                "error": error,
            })
        }));
        lines
    }
}

/// Returns a place as a JSON object with the parts that are known: group, block, byte offset, inode
/// and file block.
#[must_use]
pub fn place(place: &Place) -> Value {
    let mut object = Map::new();
    let mut at = |key: &str, value: Option<u64>| {
        if let Some(value) = value {
            object.insert(key.to_owned(), value.into());
        }
    };
    at("ag", place.group.map(|group| group.0.into()));
    at("agbno", place.block.map(|block| block.0.into()));
    at("byte", place.byte_offset());
    at("ino", place.inode.map(|inode| inode.0));
    at("rgno", place.realtime_group.map(Into::into));
    at("rtblock", place.realtime_block.map(|block| block.0));
    at("file_block", place.file_block.map(|block| block.0));
    if place.file_block.is_some() {
        let fork = if place.is_attribute_fork { "attr" } else { "data" };
        object.insert("fork".to_owned(), fork.into());
    }
    Value::Object(object)
}

/// The text of a plan that was read from a file. Only its lines and its digest have been checked.
/// An apply makes the plan again and compares it with this text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanText {
    text: String,
    allow_loss: bool,
    uuid: Uuid,
}

impl PlanText {
    /// Checks the form of a plan: its schema, its lines and its digest.
    ///
    /// # Errors
    ///
    /// [`RepairError::Refused`] if a byte of the plan is damaged or missing.
    pub fn parse(text: &str) -> Result<Self> {
        let damaged = |why: &str| RepairError::Refused(format!("the plan {why}"));
        let body = text.strip_suffix('\n').ok_or_else(|| damaged("is cut short"))?;
        let (start, last) = body.rsplit_once('\n').ok_or_else(|| damaged("is cut short"))?;
        let sealed = text.get(..=start.len()).expect("the last line follows the others");
        let digest = Digest::of(sealed.as_bytes()).to_string();
        let end = json!({"kind": "end", "digest": digest}).to_string();
        if last != end {
            return Err(damaged("is damaged: its digest does not match its lines"));
        }
        let first = sealed.lines().next().filter(|line| line.len() <= MOST_LINE_BYTES);
        let first: Value = first
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| damaged("has no first line"))?;
        if first.get("schema").and_then(Value::as_str) != Some(SCHEMA) {
            return Err(damaged(&format!("does not have the schema {SCHEMA}")));
        }
        let allow_loss = first.get("allow_loss").and_then(Value::as_bool);
        let uuid = first.get("uuid").and_then(Value::as_str);
        let uuid = uuid.and_then(|uuid| Uuid::parse_str(uuid).ok());
        match (allow_loss, uuid) {
            (Some(allow_loss), Some(uuid)) => Ok(Self { text: text.to_owned(), allow_loss, uuid }),
            _ => Err(damaged("does not name its volume and options")),
        }
    }

    /// Returns whether the plan was made with rules that lose something.
    #[must_use]
    pub fn allow_loss(&self) -> bool {
        self.allow_loss
    }

    /// Checks that `plan` is this plan, byte for byte.
    ///
    /// # Errors
    ///
    /// [`RepairError::Refused`] if the plans differ.
    pub fn require(&self, plan: &Plan) -> Result<()> {
        if plan.text() == self.text {
            return Ok(());
        }
        let why = if plan.uuid == self.uuid {
            "the plan does not match the image: the image or the version of ferroxfs has changed \
             since the plan was made"
        } else {
            "the plan is of another volume"
        };
        Err(RepairError::Refused(why.to_owned()))
    }
}

/// Returns those findings that are damage (more severe than `preen`).
pub(crate) fn damage(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.severity() > Severity::Preen)
}

#[cfg(test)]
mod tests;
