//! The rule about names of tests: no name begins with an article or a pronoun. A name has the order
//! subject, condition, result, so that a sorted list shows the subjects.

use super::source::Masked;
use super::{File, Finding};

/// The words that no name of a test begins with.
const REFUSED: [&str; 8] = ["a", "an", "the", "it", "so", "this", "that", "there"];

/// Finds the tests whose name begins with a refused word. Checks the functions below `#[test]`, and
/// all functions in files of tests, since the tests of our own harness have no attribute.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let code = Masked::new(&file.text).code;
    let mut findings = Vec::new();
    let mut follows_attribute = file.is_test();
    for (index, line) in code.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("#[test]") {
            follows_attribute = true;
        }
        let Some(name) = function_name(line) else { continue };
        let first = name.split_once('_').map(|(first, _)| first);
        if let Some(first) = first.filter(|first| follows_attribute && REFUSED.contains(first)) {
            let rule = format!("begin the name of a test with its subject, without `{first}_`");
            findings.push(Finding::new(file, index + 1, rule));
        }
        follows_attribute = file.is_test();
    }
    findings
}

/// Returns the name of the function whose definition begins on this line, or `None`.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_definition = before.is_empty() || before.ends_with([' ', ']']);
    rest.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .filter(|name| is_definition && !name.is_empty())
}

#[cfg(test)]
mod tests;
