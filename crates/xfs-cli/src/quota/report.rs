//! `quota report`: shows the usage and the limits of all owners.

use std::io::{self, Write};
use std::path::Path;

use ferroxfs::quota::{Quota, QuotaState, QuotaType, Usage};
use serde_json::Value;

use super::{OwnerNames, chosen};
use crate::cli::{GlobalOptions, QuotaReportOptions};
use crate::failure::Failure;
use crate::image::{Image, ImageVolume};
use crate::json::{List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::size;
use crate::text::time::Clock;

/// The default grace period in seconds, seven days. It applies to a type of quota whose ID 0 has no
/// grace period set.
const GRACE_SECONDS: u64 = 7 * 24 * 3600;

struct Report {
    shown: QuotaReportOptions,
    image: Image,
    names: OwnerNames,
    clock: Clock,
}

/// Opens the image, and returns the command, ready to run.
pub(crate) fn open(
    image: &Path,
    shown: QuotaReportOptions,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open(image, options)?;
    let names = OwnerNames::open(shown.numeric);
    Ok(Box::new(Report { shown, image, names, clock: Clock::open() }))
}

impl Run for Report {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let quotas = volume.inner().quota();
        let state = quotas.state().map_err(|error| volume.whole_failure(error))?;
        let mut list = match console.is_json() {
            true => Some(List::begin_with(console.out(), &self.states(&state), "quotas")?),
            false => None,
        };
        let mut has_some = false;
        for kind in chosen(self.shown.types) {
            let all = quotas.iter(kind).map_err(|error| volume.whole_failure(error))?;
            let mut all = all.peekable();
            if all.peek().is_none() && !state.is_accounted(kind) {
                continue;
            }
            has_some = true;
            if list.is_none() {
                self.head(&volume, &state, kind, console)?;
            }
            for quota in all {
                match quota {
                    Err(error) => console.report(&volume.whole_failure(error)),
                    Ok(quota) => self.row(&volume, &quota, list.as_mut(), console)?,
                }
            }
        }
        if let Some(list) = list {
            list.end(console.out())?;
        } else if !has_some {
            let shown = names::in_message(self.image.path().as_os_str().as_encoded_bytes());
            let kinds: Vec<_> = chosen(self.shown.types).map(QuotaType::name).collect();
            console.note(format!("{shown} has no quota of {}s", kinds.join("s, ")));
        }
        Ok(())
    }
}

impl Report {
    /// Returns the state of each type as the start of the JSON document.
    fn states(&self, state: &QuotaState) -> Object {
        let of = |kind: QuotaType| {
            let mut object = Object::new();
            object.insert("type".to_owned(), kind.name().into());
            object.insert("accounted".to_owned(), state.is_accounted(kind).into());
            object.insert("enforced".to_owned(), state.is_enforced(kind).into());
            object.insert("checked".to_owned(), state.is_checked(kind).into());
            Value::from(object)
        };
        let states: Vec<Value> = chosen(self.shown.types).map(of).collect();
        Object::from_iter([("types".to_owned(), Value::from(states))])
    }

    /// Prints the heading of a type.
    fn head(
        &self,
        volume: &ImageVolume,
        state: &QuotaState,
        kind: QuotaType,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let defaults = volume.inner().quota().get(kind, 0);
        let defaults = defaults.map_err(|error| volume.whole_failure(error))?;
        let grace = |of: fn(&Quota) -> Usage| {
            let seconds = defaults.as_ref().map_or(0, |quota| of(quota).timer);
            duration(if seconds == 0 { GRACE_SECONDS } else { seconds })
        };
        let image = names::in_message(volume.path().as_os_str().as_encoded_bytes()).into_owned();
        let name = kind.name();
        let words = [
            (state.is_accounted(kind), "accounted", "not accounted"),
            (state.is_enforced(kind), "enforced", "not enforced"),
            (state.is_checked(kind), "checked", "not checked: the counts may be wrong"),
        ];
        let words = words.map(|(holds, yes, no)| if holds { yes } else { no }).join(", ");
        let (blocks, inodes) = (grace(|quota| quota.blocks), grace(|quota| quota.inodes));
        let out = console.out();
        writeln!(out, "{name} quota of {image}: {words}")?;
        writeln!(out, "grace period of blocks {blocks}, of inodes {inodes}")?;
        let unit = if self.shown.human_readable { "" } else { " in KiB" };
        writeln!(out, "{:<16}    {:<44}  inodes", "", format!("space{unit}"))?;
        let columns = format!("{:>10} {:>10} {:>10} {:>9}", "used", "soft", "hard", "grace");
        writeln!(out, "{name:<16}    {columns}   {columns}")?;
        Ok(())
    }

    fn row(
        &self,
        volume: &ImageVolume,
        quota: &Quota,
        list: Option<&mut List>,
        console: &mut Console,
    ) -> io::Result<()> {
        let block_bytes = u64::from(volume.inner().geometry().block_size);
        if let Some(list) = list {
            return list.push(console.out(), &self.describe(quota, block_bytes));
        }
        let size = |blocks: u64| {
            let bytes = blocks.saturating_mul(block_bytes);
            match self.shown.human_readable {
                true => size::short(bytes),
                false => bytes.div_ceil(1024).to_string(),
            }
        };
        let name = console.name_style(false).show(&self.names.show(quota.kind, quota.id)).to_vec();
        let mut line = String::from_utf8_lossy(&name).into_owned();
        let columns = |usage: &Usage, shown: &dyn Fn(u64) -> String| {
            let [used, soft, hard] = [usage.used, usage.soft, usage.hard].map(shown);
            format!("{used:>10} {soft:>10} {hard:>10} {:>9}", self.left(quota.id, usage))
        };
        let flags =
            [&quota.blocks, &quota.inodes].map(|usage| if is_over(usage) { '+' } else { '-' });
        let flags = String::from_iter(flags);
        let blocks = columns(&quota.blocks, &size);
        let inodes = columns(&quota.inodes, &|count| count.to_string());
        line = format!("{line:<16} {flags} {blocks}   {inodes}");
        if quota.rt_blocks != Usage::default() {
            line.push_str(&format!(
                "   realtime {}",
                columns(&quota.rt_blocks, &size).trim_start()
            ));
        }
        writeln!(console.out(), "{}", line.trim_end())
    }

    /// Returns the remaining grace period as text: "none" after its end, and an empty text if it
    /// has not begun or if `id` is 0.
    fn left(&self, id: u32, usage: &Usage) -> String {
        if id == 0 || usage.timer == 0 {
            return String::new();
        }
        let now = u64::try_from(self.clock.now().seconds).unwrap_or(0);
        match usage.timer.checked_sub(now) {
            None | Some(0) => "none".to_owned(),
            Some(seconds) => duration(seconds),
        }
    }

    fn describe(&self, quota: &Quota, block_bytes: u64) -> Object {
        let mut object = Object::new();
        self.names.describe(quota.kind, quota.id, &mut object);
        // The timers of ID 0 are grace periods.
        let timer = if quota.id == 0 { "grace_seconds" } else { "timer" };
        let usage = |usage: &Usage| {
            let mut object = Object::new();
            for (key, value) in [
                ("used", usage.used),
                ("soft", usage.soft),
                ("hard", usage.hard),
                (timer, usage.timer),
            ] {
                object.insert(key.to_owned(), value.into());
            }
            Value::from(object)
        };
        object.insert("block_bytes".to_owned(), block_bytes.into());
        object.insert("blocks".to_owned(), usage(&quota.blocks));
        object.insert("inodes".to_owned(), usage(&quota.inodes));
        object.insert("realtime_blocks".to_owned(), usage(&quota.rt_blocks));
        object
    }
}

/// Returns whether a usage is over its soft or its hard limit.
fn is_over(usage: &Usage) -> bool {
    let is_over = |limit: u64| limit != 0 && usage.used > limit;
    is_over(usage.soft) || is_over(usage.hard)
}

/// Returns a duration as repquota(8) does: in days, or in hours and minutes below two days.
fn duration(seconds: u64) -> String {
    const DAY: u64 = 24 * 3600;
    if seconds >= 2 * DAY {
        return format!("{}days", seconds / DAY);
    }
    format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests;
