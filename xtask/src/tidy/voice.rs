//! Rules about the voice of comments and documents (STYLE.md, section 1), as far as a machine can
//! check them.

use super::prose::{Paragraph, count_words, paragraphs, sentences};
use super::{File, Finding};

/// The most columns of a line of a comment or document.
const COLUMNS_MAX: usize = 100;
/// The most words of a sentence.
const WORDS_MAX: usize = 40;
/// The greatest average number of words in the sentences of README and the guide.
const MEAN_MAX_OF_GUIDE: f64 = 18.0;
/// The greatest average number of words in the sentences of any other document.
const MEAN_MAX: f64 = 20.0;

/// Banned words, and the words to use instead.
const BANNED: [(&str, &str); 27] = [
    ("somebody", "name the actor"),
    ("anybody", "name the actor"),
    ("everybody", "name the actor"),
    ("nobody", "name the actor"),
    ("someone", "name the actor"),
    ("anyone", "name the actor"),
    ("whom", "name the actor"),
    ("whoever", "name the actor"),
    ("whomever", "name the actor"),
    ("he", "name the actor"),
    ("him", "name the actor"),
    ("his", "name the actor"),
    ("himself", "name the actor"),
    ("anew", "again"),
    ("shall", "must, will"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("besides", "also"),
    ("allegation", "not trusted"),
    ("thereof", "of it"),
    ("the like", "similar"),
    ("so many", "n"),
    ("all the same", "still"),
    ("lets itself", "can be"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("takes over", "name what changes"),
];

/// Files that may contain banned words, because they are about those words.
const ABOUT_WORDS: [&str; 3] =
    ["STYLE.md", "xtask/src/tidy/voice.rs", "xtask/src/tidy/voice/tests.rs"];

/// Checks one file against the rules about voice.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if ABOUT_WORDS.contains(&file.path.as_str()) {
        return long_lines(file);
    }
    let mut findings = long_lines(file);
    for paragraph in paragraphs(file) {
        findings.extend(check_paragraph(file, &paragraph));
    }
    findings.extend(long_mean(file));
    findings
}

/// Returns a finding for a document whose average sentence is too long. Returns `None` for any
/// other file.
fn long_mean(file: &File) -> Option<Finding> {
    let is_guide = file.path == "README.md" || file.path.starts_with("docs/guide/");
    let most = if is_guide { MEAN_MAX_OF_GUIDE } else { MEAN_MAX };
    let mean = mean_sentence(file).filter(|&mean| mean > most)?;
    let rule = format!("{mean:.1} words in a sentence on average, {most} at most");
    Some(Finding::new(file, 0, rule))
}

/// Returns the mean length of a document's sentences, in words. Returns `None` for a file that is
/// not a document, and for a document of fewer than ten sentences.
pub(super) fn mean_sentence(file: &File) -> Option<f64> {
    if !file.is_markdown() {
        return None;
    }
    let paragraphs = paragraphs(file);
    let texts = paragraphs.iter().flat_map(|paragraph| sentences(&paragraph.text));
    let counts: Vec<usize> = texts.map(count_words).filter(|&words| words > 2).collect();
    let total: usize = counts.iter().sum();
    let mean = |sentences: u32| total as f64 / f64::from(sentences);
    u32::try_from(counts.len()).ok().filter(|&count| count >= 10).map(mean)
}

fn check_paragraph(file: &File, paragraph: &Paragraph) -> Vec<Finding> {
    let finding = |rule: String| Finding::new(file, paragraph.line, rule);
    let prose = without_code(&paragraph.text);
    let mut findings = Vec::new();
    for (word, instead) in BANNED {
        if has_words(&prose, word) {
            findings.push(finding(format!("`{word}`: {instead}")));
        }
    }
    for sentence in sentences(&paragraph.text) {
        let sentence = sentence.trim_start_matches(['-', '*', ' ']);
        if starts_with_pronoun(sentence) && !sentence.ends_with('?') {
            findings.push(finding(format!("name the subject: {}", head(sentence))));
        }
        let words = count_words(sentence);
        if words > WORDS_MAX {
            let rule =
                format!("a sentence of {words} words, {WORDS_MAX} at most: {}", head(sentence));
            findings.push(finding(rule));
        }
    }
    findings
}

/// Returns findings for lines of comments and documents that are too long. Lines with a
/// link or an address may be longer, and so may tables and code in documents.
fn long_lines(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        let text = line.trim_start();
        fenced ^= text.starts_with("```");
        let is_text = if file.is_rust() {
            text.starts_with("//")
        } else {
            file.is_markdown() && !fenced && !text.starts_with('|')
        };
        let has_link = line.contains("](") || line.contains("://");
        if is_text && !has_link && line.chars().count() > COLUMNS_MAX {
            let rule = format!("{} columns, {COLUMNS_MAX} at most", line.chars().count());
            findings.push(Finding::new(file, index + 1, rule));
        }
    }
    findings
}

fn starts_with_pronoun(sentence: &str) -> bool {
    let first = sentence.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ["What", "Who", "Whoever", "Whom", "Whose"].contains(&first)
}

/// Returns the text without its parts between backquotes or quotation marks.
fn without_code(text: &str) -> String {
    let outside = |text: &str, mark| text.split(mark).step_by(2).collect::<Vec<_>>().join(" ");
    outside(&outside(text, '`'), '"')
}

/// Returns whether `text` contains `words` as whole words, in upper or lower case.
fn has_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(words).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + words.len()..).unwrap_or_default();
        !before.ends_with(is_name) && !after.starts_with(is_name)
    })
}

/// Returns the first words of a sentence, for the text of a finding.
fn head(sentence: &str) -> String {
    sentence.split_whitespace().take(8).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
