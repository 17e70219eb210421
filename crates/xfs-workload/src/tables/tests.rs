use super::{rate, tables};
use crate::samples::report;
use crate::variant::Variant;

#[test]
fn rate_has_three_digits() {
    for (number, text) in [
        (0.5, "0.50"),
        (12.34, "12.3"),
        (999.4, "999"),
        (1234.0, "1.23 k"),
        (118_600.0, "119 k"),
        (7_200_000.0, "7.20 M"),
    ] {
        assert_eq!(rate(number), text);
    }
}

#[test]
fn warm_kernel_is_marked() {
    let title = |report: &crate::Report| tables(report, "files").remove(1).title;
    let mut report = report();
    assert!(!title(&report).contains("warm"));
    let theirs =
        |one: &&mut crate::Measurement| one.variant == Variant::Kernel && one.step == "walk";
    report.measurements.iter_mut().filter(theirs).for_each(|one| one.is_cold = false);
    assert!(title(&report).contains("warm"));
    let row = tables(&report, "files").remove(1).rows.remove(0);
    assert_eq!(row, ["1", "100 k / 25.0 k = 4.00", "100 k / 25.0 k warm = 4.00"]);
}

#[test]
fn table_row_is_as_long_as_its_head() {
    let mut report = report();
    report.counts_writes = true;
    for one in &mut report.measurements {
        one.counted.shared = Some(crate::SharedWrites::default());
    }
    let tables = tables(&report, "files");
    assert_eq!(tables.len(), 6);
    for table in tables {
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.title);
    }
}
