//! Parses configuration files: `mkfs -c options=FILE` and `-c defaults=FILE`.
//!
//! Owns: the sections of such a file and the options that they stand for. Does **not** own: reading
//! the file, or the meaning of an option.

use super::{OptionError, Options};

/// The names of the sections, each with the letter of the option that it stands for.
const SECTIONS: [(&str, char); 8] = [
    ("block", 'b'),
    ("data", 'd'),
    ("inode", 'i'),
    ("log", 'l'),
    ("metadata", 'm'),
    ("naming", 'n'),
    ("realtime", 'r'),
    ("sector", 's'),
];

impl Options {
    /// Parses the text of a configuration file of mkfs.xfs: `[data]`, and below it lines such as
    /// `su=2m`.
    ///
    /// # Errors
    ///
    /// An error for a line of another form and for an unknown section, and the errors of
    /// [`Options::parse`]. If `self` already has an option of the file, that option counts as given
    /// twice.
    pub fn parse_configuration(&mut self, text: &str) -> Result<(), OptionError> {
        let mut letter = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim();
            let malformed =
                || OptionError::ConfigurationLine { line: number, text: line.to_owned() };
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let section = rest.strip_suffix(']').ok_or_else(malformed)?.trim();
                let known = SECTIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(section));
                let unknown = || OptionError::ConfigurationSection {
                    line: number,
                    section: section.to_owned(),
                };
                letter = Some(known.ok_or_else(unknown)?.1);
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(malformed)?;
            let letter = letter.ok_or_else(malformed)?;
            // A comma would start another option.
            if value.contains(',') {
                return Err(malformed());
            }
            self.parse(letter, &format!("{}={}", name.trim(), value.trim()))?;
        }
        Ok(())
    }

    /// Parses the text of a configuration file with defaults: each option that is parsed later
    /// replaces the same option of this file.
    ///
    /// # Errors
    ///
    /// The errors of [`Options::parse_configuration`].
    pub fn parse_default_configuration(&mut self, text: &str) -> Result<(), OptionError> {
        self.parse_configuration(text)?;
        self.seen.clear();
        Ok(())
    }
}

/// Returns a line without its comment. A comment starts with `#` or `;`, either at the start of the
/// line or after a blank character.
fn without_comment(line: &str) -> &str {
    let mut is_blank_before = true;
    for (at, byte) in line.bytes().enumerate() {
        if is_blank_before && matches!(byte, b'#' | b';') {
            return line.get(..at).unwrap_or(line);
        }
        is_blank_before = byte.is_ascii_whitespace();
    }
    line
}
