use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Clock;
use crate::file::facts::Time;

fn clock() -> Clock {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
    Clock::new(now, TimeZone::UTC)
}

#[track_caller]
fn check_parse(text: &str, seconds: i64, nanoseconds: u32) {
    assert_eq!(clock().parse(text), Some(Time { seconds, nanoseconds }), "{text}");
}

#[test]
fn times_are_read_in_the_forms_people_write() {
    check_parse("@-5", -5, 0);
    check_parse("1970-01-02", 86_400, 0);
    check_parse("1970-01-01 00:01", 60, 0);
    check_parse("1970-01-01 00:00:01.5", 1, 500_000_000);
    check_parse("1970-01-01T00:00:00+01:00", -3600, 0);
    assert_eq!(clock().parse("yesterday-ish"), None);
}

#[test]
fn old_times_show_their_year() {
    let clock = clock();
    let recent = clock.parse("2026-11-20 10:00").expect("a time");
    let old = clock.parse("1960-02-03 04:05").expect("a time");
    let future = clock.parse("2100-02-13 04:05").expect("a time");
    assert_eq!(clock.format_short(recent), "Nov 20 10:00");
    assert_eq!(clock.format_short(old), "Feb  3  1960");
    assert_eq!(clock.format_short(future), "Feb 13  2100");
    assert_eq!(clock.format_full(old), "1960-02-03 04:05:00.000000000 +0000");
}
