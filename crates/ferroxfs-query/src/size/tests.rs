use super::{grouped, human, parse};

#[test]
fn suffixes_are_units_of_1024() {
    assert_eq!(parse("4096"), Ok(4096));
    assert_eq!(parse("64k"), Ok(65536));
    assert_eq!(parse("2G"), Ok(2 << 30));
    assert!(parse("1x").is_err());
    assert!(parse("k").is_err());
    assert!(parse("99999999t").is_err());
}

#[test]
fn bytes_get_the_largest_unit_that_fits() {
    assert_eq!(human(0), "0 B");
    assert_eq!(human(-1536), "-1.5 KiB");
    assert_eq!(human(1_048_575), "1.0 MiB");
    assert_eq!(human(i128::from(u64::MAX)), "16.0 EiB");
}

#[test]
fn digits_are_grouped_by_three() {
    assert_eq!(grouped(-1_234_567), "-1\u{202f}234\u{202f}567");
    assert_eq!(grouped(999), "999");
}
