use super::check;
use crate::tidy::File;

#[test]
fn private_paths_are_found() {
    let file = |text: &str| File { path: "README.md".to_owned(), text: text.to_owned() };
    let private = ["/nest/bird/".to_owned()];
    assert_eq!(check(&[file("IMAGE:/nest is fine\n")], &private), []);
    let findings = check(&[file("one\nsee /nest/bird/egg\n")], &private);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["README.md:2: names a folder of one machine: /nest/bird/"]);
}
