use super::{human, parse};

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
