//! Prints the summary of a scan for people.

use std::fmt::{self, Display, Formatter};

use super::{AGES, InodeTotals, Summary};
use crate::AccountBy;

/// Number of owners that are listed. All other owners are summed in one line.
const OWNERS: usize = 10;
/// The longest bar of a printed chart, in characters.
const BAR: u64 = 30;

/// Displays a number of bytes with three digits and a unit.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let power = (self.0.checked_ilog2().unwrap_or(0) / 10) as usize;
        let unit = UNITS.get(power).copied().unwrap_or_default();
        let tenths = (u128::from(self.0) * 10) >> (power * 10);
        let text = if power == 0 {
            format!("{} {unit}", self.0)
        } else {
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        };
        f.pad(&text)
    }
}

/// The quantity that the bars of a chart show.
#[derive(Clone, Copy)]
enum BarUnit {
    Inodes,
    /// Allocated space, by which the rows of the chart are sorted.
    Allocated,
}

impl BarUnit {
    const fn name(self) -> &'static str {
        match self {
            Self::Inodes => "inodes",
            Self::Allocated => "allocated",
        }
    }

    const fn of(self, share: InodeTotals) -> u64 {
        match self {
            Self::Inodes => share.inodes,
            Self::Allocated => share.allocated,
        }
    }

    /// Returns the bar of a row, if a bar of full length stands for `total`.
    fn bar(self, share: InodeTotals, total: u64) -> String {
        let length = match total {
            0 => 0,
            total => (u128::from(self.of(share)) * u128::from(BAR)).div_ceil(total.into()),
        };
        "#".repeat(usize::try_from(length).unwrap_or_default())
    }
}

fn share_line(f: &mut Formatter<'_>, name: &str, share: InodeTotals, bar: &str) -> fmt::Result {
    let InodeTotals { inodes, size, allocated } = share;
    let (size, allocated) = (Bytes(size), Bytes(allocated));
    let line = format!("  {name:<14} {inodes:>12} {size:>12} {allocated:>12}  {bar}");
    writeln!(f, "{}", line.trim_end())
}

fn heading(f: &mut Formatter<'_>, title: &str, unit: BarUnit) -> fmt::Result {
    let [inodes, size, allocated] = ["inodes", "size", "allocated"];
    let unit = unit.name();
    writeln!(f, "\n{title:<16} {inodes:>12} {size:>12} {allocated:>12}  bar: {unit}")
}

fn write_path(f: &mut Formatter<'_>, ino: u64, path: &[u8]) -> fmt::Result {
    if path.is_empty() {
        return writeln!(f, "(orphan, inode {ino})");
    }
    writeln!(f, "{}", printable(path))
}

/// Returns a name or path without characters that a terminal interprets.
fn printable(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Returns the label of a class of sizes or counts, which is its smallest value: "0", "1", "2 ..",
/// "4 .." and so on. `measure` formats this value.
fn class_name(class: usize, measure: impl Fn(u64) -> String) -> String {
    let class = u32::try_from(class).unwrap_or(u32::MAX);
    let Some(first) = class.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift)) else {
        return measure(0);
    };
    if first == 1 { measure(1) } else { format!("{} ..", measure(first)) }
}

/// Returns a count with its noun, such as "1 inode" or "2 inodes".
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the name and the id of an owner, or only the id if the name is not known.
fn owner_label(name: Option<&str>, uid: u64) -> String {
    match name {
        Some(name) => format!("{} ({uid})", printable(name.as_bytes())),
        None => format!("uid {uid}"),
    }
}

impl Summary {
    fn write_classes(
        &self,
        f: &mut Formatter<'_>,
        title: &str,
        classes: &[InodeTotals],
        measure: impl Fn(u64) -> String,
    ) -> fmt::Result {
        heading(f, title, BarUnit::Inodes)?;
        let total = classes.iter().map(|share| share.inodes).max().unwrap_or_default();
        for (class, share) in classes.iter().enumerate().filter(|(_, share)| share.inodes != 0) {
            let bar = BarUnit::Inodes.bar(*share, total);
            share_line(f, &class_name(class, &measure), *share, &bar)?;
        }
        Ok(())
    }

    fn write_owners(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = BarUnit::Allocated;
        heading(f, "By owner", unit)?;
        let total = unit.of(self.total);
        let owners = self.by_owner();
        let mut others = InodeTotals::default();
        for (index, (uid, share)) in owners.iter().enumerate() {
            if index < OWNERS {
                let name = owner_label(self.owner_name(*uid), (*uid).into());
                share_line(f, &name, *share, &unit.bar(*share, total))?;
            } else {
                others.add(*share);
            }
        }
        if others.inodes != 0 {
            let name = format!("{} others", owners.len() - OWNERS);
            share_line(f, &name, others, &unit.bar(others, total))?;
        }
        Ok(())
    }

    fn write_ages(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = BarUnit::Inodes;
        heading(f, "Changed within", unit)?;
        for ((_, name), share) in AGES.iter().zip(self.by_age) {
            share_line(f, name, share, &unit.bar(share, self.total.inodes))?;
        }
        Ok(())
    }

    /// Writes the accounts that were asked for, with shared blocks and hard links counted once.
    fn write_accounts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for account in &self.accounts {
            if last != Some(account.by) {
                let by = account.by.name();
                writeln!(f, "\n{:>14} {:>12} {:>12}  by {by}", "inodes", "size", "allocated")?;
                last = Some(account.by);
            }
            let (size, allocated) = (Bytes(account.size), Bytes(account.blocks << 9));
            write!(f, "{:>14} {size:>12} {allocated:>12}  ", account.inodes)?;
            match account.by {
                AccountBy::Owner => {
                    writeln!(f, "{}", owner_label(account.owner.as_deref(), account.key))?
                }
                AccountBy::Project => writeln!(f, "project {}", account.key)?,
                AccountBy::Directory => {
                    let path = account.paths.iter().next().unwrap_or_default();
                    write_path(f, account.key, path)?;
                }
            }
        }
        Ok(())
    }

    fn write_fan_out(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nEntries of a directory   directories")?;
        for (class, count) in self.by_fan_out.iter().enumerate().filter(|(_, count)| **count != 0) {
            let name = class_name(class, |entries| entries.to_string());
            writeln!(f, "  {name:<20} {count:>13}")?;
        }
        Ok(())
    }

    fn write_biggest(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.biggest_files().is_empty() {
            writeln!(f, "\nBiggest files")?;
        }
        for big in self.biggest_files() {
            write!(f, "  {:>12}  ", Bytes(big.measure))?;
            write_path(f, big.ino, &big.path)?;
        }
        let lists = [
            ("Most extents", self.most_extents.sorted()),
            ("Most entries", self.biggest_directories()),
        ];
        for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            writeln!(f, "\n{title}")?;
            for big in list {
                write!(f, "  {:>12}  ", big.measure)?;
                write_path(f, big.ino, &big.path)?;
            }
        }
        Ok(())
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let InodeTotals { inodes, size, allocated } = self.total;
        let (size, allocated) = (Bytes(size), Bytes(allocated));
        let inodes = counted(inodes, "inode");
        writeln!(f, "{inodes}, {size} in size, {allocated} allocated")?;
        writeln!(
            f,
            "{} with several links, {} with attribute blocks, {} ({})",
            counted(self.hard_linked, "file"),
            counted(self.with_attributes, "inode"),
            counted(self.orphans.inodes, "orphan"),
            Bytes(self.orphans.allocated),
        )?;
        let unit = BarUnit::Inodes;
        heading(f, "By type", unit)?;
        for (name, share) in &self.by_type {
            share_line(f, name, *share, &unit.bar(*share, self.total.inodes))?;
        }
        self.write_owners(f)?;
        let bytes = |size| Bytes(size).to_string();
        self.write_classes(f, "Files by size", &self.by_size, bytes)?;
        self.write_classes(f, "Files by extents", &self.by_extents, |count| count.to_string())?;
        self.write_ages(f)?;
        self.write_fan_out(f)?;
        self.write_biggest(f)?;
        self.write_accounts(f)
    }
}
