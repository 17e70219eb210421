//! Parsing and formatting of times, and the clock of a run.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::failure::Failure;
use crate::file::facts::Time;

/// Returns the time in `SOURCE_DATE_EPOCH`, which all files and volumes that this run creates get
/// (<https://reproducible-builds.org/specs/source-date-epoch/>). `None` if the variable is not set.
pub(crate) fn source_date_epoch() -> Result<Option<ferroxfs::Timestamp>, Failure> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else { return Ok(None) };
    match text.trim().parse() {
        Ok(seconds) => Ok(ferroxfs::Timestamp::new(seconds, 0)),
        Err(_) => {
            Err(Failure::usage(format!("SOURCE_DATE_EPOCH={text} is not a number of seconds")))
        }
    }
}

/// The time at which a run began, and the time zone of the host. Both are read once.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now: Time,
    zone: TimeZone,
}

impl Clock {
    /// Reads the clock and time zone of the host.
    pub(crate) fn open() -> Self {
        Self::new(Timestamp::now(), TimeZone::system())
    }

    /// Creates a clock whose time is always `now`.
    pub(crate) fn new(now: Timestamp, zone: TimeZone) -> Self {
        let nanoseconds = now.as_nanosecond();
        let now = Time {
            seconds: i64::try_from(nanoseconds.div_euclid(1_000_000_000)).unwrap_or_default(),
            nanoseconds: u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).unwrap_or_default(),
        };
        Self { now, zone }
    }

    /// Returns the time at which this run began.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Formats a time by a strftime(3) format. A time that the calendar functions cannot represent
    /// is shown as `@` and seconds since 1970.
    pub(crate) fn format(&self, format: &str, time: Time) -> String {
        match self.zoned(time) {
            Some(zoned) => zoned.strftime(format).to_string(),
            None => format!("@{}", time.seconds),
        }
    }

    /// Formats a time as ls(1) does. A time in the future or more than half a year ago is shown
    /// with the year instead of the time of day.
    pub(crate) fn format_short(&self, time: Time) -> String {
        const HALF_A_YEAR: i64 = 31_556_952 / 2;
        let age = self.now.seconds.saturating_sub(time.seconds);
        // The hour of slack is for clocks of other machines.
        let is_recent = (-3600..HALF_A_YEAR).contains(&age);
        self.format(if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" }, time)
    }

    /// Formats a time as stat(1) does, with nanoseconds and time zone.
    pub(crate) fn format_full(&self, time: Time) -> String {
        let day = self.format("%Y-%m-%d %H:%M:%S", time);
        let zone = self.format("%z", time);
        format!("{day}.{:09} {zone}", time.nanoseconds)
    }

    /// Parses a date, a date and time, an RFC 3339 time, or `@` and seconds since 1970. `None` if
    /// the text is invalid.
    pub(crate) fn parse(&self, text: &str) -> Option<Time> {
        if let Some(seconds) = text.strip_prefix('@') {
            let seconds: Timestamp = Timestamp::from_second(seconds.parse().ok()?).ok()?;
            return Some(Self::new(seconds, TimeZone::UTC).now);
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return Some(Self::new(timestamp, TimeZone::UTC).now);
        }
        let civil = match text.parse::<DateTime>() {
            Ok(civil) => civil,
            Err(_) => text.parse::<Date>().ok()?.at(0, 0, 0, 0),
        };
        let zoned = civil.to_zoned(self.zone.clone()).ok()?;
        Some(Self::new(zoned.timestamp(), TimeZone::UTC).now)
    }

    fn zoned(&self, time: Time) -> Option<Zoned> {
        let timestamp = Timestamp::from_nanosecond(time.total_nanoseconds()).ok()?;
        Some(timestamp.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests;
