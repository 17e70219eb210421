//! The parser of the expressions of `find`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use regex::bytes::Regex;

use super::{
    Action, Comparison, Expression, Number, Permission, PrintfFormat, Program, Reference, Stamp,
    Test,
};
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::terminal::names;
use crate::text::glob::Glob;
use crate::text::owners::find_id;
use crate::text::pattern;
use crate::text::time::Clock;

/// Returns whether a word of the command line starts the expression. The words before it are
/// addresses (`IMAGE:/path`).
pub(crate) fn is_expression_start(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    (bytes.len() > 1 && bytes.starts_with(b"-")) || matches!(bytes, b"(" | b"!")
}

/// A parser of an expression, with the options and references that it has read.
pub(crate) struct Parser<'a> {
    words: std::slice::Iter<'a, OsString>,
    clock: &'a Clock,
    references: Vec<Reference>,
    max_depth: usize,
    min_depth: usize,
    is_depth_first: bool,
    has_action: bool,
    nesting: usize,
}

/// The limit on nested parentheses. The parser recurses once for each pair of them.
const NESTING_LIMIT: usize = 200;

impl<'a> Parser<'a> {
    /// Creates a parser of `words`.
    pub(crate) fn new(words: &'a [OsString], clock: &'a Clock) -> Self {
        Self {
            words: words.iter(),
            clock,
            references: Vec::new(),
            max_depth: usize::MAX,
            min_depth: 0,
            is_depth_first: false,
            has_action: false,
            nesting: 0,
        }
    }

    /// Parses all words to an expression with its options.
    pub(crate) fn parse(mut self) -> Result<Program, Failure> {
        let mut expression = Expression::Test(Test::Constant(true));
        if self.peek().is_some() {
            expression = self.comma()?;
        }
        if let Some(word) = self.peek() {
            return Err(Failure::usage(format!("find: unexpected {}", shown(word))));
        }
        if !self.has_action {
            let print = Expression::Action(Action::Print);
            expression = Expression::And(Box::new(expression), Box::new(print));
        }
        Ok(Program {
            expression,
            max_depth: self.max_depth,
            min_depth: self.min_depth,
            is_depth_first: self.is_depth_first,
            has_action: self.has_action,
            references: self.references,
        })
    }

    fn peek(&self) -> Option<&'a [u8]> {
        self.words.as_slice().first().map(|word| word.as_bytes())
    }

    fn comma(&mut self) -> Result<Expression, Failure> {
        let mut left = self.or()?;
        while self.peek() == Some(b",") {
            self.words.next();
            left = Expression::Comma(Box::new(left), Box::new(self.or()?));
        }
        Ok(left)
    }

    fn or(&mut self) -> Result<Expression, Failure> {
        let mut left = self.and()?;
        while matches!(self.peek(), Some(b"-o" | b"-or")) {
            self.words.next();
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, Failure> {
        let mut left = self.not()?;
        loop {
            match self.peek() {
                None | Some(b")" | b"," | b"-o" | b"-or") => return Ok(left),
                Some(b"-a" | b"-and") => _ = self.words.next(),
                Some(_) => {}
            }
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
    }

    fn not(&mut self) -> Result<Expression, Failure> {
        let mut is_negated = false;
        while matches!(self.peek(), Some(b"!" | b"-not")) {
            self.words.next();
            is_negated = !is_negated;
        }
        let inner = self.primary()?;
        Ok(if is_negated { Expression::Not(Box::new(inner)) } else { inner })
    }

    fn primary(&mut self) -> Result<Expression, Failure> {
        let Some(word) = self.words.next() else {
            return Err(Failure::usage("find: the expression ends where a test is expected"));
        };
        if word.as_bytes() != b"(" {
            return self.predicate(word);
        }
        self.nesting += 1;
        if self.nesting > NESTING_LIMIT {
            return Err(Failure::usage("find: parentheses are nested too deeply"));
        }
        let inner = self.comma()?;
        self.nesting -= 1;
        match self.words.next().map(|word| word.as_bytes()) {
            Some(b")") => Ok(inner),
            _ => Err(Failure::usage("find: a \"(\" without its \")\"")),
        }
    }

    fn predicate(&mut self, word: &OsStr) -> Result<Expression, Failure> {
        let name = word.to_str().unwrap_or_default();
        if let Some(action) = self.action(name)? {
            self.has_action |= !matches!(action, Action::Prune | Action::Quit);
            return Ok(Expression::Action(action));
        }
        if self.option(name)? {
            return Ok(Expression::Test(Test::Constant(true)));
        }
        self.test(name, word).map(Expression::Test)
    }

    fn action(&mut self, name: &str) -> Result<Option<Action>, Failure> {
        Ok(Some(match name {
            "-print" => Action::Print,
            "-print0" => Action::Print0,
            "-printf" => Action::Printf(PrintfFormat::parse(self.argument(name)?.as_bytes())?),
            "-ls" => Action::Ls,
            "-prune" => Action::Prune,
            "-quit" => Action::Quit,
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-delete" | "-fprint" | "-fprint0"
            | "-fprintf" | "-fls" => {
                return Err(Failure::usage(format!("find: {name} is not supported"))
                    .hint("pass the output of -print0 to `xargs -0`"));
            }
            _ => return Ok(None),
        }))
    }

    /// Parses an option that concerns the whole walk, such as `-maxdepth`. Returns false for any
    /// other word. In the expression, an option counts as a test that is always true.
    fn option(&mut self, name: &str) -> Result<bool, Failure> {
        match name {
            "-maxdepth" => self.max_depth = self.depth(name)?,
            "-mindepth" => self.min_depth = self.depth(name)?,
            "-depth" | "-d" => self.is_depth_first = true,
            // A volume has no mount points inside it.
            "-mount" | "-xdev" | "-noleaf" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn test(&mut self, name: &str, word: &OsStr) -> Result<Test, Failure> {
        Ok(match name {
            "-true" => Test::Constant(true),
            "-false" => Test::Constant(false),
            "-empty" => Test::Empty,
            "-name" | "-iname" => Test::Name(self.glob(name)?),
            "-path" | "-wholename" | "-ipath" | "-iwholename" => Test::Path(self.glob(name)?),
            "-lname" | "-ilname" => Test::Target(self.glob(name)?),
            "-regex" => Test::PathRegex(self.regex(name)?),
            "-type" => Test::Kind(self.kinds(name)?),
            "-size" => self.size(name)?,
            "-links" => Test::Number(Number::Links, self.comparison(name)?),
            "-inum" => Test::Number(Number::Inode, self.comparison(name)?),
            "-uid" => Test::Number(Number::Uid, self.comparison(name)?),
            "-gid" => Test::Number(Number::Gid, self.comparison(name)?),
            "-project" => Test::Number(Number::Project, self.comparison(name)?),
            "-user" => Test::Number(Number::Uid, self.owner(name, "/etc/passwd")?),
            "-group" => Test::Number(Number::Gid, self.owner(name, "/etc/group")?),
            "-perm" => {
                let argument = self.argument(name)?;
                Test::Permission(Permission::parse(argument).ok_or_else(|| bad(name, argument))?)
            }
            "-xattr" => self.attribute(name)?,
            _ => match self.time_test(name)? {
                Some(test) => test,
                None => {
                    return Err(Failure::usage(format!(
                        "find: unknown predicate {}",
                        shown(word.as_bytes())
                    ))
                    .hint("`ferroxfs find --help` lists them"));
                }
            },
        })
    }

    /// Parses `-amin`, `-Btime`, `-newer`, `-newermt` and similar tests; `None` for any other word.
    fn time_test(&mut self, name: &str) -> Result<Option<Test>, Failure> {
        if name == "-newer" {
            return self.newer(name, Stamp::Modified, b'm').map(Some);
        }
        if let Some(&[x, y]) = name.strip_prefix("-newer").map(str::as_bytes) {
            let Some(stamp) = Stamp::from_letter(x) else { return Ok(None) };
            return self.newer(name, stamp, y).map(Some);
        }
        let Some((&[b'-', letter], unit)) = name
            .as_bytes()
            .split_at_checked(2)
            .and_then(|(head, unit)| Some((<&[u8; 2]>::try_from(head).ok()?, unit)))
        else {
            return Ok(None);
        };
        let Some(stamp) = Stamp::from_letter(letter) else { return Ok(None) };
        match unit {
            b"min" => Ok(Some(Test::AgeMinutes(stamp, self.comparison(name)?))),
            b"time" => Ok(Some(Test::AgeDays(stamp, self.comparison(name)?))),
            b"newer" => self.newer(name, stamp, b'm').map(Some),
            _ => Ok(None),
        }
    }

    fn newer(&mut self, name: &str, stamp: Stamp, reference: u8) -> Result<Test, Failure> {
        let argument = self.argument(name)?;
        if reference == b't' {
            let time = self.clock.parse(argument.to_str().unwrap_or_default());
            return Ok(Test::NewerThan(stamp, time.ok_or_else(|| bad(name, argument))?));
        }
        let of = Stamp::from_letter(reference)
            .ok_or_else(|| Failure::usage(format!("find: unknown predicate {name}")))?;
        self.references.push(Reference { address: argument.to_owned(), stamp: of });
        Ok(Test::NewerThanFile(stamp, self.references.len() - 1))
    }

    fn argument(&mut self, name: &str) -> Result<&'a OsStr, Failure> {
        match self.words.next() {
            Some(word) => Ok(word),
            None => Err(Failure::usage(format!("find: {name} needs an argument"))),
        }
    }

    fn depth(&mut self, name: &str) -> Result<usize, Failure> {
        let argument = self.argument(name)?;
        argument.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| bad(name, argument))
    }

    fn glob(&mut self, name: &str) -> Result<Glob, Failure> {
        Ok(Glob::new(self.argument(name)?.as_bytes(), name.starts_with("-i")))
    }

    fn regex(&mut self, name: &str) -> Result<Regex, Failure> {
        let argument = self.argument(name)?;
        let text = argument.to_str().ok_or_else(|| bad(name, argument))?;
        Regex::new(&format!("(?s-u)^(?:{text})$")).map_err(|error| {
            let reason = pattern::reason(&error);
            let argument = shown(argument.as_bytes());
            Failure::usage(format!("find: {name} does not take {argument}: {reason}"))
        })
    }

    fn kinds(&mut self, name: &str) -> Result<Vec<FileKind>, Failure> {
        let argument = self.argument(name)?;
        argument
            .as_bytes()
            .split(|&byte| byte == b',')
            .map(kind)
            .collect::<Option<_>>()
            .ok_or_else(|| bad(name, argument))
    }

    fn size(&mut self, name: &str) -> Result<Test, Failure> {
        let argument = self.argument(name)?;
        let text = argument.to_str().unwrap_or_default();
        let (number, unit) = match text.char_indices().next_back() {
            Some((at, suffix)) if suffix.is_ascii_alphabetic() => {
                let unit = match suffix {
                    'c' => 1,
                    'w' => 2,
                    'b' => 512,
                    'k' => 1 << 10,
                    'M' => 1 << 20,
                    'G' => 1 << 30,
                    _ => return Err(bad(name, argument)),
                };
                (text.get(..at).unwrap_or_default(), unit)
            }
            _ => (text, 512),
        };
        let comparison = parse_comparison(number).ok_or_else(|| bad(name, argument))?;
        Ok(Test::Size(comparison, unit))
    }

    fn comparison(&mut self, name: &str) -> Result<Comparison, Failure> {
        let argument = self.argument(name)?;
        argument.to_str().and_then(parse_comparison).ok_or_else(|| bad(name, argument))
    }

    /// Parses a user or group: its name in `table`, a file of the host such as /etc/passwd, or its
    /// number.
    fn owner(&mut self, name: &str, table: &str) -> Result<Comparison, Failure> {
        let argument = self.argument(name)?;
        let id = fs::read(table).ok().and_then(|table| find_id(&table, argument.as_bytes()));
        match id.or_else(|| argument.to_str()?.parse().ok()) {
            Some(id) => Ok(Comparison::Equal(id)),
            None => Err(bad(name, argument)),
        }
    }

    fn attribute(&mut self, name: &str) -> Result<Test, Failure> {
        let argument = self.argument(name)?.as_bytes();
        Ok(match argument.iter().position(|&byte| byte == b'=') {
            None => Test::Attribute(argument.to_vec(), None),
            Some(at) => {
                let (attribute, value) = argument.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                Test::Attribute(attribute.to_vec(), Some(value.to_vec()))
            }
        })
    }
}

fn kind(letter: &[u8]) -> Option<FileKind> {
    Some(match letter {
        b"f" => FileKind::Regular,
        b"d" => FileKind::Directory,
        b"l" => FileKind::Symlink,
        b"b" => FileKind::BlockDevice,
        b"c" => FileKind::CharDevice,
        b"p" => FileKind::Fifo,
        b"s" => FileKind::Socket,
        _ => return None,
    })
}

fn parse_comparison(text: &str) -> Option<Comparison> {
    if let Some(number) = text.strip_prefix('+') {
        return number.parse().ok().map(Comparison::More);
    }
    if let Some(number) = text.strip_prefix('-') {
        return number.parse().ok().map(Comparison::Less);
    }
    text.parse().ok().map(Comparison::Equal)
}

fn bad(name: &str, argument: &OsStr) -> Failure {
    Failure::usage(format!("find: {name} does not take {}", shown(argument.as_bytes())))
}

fn shown(word: &[u8]) -> std::borrow::Cow<'_, str> {
    names::in_message(word)
}
