//! `build`: makes a volume or a disk as a recipe says.
//!
//! A recipe is another form of a command line of `mkfs`, and nothing more: its keys become the
//! words of that command line, which are parsed and run as if a user had typed them. So a recipe
//! can do what `mkfs` can, with the same checks and the same bytes.
//!
//! Owns: running the command line, and printing it. Does **not** own: the keys ([`recipe`]).

mod keys;
mod recipe;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use crate::cli::{self, BuildArguments, Command, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::Object;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::volume::mkfs;
use recipe::Recipe;

/// Characters that a shell reads as they are, in addition to letters and digits.
const PLAIN: &[u8] = b"%+,-./:=@_";

/// Reads the recipe, and opens what its command line of `mkfs` names.
pub(crate) fn open(
    arguments: &BuildArguments,
    global: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let recipe = Recipe::read(&arguments.recipe)?;
    let words = command_line(&recipe, arguments)?;
    let shown = names::in_message(arguments.recipe.as_os_str().as_bytes()).into_owned();
    let placed = |failure: Failure| {
        let place = recipe.place_of(failure.message()).unwrap_or(&shown).to_owned();
        if failure.exit() == Exit::Usage { failure.about(&place) } else { failure }
    };
    let parsed = cli::parse(words.clone()).map_err(|error| {
        // The first paragraph has the error, and the others are advice for a command line.
        let text = error.render().to_string();
        let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let text = lines.collect::<Vec<_>>().join(" ");
        placed(Failure::usage(text.strip_prefix("error: ").unwrap_or(&text)))
            .hint("the keys of a recipe are the long options of ferroxfs mkfs")
    })?;
    let Command::Mkfs(mkfs) = parsed.command else {
        return Err(Failure::usage(format!("{shown}: is not a recipe of mkfs")));
    };
    let of_run = global.clone();
    let options = GlobalOptions {
        sandbox: of_run.sandbox,
        quiet: of_run.quiet,
        color: of_run.color,
        requests: of_run.requests,
        ..parsed.global
    };
    if arguments.print_command {
        mkfs::check_options(&mkfs, &options).map_err(placed)?;
        return Ok(Box::new(PrintCommand { words }));
    }
    mkfs::open(*mkfs, &options).map_err(placed)
}

/// Returns the words of the command line of `mkfs`, beginning with the name of the program.
fn command_line(recipe: &Recipe, arguments: &BuildArguments) -> Result<Vec<OsString>, Failure> {
    let Recipe { options, output, .. } = recipe;
    let mut words = vec!["ferroxfs".into(), "mkfs".into()];
    words.extend(options.iter().cloned());
    if arguments.force && !words.iter().any(|word| word == "-f") {
        words.push("-f".into());
    }
    let given = arguments.output.as_ref().map(|path| recipe::not_an_option(path.as_os_str()));
    let output = given.or_else(|| output.clone()).ok_or_else(|| {
        let shown = names::in_message(arguments.recipe.as_os_str().as_bytes());
        Failure::usage(format!("{shown}: names no output"))
            .hint("add output = \"disk.img\" to it, or give --output FILE")
    })?;
    words.push(output);
    Ok(words)
}

struct PrintCommand {
    words: Vec<OsString>,
}

impl Run for PrintCommand {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        if console.is_json() {
            let words = self.words.iter().map(|word| word.to_string_lossy().into_owned());
            let mut object = Object::new();
            object.insert("command".to_owned(), words.collect::<Vec<_>>().into());
            return Ok(console.conclude_with(object)?);
        }
        let quoted: Vec<_> = self.words.iter().map(|word| quote(word)).collect();
        console.out().write_all(&quoted.join(&b' '))?;
        Ok(console.out().write_all(b"\n")?)
    }
}

/// Quotes a word for a POSIX shell, if a shell would misread it.
fn quote(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || PLAIN.contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    let parts: Vec<_> = bytes.split(|byte| *byte == b'\'').collect();
    [b"'", parts.join(&br"'\''"[..]).as_slice(), b"'"].concat()
}

#[cfg(test)]
mod tests;
