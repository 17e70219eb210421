//! Encodes the summary of a scan as JSON.

use serde_json::{Value, json};

use super::{AGES, InodeTotals, RankedInode, Summary};
use crate::accounting::Account;

fn share(share: InodeTotals) -> Value {
    let InodeTotals { inodes, size, allocated } = share;
    json!({"inodes": inodes, "size": size, "allocated": allocated})
}

/// Returns the totals of all classes as JSON, each class with its lower bound. A class is a range
/// of sizes or of numbers of extents.
fn classes(all: &[InodeTotals]) -> Value {
    let used = all.iter().enumerate().filter(|(_, share)| share.inodes != 0);
    used.map(|(class, share)| {
        let InodeTotals { inodes, size, allocated } = *share;
        json!({"from": least(class), "inodes": inodes, "size": size, "allocated": allocated})
    })
    .collect()
}

/// Returns the smallest value in the class with index `class`. A class is the range of values from
/// one power of two to the next.
fn least(class: usize) -> u64 {
    let shift = class.checked_sub(1).and_then(|shift| u32::try_from(shift).ok());
    shift.and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

fn biggest(all: &[&RankedInode], measure: &str) -> Value {
    let all = all.iter().map(|big| {
        let path = String::from_utf8_lossy(&big.path);
        json!({"ino": big.ino, measure: big.measure, "path": path})
    });
    all.collect()
}

fn account(account: &Account) -> Value {
    let Account { by, key, owner, inodes, size, blocks, shared_blocks, paths } = account;
    let mut object = json!({
        "by": by.name(),
        "key": key,
        "inodes": inodes,
        "size": size,
        "allocated": blocks << 9,
        "shared": shared_blocks << 9,
    });
    if let (Some(path), Some(object)) = (paths.iter().next(), object.as_object_mut()) {
        object.insert("path".to_owned(), String::from_utf8_lossy(path).into());
    }
    if let (Some(owner), Some(object)) = (owner, object.as_object_mut()) {
        object.insert("owner".to_owned(), owner.as_str().into());
    }
    object
}

impl Summary {
    /// Returns all figures as JSON. Paths that are not UTF-8 have replacement characters, so use
    /// `ino` to identify files.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let by_type =
            self.by_type.iter().map(|(name, figures)| ((*name).to_owned(), share(*figures)));
        let by_owner = self.by_owner().into_iter().map(|(uid, figures)| {
            let InodeTotals { inodes, size, allocated } = figures;
            let mut object =
                json!({"uid": uid, "inodes": inodes, "size": size, "allocated": allocated});
            if let (Some(name), Some(object)) = (self.owner_name(uid), object.as_object_mut()) {
                object.insert("owner".to_owned(), name.into());
            }
            object
        });
        let ages = AGES.iter().zip(self.by_age);
        let ages = ages.map(|((_, name), figures)| ((*name).to_owned(), share(figures)));
        let fan_out = self.by_fan_out.iter().enumerate().filter(|(_, count)| **count != 0);
        let fan_out =
            fan_out.map(|(class, count)| json!({"from": least(class), "directories": count}));
        json!({
            "total": share(self.total),
            "hard_linked": self.hard_linked,
            "with_attributes": self.with_attributes,
            "orphans": share(self.orphans),
            "by_type": by_type.collect::<serde_json::Map<_, _>>(),
            "by_owner": by_owner.collect::<Value>(),
            "files_by_size": classes(&self.by_size),
            "files_by_extents": classes(&self.by_extents),
            "changed_within": ages.collect::<serde_json::Map<_, _>>(),
            "directories_by_entries": fan_out.collect::<Value>(),
            "biggest_files": biggest(&self.biggest_files(), "size"),
            "most_extents": biggest(&self.most_extents.sorted(), "extents"),
            "biggest_directories": biggest(&self.biggest_directories(), "entries"),
            "accounts": self.accounts.iter().map(account).collect::<Value>(),
        })
    }
}
