use super::{Machine, Record, RunResult, grouped, load, memory_gib, store, version};

fn record() -> Record {
    Record {
        date: "2026-01-31".to_owned(),
        commit: "0123456".to_owned(),
        machine: Machine { processors: 2, memory_gib: Some(24), kernel: "Linux 6.18".to_owned() },
        result: RunResult {
            run: "a suite".to_owned(),
            passed: 1_234_567,
            skipped: 0,
            failed: 1,
            note: "one fails".to_owned(),
        },
    }
}

#[test]
fn record_is_a_row_of_its_table() {
    let row = "| 2026-01-31 | 0123456 | 2 CPUs, 24 GiB, Linux 6.18 | a suite | 1,234,567 | 0 | 1 | one fails |\n";
    assert_eq!(record().row(), row);
}

#[test]
fn records_are_read_as_they_were_written() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(load(place.path(), "a/b.json").unwrap(), []);
    let records = [record(), Record { commit: "fedcba9+".to_owned(), ..record() }];
    store(place.path(), "a/b.json", &records).unwrap();
    assert_eq!(load(place.path(), "a/b.json").unwrap(), records);
}

#[test]
fn damaged_record_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("a.json"), "[{\"date\": 1}]").unwrap();
    let error = load(place.path(), "a.json").unwrap_err().to_string();
    assert!(error.contains("a.json"), "{error}");
}

#[test]
fn machine_is_read_without_its_name() {
    assert_eq!(memory_gib("MemTotal:       24689308 kB\nMemFree: 1 kB\n"), Some(24));
    assert_eq!(version("6.18.2-cloud-amd64\n"), "6.18.2");
    assert_eq!(version("6.18\n"), "6.18");
    assert_eq!([0, 999, 1000, 1_000_000].map(grouped), ["0", "999", "1,000", "1,000,000"]);
}
