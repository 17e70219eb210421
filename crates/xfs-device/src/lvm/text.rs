//! The text of LVM metadata: sections, lists, strings and numbers.
//!
//! Depth and work are bounded: each step of the parser consumes a character.

const MAX_DEPTH: usize = 8;

/// A value in the text of the metadata.
#[derive(Clone, Debug)]
pub(super) enum MetadataValue {
    Section(Vec<(String, MetadataValue)>),
    List(Vec<MetadataValue>),
    Text(String),
    Number(u64),
    /// A value of a kind that is not needed: a negative number, or a number with a fraction.
    Other,
}

pub(super) fn find<'a>(
    section: &'a [(String, MetadataValue)],
    name: &str,
) -> Option<&'a MetadataValue> {
    section.iter().find(|(key, _)| key == name).map(|(_, node)| node)
}

impl MetadataValue {
    pub(super) fn section(&self) -> Option<&Vec<(String, MetadataValue)>> {
        if let Self::Section(nodes) = self { Some(nodes) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[MetadataValue]> {
        if let Self::List(nodes) = self { Some(nodes) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }
}

/// A parser of the text of the metadata. Each step consumes a character, so the work is bounded by
/// the length of the text.
pub(super) struct Parser<'a> {
    pub(super) rest: &'a str,
}

impl Parser<'_> {
    /// Parses the values up to the end of a section that is nested in `depth` others. At depth 0,
    /// parses them up to the end of the text. Returns `None` if the text is invalid or nested too
    /// deeply.
    pub(super) fn section(&mut self, depth: usize) -> Option<Vec<(String, MetadataValue)>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut nodes = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() {
                return (depth == 0).then_some(nodes);
            }
            if self.take('}') {
                return (depth > 0).then_some(nodes);
            }
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.+/".contains(letter);
            let name = self.word(is_name)?.to_owned();
            self.skip();
            let node = if self.take('{') {
                MetadataValue::Section(self.section(depth + 1)?)
            } else if self.take('=') {
                self.value(depth)?
            } else {
                return None;
            };
            nodes.push((name, node));
        }
    }

    fn value(&mut self, depth: usize) -> Option<MetadataValue> {
        self.skip();
        if self.take('"') {
            return self.string().map(MetadataValue::Text);
        }
        if self.take('[') {
            if depth > MAX_DEPTH {
                return None;
            }
            let mut nodes = Vec::new();
            loop {
                self.skip();
                if self.take(']') {
                    return Some(MetadataValue::List(nodes));
                }
                if !self.take(',') {
                    nodes.push(self.value(depth + 1)?);
                }
            }
        }
        let word = self.word(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))?;
        Some(word.parse().map_or(MetadataValue::Other, MetadataValue::Number))
    }

    /// Parses a string up to its closing quote. Returns `None` if there is no such quote.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((place, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = self.rest.get(place + 1..)?;
                    return Some(text);
                }
                '\\' => text.push(letters.next()?.1),
                _ => text.push(letter),
            }
        }
        None
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            // The text ends with a NUL.
            let is_blank = |letter: char| letter.is_whitespace() || letter == '\0';
            self.rest = self.rest.trim_start_matches(is_blank);
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> Option<&str> {
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}
