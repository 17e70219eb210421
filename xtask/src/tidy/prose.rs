//! Splits comments and documents into paragraphs and sentences, for the rules about voice.
//!
//! A paragraph is a run of lines of text. Code, tables, headings and diagrams are no prose. An item
//! of a list is a paragraph of its own.

use super::File;
use super::source::Masked;

/// Lines of text that belong together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Paragraph {
    /// The line of the file on which the paragraph begins, counted from 1.
    pub(crate) line: usize,
    /// The lines of the paragraph, joined by spaces.
    pub(crate) text: String,
}

/// Returns the paragraphs of the comments of a Rust file, or of a document. Returns none for any
/// other file.
pub(crate) fn paragraphs(file: &File) -> Vec<Paragraph> {
    let mut reader = Reader::default();
    for (number, text, marker) in prose_lines(file) {
        reader.line(number, text, marker);
    }
    reader.end();
    reader.paragraphs
}

/// Returns each line of a file that may hold prose, with its number, text and comment marker.
fn prose_lines(file: &File) -> Vec<(usize, String, String)> {
    let line = |(index, line): (usize, &str)| {
        let (marker, text) = if file.is_rust() { comment(line) } else { (String::new(), line) };
        (index + 1, text.to_owned(), marker)
    };
    if file.is_rust() {
        Masked::new(&file.text).comments.split('\n').enumerate().map(line).collect()
    } else if file.is_markdown() {
        file.text.lines().enumerate().map(line).collect()
    } else {
        Vec::new()
    }
}

/// Splits a line of comment text into its marker, such as `//` or `/!`, and the text after it.
/// `Masked` has already removed the first `/`.
fn comment(line: &str) -> (String, &str) {
    let text = line.trim_start_matches(['/', '!']);
    let marker = line.strip_suffix(text).unwrap_or_default();
    (marker.to_owned(), text.strip_prefix(' ').unwrap_or(text))
}

#[derive(Default)]
struct Reader {
    paragraphs: Vec<Paragraph>,
    open: Option<Paragraph>,
    marker: String,
    fenced: bool,
}

impl Reader {
    fn line(&mut self, number: usize, text: String, marker: String) {
        if marker != self.marker {
            // Code between two comments, or a comment of another kind.
            self.end();
            self.fenced = false;
            self.marker = marker;
        }
        let trimmed = text.trim();
        if trimmed.starts_with("```") {
            self.end();
            self.fenced = !self.fenced;
        } else if self.fenced || trimmed.is_empty() || is_figure(&text) {
            self.end();
        } else {
            if is_item(trimmed) {
                self.end();
            }
            self.append(number, trimmed);
        }
    }

    fn append(&mut self, number: usize, text: &str) {
        match &mut self.open {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text.push_str(text);
            }
            None => self.open = Some(Paragraph { line: number, text: text.to_owned() }),
        }
    }

    fn end(&mut self) {
        self.paragraphs.extend(self.open.take());
    }
}

/// Returns whether a line belongs to a table, a heading, a link definition, HTML, or a diagram,
/// which is indented.
fn is_figure(text: &str) -> bool {
    let starts = ["|", "#", "<", "+-"];
    let trimmed = text.trim_start();
    let indented = text.len() - trimmed.len() >= 4;
    let is_definition = trimmed.starts_with('[') && trimmed.contains("]: ");
    indented || is_definition || starts.iter().any(|start| trimmed.starts_with(start))
}

/// Returns whether a line begins an item of a list: `- text`, `* text` or `1. text`.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ")
        || text.starts_with("* ")
        || (number.len() < text.len() && number.starts_with(". "))
}

/// Returns the sentences of a paragraph. A full stop, a colon, a question mark or an exclamation
/// mark ends a sentence, if the next word can begin a sentence.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let rest = text.get(at + character.len_utf8()..).unwrap_or_default();
        if matches!(character, '.' | ':' | '?' | '!') && begins_sentence(rest) {
            sentences.extend(text.get(start..at + character.len_utf8()));
            start = at + character.len_utf8();
        }
    }
    sentences.extend(text.get(start..));
    sentences.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

fn begins_sentence(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(' ') else { return false };
    rest.trim_start().starts_with(|c: char| c.is_uppercase() || matches!(c, '`' | '*' | '[' | '('))
}

/// Returns the number of words of a sentence: pieces between blanks that hold a letter or a digit.
pub(crate) fn count_words(sentence: &str) -> usize {
    let has_letter = |word: &&str| word.contains(char::is_alphanumeric);
    sentence.split_whitespace().filter(has_letter).count()
}

#[cfg(test)]
mod tests;
