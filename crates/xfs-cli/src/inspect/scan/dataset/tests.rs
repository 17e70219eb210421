use std::ffi::OsString;
use std::path::Path;

use serde_json::json;

use super::{Facts, arguments_of_part};

#[test]
fn option_of_a_part_comes_before_the_names() {
    let of = |words: &[&str]| {
        let own = words.iter().map(OsString::from);
        let arguments = arguments_of_part(own, 3, Path::new("/s"));
        arguments.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
    };
    let option = format!("--dataset-part=3:{}=/s", std::process::id());
    assert_eq!(of(&["scan", "a"]), ["scan", "a", &option]);
    assert_eq!(of(&["scan", "--", "-a"]), ["scan", &option, "--", "-a"]);
}

#[test]
fn facts_are_complete_with_their_last_row() {
    let mut facts = Facts::default();
    assert!(!facts.add(&json!({"row": "scan", "schema_version": 2})));
    let volume = json!({"row": "volume", "volume_uuid": "u", "volume_label": "l", "log": "live"});
    assert!(!facts.add(&volume));
    assert!(!facts.add(&json!({"row": "error", "code": "io"})));
    assert!(!facts.add(&json!({"row": "end", "inodes": 3})), "a row without all counts");
    assert!(facts.add(&json!({"row": "end", "inodes": 3, "errors": 1, "missing_inodes": 64})));
    let expected = Facts {
        uuid: "u".to_owned(),
        label: "l".to_owned(),
        log: "live".to_owned(),
        inodes: 3,
        errors: 1,
        missing_inodes: 64,
    };
    assert_eq!(facts, expected);
}
