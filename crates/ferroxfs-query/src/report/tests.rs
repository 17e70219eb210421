use std::fs;
use std::path::Path;

use super::{Literals, OVERVIEW, REPORTS, Report};

fn literals() -> Literals {
    Literals {
        date: jiff::civil::date(2026, 12, 1),
        since: jiff::civil::date(2026, 11, 30),
        volume: None,
        depth: 2,
        limit: 50,
        minimum: 1,
        small: 4096,
    }
}

#[test]
fn every_file_of_sql_is_a_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports");
    let entries = fs::read_dir(folder).expect("the folder of reports");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut known: Vec<String> = REPORTS.iter().map(|it| format!("{}.sql", it.name)).collect();
    known.sort();
    assert_eq!(names, known);
    assert!(Report::find(OVERVIEW).is_err(), "the overview is no query of its own");
}

#[test]
fn every_parameter_is_known_used_and_replaced() {
    for report in REPORTS {
        assert!(report.title().len() > 10, "{} has a title", report.name);
        for name in report.parameters() {
            assert!(literals().get(name).is_some(), "{}: {name} is known", report.name);
            assert!(report.text.contains(&format!("{{{name}}}")), "{}: {name}", report.name);
        }
        let sql = report.sql(&literals());
        assert!(!sql.contains('{'), "{}: all parameters are replaced\n{sql}", report.name);
    }
}

#[test]
fn date_and_volume_become_literals() {
    let volume = Some("0123abcd-0000-0000-0000-000000000000".to_owned());
    let sql = Report::find("largest").expect("it exists").sql(&Literals { volume, ..literals() });
    assert!(sql.contains("scan_date = CAST('2026-12-01' AS DATE)"));
    assert!(sql.contains("volume_uuid LIKE '0123abcd-0000-0000-0000-000000000000'"));
}
