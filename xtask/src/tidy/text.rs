//! The rule about any text: it must not contain paths of the machine on which it was written.

use super::{File, Finding};

/// Returns a finding for each line of the files that has one of the paths `private`, which are
/// paths of this machine.
pub(super) fn check(files: &[File], private: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = private.iter().find(|path| line.contains(path.as_str())) {
                let rule = format!("names a folder of one machine: {path}");
                findings.push(Finding::new(file, index + 1, rule));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests;
