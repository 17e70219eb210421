//! Separates the code, the comments and the literals of a Rust file.
//!
//! The module knows just enough of Rust's lexical rules for this separation: nested comments, raw
//! strings, and the difference between a character and a lifetime. The module does not know macros
//! or the grammar.

use std::iter::Peekable;
use std::str::Chars;

/// Two versions of a file that correspond line for line: one with only its code, and one with only
/// its comments. The contents of literals are in neither version.
pub(crate) struct Masked {
    pub(crate) code: String,
    pub(crate) comments: String,
}

impl Masked {
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer {
            rest: text.chars().peekable(),
            masked: Self { code: String::new(), comments: String::new() },
        };
        while lexer.step() {}
        lexer.masked
    }
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    masked: Masked,
}

impl Lexer<'_> {
    /// Reads the next token or character, and puts it into the version of the file to which it
    /// belongs. Returns `false` at the end of the file.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.next() else { return false };
        match first {
            '/' if self.rest.peek() == Some(&'/') => self.line_comment(),
            '/' if self.rest.peek() == Some(&'*') => self.block_comment(),
            '"' => self.string(),
            '\'' => self.character_or_lifetime(),
            'r' if !self.follows_name() && self.is_raw_string() => self.raw_string(),
            other => self.code(other),
        }
        true
    }

    fn code(&mut self, character: char) {
        self.masked.code.push(character);
        if character == '\n' {
            self.masked.comments.push('\n');
        }
    }

    fn comment(&mut self, character: char) {
        self.masked.comments.push(character);
        if character == '\n' {
            self.masked.code.push('\n');
        }
    }

    /// Skips a character of a literal, which is put into neither version of the file. A line break
    /// is put into both.
    fn literal(&mut self, character: char) {
        if character == '\n' {
            self.code(character);
        }
    }

    fn line_comment(&mut self) {
        while let Some(character) = self.rest.next_if(|&character| character != '\n') {
            self.comment(character);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        let mut previous = '/';
        while let Some(character) = self.rest.next() {
            self.comment(character);
            match (previous, character) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    previous = character;
                    continue;
                }
            }
            // `/*/` opens a comment and does not close it again.
            previous = ' ';
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.code('"');
        while let Some(character) = self.rest.next() {
            match character {
                '"' => break,
                '\\' => drop(self.rest.next().map(|escaped| self.literal(escaped))),
                other => self.literal(other),
            }
        }
        self.code('"');
    }

    /// Returns whether the last character of the code belongs to a name, as the `r` at the end of
    /// `for` does. The `b` of a raw byte string is not part of a name.
    fn follows_name(&self) -> bool {
        let mut before = self.masked.code.chars().rev();
        let is_name = |character: Option<char>| {
            character.is_some_and(|character| character.is_alphanumeric() || character == '_')
        };
        match before.next() {
            Some('b') => is_name(before.next()),
            other => is_name(other),
        }
    }

    fn is_raw_string(&self) -> bool {
        let mut ahead = self.rest.clone();
        while ahead.next_if_eq(&'#').is_some() {}
        ahead.next() == Some('"')
    }

    fn raw_string(&mut self) {
        let mut hashes = 0;
        while self.rest.next_if_eq(&'#').is_some() {
            hashes += 1;
        }
        self.rest.next();
        self.code('"');
        while let Some(character) = self.rest.next() {
            self.literal(character);
            if character == '"' && self.closing_hashes(hashes) {
                break;
            }
        }
        self.code('"');
    }

    /// If the next `hashes` characters are the hash signs that close a raw string, skips them and
    /// returns `true`. If not, skips none and returns `false`.
    fn closing_hashes(&mut self, hashes: usize) -> bool {
        let ahead = self.rest.clone().take(hashes).filter(|&character| character == '#').count();
        if ahead == hashes {
            self.rest.by_ref().take(hashes).for_each(drop);
        }
        ahead == hashes
    }

    fn character_or_lifetime(&mut self) {
        let mut ahead = self.rest.clone();
        let (first, second) = (ahead.next(), ahead.next());
        if first != Some('\\') && second != Some('\'') {
            self.code('\'');
            return;
        }
        self.code('\'');
        while let Some(character) = self.rest.next() {
            match character {
                '\'' => break,
                '\\' => drop(self.rest.next()),
                _ => {}
            }
        }
        self.code('\'');
    }
}

#[cfg(test)]
mod tests;
