//! Reading a recipe: from TOML to the words of a command line.
//!
//! Owns: the places in messages, and the directory to which paths are relative. Does **not** own:
//! the meaning of a value, which `mkfs` parses. Suboptions of mkfs.xfs are tried here once, so that
//! a message about them has their place.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use xfs_mkfs::Options;

use super::keys::{DISK, KEYS, Key, KeyKind};
use crate::failure::Failure;
use crate::import::container::ContainerAddress;
use crate::output::parent;
use crate::terminal::names;

/// The longest recipe that is read, in bytes.
const LONGEST_BYTES: u64 = 1 << 20;
/// The most changes of single characters between a wrong key and the key that was meant.
const MOST_CHANGES: usize = 2;

/// The command line of a recipe.
#[derive(Debug)]
pub(super) struct Recipe {
    /// The options, in the order of the table of keys.
    pub(super) options: Vec<OsString>,
    /// The file that is made; `None` if the recipe names none.
    pub(super) output: Option<OsString>,
    /// The options of the keys that the recipe has, and the place of each.
    places: Vec<(&'static str, String)>,
}

impl Recipe {
    /// Reads the recipe at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::host(path.as_os_str(), &error);
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(LONGEST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        let shown = names::in_message(path.as_os_str().as_bytes());
        if bytes.len() as u64 > LONGEST_BYTES {
            return Err(Failure::usage(format!("{shown}: is longer than 1 MiB; a recipe is not")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{shown}: is not UTF-8; a recipe is")))?;
        RecipeReader { path, text: &text }.read()
    }

    /// Returns the place of the key whose option a message of `mkfs` names; `None` if it names
    /// none. The longest name counts, as `--esp` is a part of `--esp-size`.
    pub(super) fn place_of(&self, message: &str) -> Option<&str> {
        let named = self
            .places
            .iter()
            .filter(|(option, _)| option.starts_with("--") && message.contains(option));
        named.max_by_key(|(option, _)| option.len()).map(|(_, place)| place.as_str())
    }
}

type Value<'t> = Spanned<DeValue<'t>>;

struct RecipeReader<'t> {
    path: &'t Path,
    text: &'t str,
}

impl<'t> RecipeReader<'t> {
    fn read(&self) -> Result<Recipe, Failure> {
        let parsed = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            self.failure(&span, &message).hint("a recipe is TOML: KEY = VALUE")
        })?;
        let top = parsed.get_ref();
        let mut disk = None;
        for (name, value) in top {
            if &**name.get_ref() == DISK {
                let table = value.get_ref().as_table();
                disk = Some(table.ok_or_else(|| self.wrong(DISK, value, "a table"))?);
            } else {
                self.check_known("", name)?;
            }
        }
        for (name, _) in disk.into_iter().flatten() {
            self.check_known(DISK, name)?;
        }
        let mut recipe = Recipe { options: Vec::new(), output: None, places: Vec::new() };
        for key in KEYS {
            let table = if key.table == DISK { disk } else { Some(top) };
            let found = table
                .and_then(|table| table.iter().find(|(name, _)| &**name.get_ref() == key.name));
            if let Some((_, value)) = found {
                recipe.places.push((key.option.trim_end_matches('='), self.place(&value.span())));
                self.add(&mut recipe, key, value)?;
            }
        }
        Ok(recipe)
    }

    /// Adds the words that a key and its value become.
    fn add(&self, recipe: &mut Recipe, key: &Key, value: &Value<'t>) -> Result<(), Failure> {
        match key.kind {
            KeyKind::Flag => match value.get_ref() {
                DeValue::Boolean(true) => recipe.options.push(key.option.into()),
                DeValue::Boolean(false) => {}
                _ => return Err(self.wrong(key.name, value, "true or false")),
            },
            KeyKind::Text => give(recipe, key, self.text(key.name, value)?.into()),
            KeyKind::Path if key.option.is_empty() => {
                let path = self.beside(&self.text(key.name, value)?);
                recipe.output = Some(not_an_option(&path));
            }
            KeyKind::Path => {
                let path = self.beside(&self.text(key.name, value)?);
                give(recipe, key, path);
            }
            KeyKind::Texts => {
                for value in each(value) {
                    give(recipe, key, self.text(key.name, value)?.into());
                }
            }
            KeyKind::Paths => {
                for value in each(value) {
                    let path = self.beside(&self.text(key.name, value)?);
                    give(recipe, key, path);
                }
            }
            KeyKind::Sources => {
                for value in each(value) {
                    let source = self.source(&self.text(key.name, value)?);
                    give(recipe, key, source);
                }
            }
            KeyKind::Suboptions(letter, paths) => {
                let table = value.get_ref().as_table();
                let table = table.ok_or_else(|| self.wrong(key.name, value, "a table"))?;
                for (name, value) in table {
                    let word = self.suboption(letter, paths, name, value)?;
                    recipe.options.extend([format!("-{letter}").into(), word]);
                }
            }
        }
        Ok(())
    }

    /// Returns a suboption as mkfs.xfs takes it: `NAME=VALUE`, or `NAME` for `true`.
    fn suboption(
        &self,
        letter: char,
        paths: &[&str],
        name: &Spanned<DeString<'t>>,
        value: &Value<'t>,
    ) -> Result<OsString, Failure> {
        let text: OsString = match value.get_ref() {
            DeValue::Boolean(true) => OsString::new(),
            DeValue::Boolean(false) => "=0".into(),
            _ => {
                let text = self.text(name.get_ref(), value)?;
                let is_path = paths.contains(&&**name.get_ref());
                let text = if is_path { self.beside(&text) } else { text.into() };
                joined(&[OsStr::new("="), &text])
            }
        };
        let word = joined(&[OsStr::new(&**name.get_ref()), &text]);
        if word.as_bytes().contains(&b',') {
            return Err(self.failure(&value.span(), "a comma begins another suboption"));
        }
        let is_known = match letter {
            'p' | 'c' => {
                let others: &[&str] =
                    if letter == 'p' { &["atime", "slashes_are_spaces"] } else { &[] };
                paths.iter().chain(others).any(|known| *known == &**name.get_ref())
            }
            _ => true,
        };
        if !is_known {
            let message = format!("unknown suboption -{letter} {}", name.get_ref());
            return Err(self.failure(&name.span(), &message));
        }
        let is_tried = !matches!(letter, 'p' | 'c') && word != "size=auto";
        if let Some(text) = word.to_str().filter(|_| is_tried) {
            Options::default().parse(letter, text).map_err(|error| {
                self.failure(&name.span(), &error.to_string()).hint(
                    "ferroxfs mkfs --help lists the suboptions; they are those of mkfs.xfs(8)",
                )
            })?;
        }
        Ok(word)
    }

    /// Returns a text or a number as the text that a command line has.
    fn text(&self, name: &str, value: &Value<'t>) -> Result<String, Failure> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Integer(number) => number.to_string(),
            _ => return Err(self.wrong(name, value, "a text or a number")),
        };
        match text.is_empty() || text.contains('\0') {
            true => {
                Err(self.failure(&value.span(), &format!("{name} is empty, or has a NUL byte")))
            }
            false => Ok(text),
        }
    }

    /// Returns a path that is relative to the directory of the recipe.
    fn beside(&self, path: &str) -> OsString {
        match parent(self.path) {
            here if here == Path::new(".") => path.into(),
            directory => directory.join(path).into_os_string(),
        }
    }

    /// Returns a source of files, whose path is relative to the directory of the recipe.
    fn source(&self, source: &str) -> OsString {
        let prefix = ContainerAddress::prefix(source);
        let (before, path) = source.split_at_checked(prefix.len()).unwrap_or(("", source));
        let is_standard_input = path == "-" || !before.is_empty() && path.starts_with("-:");
        match is_standard_input {
            true => source.into(),
            false => joined(&[OsStr::new(before), &self.beside(path)]),
        }
    }

    /// Fails if a table has no key of this name.
    fn check_known(&self, table: &str, name: &Spanned<DeString<'t>>) -> Result<(), Failure> {
        let word = &**name.get_ref();
        if KEYS.iter().any(|key| key.table == table && key.name == word) {
            return Ok(());
        }
        let failure = self.failure(&name.span(), &format!("unknown key {word:?}"));
        if let Some(elsewhere) = KEYS.iter().find(|key| key.name == word) {
            let place = match elsewhere.table {
                "" => "before all tables".to_owned(),
                table => format!("in the table [{table}]"),
            };
            return Err(failure.hint(format!("it stands {place}")));
        }
        let near = KEYS.iter().filter(|key| key.table == table);
        let near = near.map(|key| (changes(word, key.name), key.name)).min();
        Err(match near.filter(|(changes, _)| *changes <= MOST_CHANGES) {
            Some((_, meant)) => failure.hint(format!("did you mean {meant:?}?")),
            None => failure.hint(
                "the keys are the long options of ferroxfs mkfs; docs/command-line.md lists them",
            ),
        })
    }

    fn wrong(&self, name: &str, value: &Value<'t>, expected: &str) -> Failure {
        let found = value.get_ref().type_str();
        self.failure(&value.span(), &format!("{name} is {expected}, not of the type {found}"))
    }

    /// Returns the failure about a place of the recipe.
    fn failure(&self, span: &Range<usize>, message: &str) -> Failure {
        Failure::usage(format!("{}: {}", self.place(span), names::printable(message)))
    }

    /// Returns a place of the recipe as `RECIPE:LINE:COLUMN`.
    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        format!("{shown}:{line}:{column}")
    }
}

fn joined(parts: &[&OsStr]) -> OsString {
    parts.iter().copied().collect()
}

/// Adds an option with its value.
fn give(recipe: &mut Recipe, key: &Key, value: OsString) {
    match key.option.split_once(' ') {
        // A suboption.
        Some((option, name)) => {
            recipe.options.extend([option.into(), joined(&[OsStr::new(name), &value])]);
        }
        // A value that looks like an option must be one word with its option.
        None if value.as_bytes().starts_with(b"-") && key.option.starts_with("--") => {
            recipe.options.push(joined(&[OsStr::new(key.option), OsStr::new("="), &value]));
        }
        None => recipe.options.extend([key.option.into(), value]),
    }
}

/// Returns the elements of a list, or the value itself.
fn each<'a, 't>(value: &'a Value<'t>) -> impl Iterator<Item = &'a Value<'t>> {
    let list = value.get_ref().as_array();
    let one = list.is_none().then_some(value);
    list.into_iter().flat_map(|list| list.iter()).chain(one)
}

/// Returns a path that does not look like an option.
pub(super) fn not_an_option(path: &OsStr) -> OsString {
    match path.as_bytes().starts_with(b"-") {
        true => PathBuf::from(".").join(path).into_os_string(),
        false => path.to_owned(),
    }
}

/// Returns the least number of insertions, deletions and replacements of characters that turn one
/// word into the other.
fn changes(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (index, from) in one.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        let mut next = vec![left];
        for (above, to) in row.iter().skip(1).zip(other.chars()) {
            let replaced = diagonal + usize::from(from != to);
            left = replaced.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
