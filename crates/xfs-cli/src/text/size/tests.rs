use super::{brief, human, parse, short};

#[test]
fn suffixes_are_units_of_1024() {
    assert_eq!(parse("0"), Ok(0));
    assert_eq!(parse("300m"), Ok(300 << 20));
    assert_eq!(parse("2G"), Ok(2 << 30));
    assert!(parse("2x").is_err());
    assert!(parse("k").is_err());
    assert!(parse("").is_err());
    assert!(parse("18446744073709551615k").is_err());
}

#[test]
fn human_sizes_keep_one_decimal() {
    assert_eq!(human(0), "0 B");
    assert_eq!(human(1023), "1023 B");
    assert_eq!(human(1536), "1.5 KiB");
    assert_eq!(human(300 << 20), "300.0 MiB");
    assert_eq!(human(u64::MAX), "16.0 EiB");
}

/// Checks that short sizes are the same as in the output of `du -h` and `ls -lh` of GNU.
#[test]
fn short_sizes_are_rounded_up() {
    let shown =
        [0, 1023, 1024, 1025, 10_189, 10_190, 10_240, 10_241, 1_047_552, 1_047_553, 1 << 20];
    let expected =
        ["0", "1023", "1.0K", "1.1K", "10K", "10K", "10K", "11K", "1023K", "1.0M", "1.0M"];
    assert_eq!(shown.map(short), expected);
    assert_eq!(short(5 << 30), "5.0G");
    assert_eq!(short(u64::MAX), "16E");
}

#[test]
fn brief_sizes_have_three_digits() {
    let sizes = [0, 1023, 1536, 10 << 20, (519 << 20) + 1, 1000 << 30].map(brief);
    assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "10.0 MiB", "519 MiB", "1000 GiB"]);
}
