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

fn share_line(f: &mut Formatter<'_>, name: &str, share: InodeTotals, total: u64) -> fmt::Result {
    let bar = if total == 0 {
        0
    } else {
        (u128::from(share.inodes) * u128::from(BAR)).div_ceil(total.into())
    };
    let bar = "#".repeat(usize::try_from(bar).unwrap_or_default());
    let InodeTotals { inodes, size, allocated } = share;
    let (size, allocated) = (Bytes(size), Bytes(allocated));
    let line = format!("  {name:<14} {inodes:>12} {size:>12} {allocated:>12}  {bar}");
    writeln!(f, "{}", line.trim_end())
}

fn heading(f: &mut Formatter<'_>, title: &str) -> fmt::Result {
    writeln!(f, "\n{title:<16} {:>12} {:>12} {:>12}", "inodes", "size", "allocated")
}

fn write_path(f: &mut Formatter<'_>, ino: u64, path: &[u8]) -> fmt::Result {
    if path.is_empty() {
        return writeln!(f, "(orphan, inode {ino})");
    }
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    writeln!(f)
}

/// Returns the label of a class, which is its smallest value: "0", "1", "2 ..", "4 .." and so on.
/// `measure` formats this value.
fn class_name(class: usize, measure: impl Fn(u64) -> String) -> String {
    let class = u32::try_from(class).unwrap_or(u32::MAX);
    let Some(first) = class.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift)) else {
        return measure(0);
    };
    if first == 1 { measure(1) } else { format!("{} ..", measure(first)) }
}

impl Summary {
    fn write_classes(
        &self,
        f: &mut Formatter<'_>,
        title: &str,
        classes: &[InodeTotals],
        measure: impl Fn(u64) -> String,
    ) -> fmt::Result {
        heading(f, title)?;
        let total = classes.iter().map(|share| share.inodes).max().unwrap_or_default();
        for (class, share) in classes.iter().enumerate().filter(|(_, share)| share.inodes != 0) {
            share_line(f, &class_name(class, &measure), *share, total)?;
        }
        Ok(())
    }

    fn write_owners(&self, f: &mut Formatter<'_>) -> fmt::Result {
        heading(f, "By owner")?;
        let owners = self.by_owner();
        let mut others = InodeTotals::default();
        for (index, (uid, share)) in owners.iter().enumerate() {
            if index < OWNERS {
                share_line(f, &format!("uid {uid}"), *share, self.total.inodes)?;
            } else {
                others.add(*share);
            }
        }
        if others.inodes != 0 {
            let name = format!("{} others", owners.len() - OWNERS);
            share_line(f, &name, others, self.total.inodes)?;
        }
        Ok(())
    }

    fn write_ages(&self, f: &mut Formatter<'_>) -> fmt::Result {
        heading(f, "Changed within")?;
        for ((_, name), share) in AGES.iter().zip(self.by_age) {
            share_line(f, name, share, self.total.inodes)?;
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
                AccountBy::Owner => writeln!(f, "uid {}", account.key)?,
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
        writeln!(f, "{inodes} inodes, {size} in size, {allocated} allocated")?;
        writeln!(
            f,
            "{} files with several links, {} inodes with attribute blocks, {} orphans ({})",
            self.hard_linked,
            self.with_attributes,
            self.orphans.inodes,
            Bytes(self.orphans.allocated),
        )?;
        heading(f, "By type")?;
        for (name, share) in &self.by_type {
            share_line(f, name, *share, self.total.inodes)?;
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
