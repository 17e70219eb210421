use super::parse;

fn message(test: bool, executable: &str) -> String {
    format!(
        r#"{{"reason":"compiler-artifact","manifest_path":"/x/crates/xfs-log/Cargo.toml",
            "target":{{"kind":["test"],"name":"kernel"}},"profile":{{"test":{test}}},
            "executable":{executable}}}"#
    )
    .replace('\n', "")
}

#[test]
fn binaries_with_tests_are_taken_from_the_messages_of_cargo() {
    let binary = parse(&message(true, r#""/x/target/debug/deps/kernel-1""#)).unwrap();
    assert_eq!(binary.to_string(), "kernel of xfs-log");
    assert_eq!(binary.command().get_current_dir().unwrap(), "/x/crates/xfs-log");
    assert!(parse(&message(false, r#""/x/target/debug/ferroxfs""#)).is_none());
    assert!(parse(&message(true, "null")).is_none());
    assert!(parse(r#"{"reason":"build-finished","success":true}"#).is_none());
    assert!(parse("a line of a build script").is_none());
}
