//! `find`: walks a tree and evaluates an expression of find(1).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::dir::Cookie;
use ferroxfs::{Node, Walk, WalkEntry};

use crate::cli::{FindArguments, GlobalOptions};
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::file::node;
use crate::image::address::{Address, path_separator};
use crate::image::{Image, ImagePath, ImagePaths};
use crate::inspect::predicate::{
    Evaluation, ExaminedFile, Parser, Program, Reference, Stamp, is_expression_start,
};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::escaping::TerminalWrite;
use crate::terminal::tally::{Measure, Tally, Work};
use crate::text::time::Clock;

struct Find {
    is_json: bool,
    targets: ImagePaths,
    program: Program,
    references: Vec<(Image, Vec<u8>, Stamp)>,
    clock: Clock,
}

/// Opens the images and parses the expression. Also opens the images of files to which the
/// expression refers (`-newer`).
pub(crate) fn open(
    arguments: &FindArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let words = without_link_options(&arguments.words)?;
    let split = words.iter().position(|word| is_expression_start(word));
    let (starts, words) = words.split_at(split.unwrap_or(words.len()));
    let targets = ImagePaths::open(starts, options)?;
    let clock = Clock::open();
    let program = Parser::new(words, &clock).parse()?;
    let is_json = arguments.json.json;
    if is_json && program.has_action {
        return Err(Failure::usage("find: --json replaces -print and similar actions"));
    }
    let open_reference = |reference: &Reference| {
        let word = &reference.address;
        let address = Address::parse(word, options.image.as_deref())?;
        let image = Image::open(&address.image, options).map_err(|failure| {
            let names_place = path_separator(word.as_bytes()).is_some();
            match options.image.is_some() || names_place {
                true => failure,
                false => failure
                    .hint("-newer takes a file in an image, IMAGE:/path; -newermt takes a time"),
            }
        })?;
        Ok((image, address.path, reference.stamp))
    };
    let references =
        program.references.iter().map(open_reference).collect::<Result<_, Failure>>()?;
    Ok(Box::new(Find { is_json, targets, program, references, clock }))
}

/// Skips the options of find(1) about symbolic links (-H, -L, -P), which come before the first
/// address (`IMAGE:/path`). Returns the words after them. Only -P is supported: no links are
/// followed.
fn without_link_options(mut words: &[OsString]) -> Result<&[OsString], Failure> {
    while let [first, rest @ ..] = words {
        match first.as_bytes() {
            b"-P" => words = rest,
            b"-H" | b"-L" => {
                let option = first.to_string_lossy();
                let message = format!("find: {option}: symbolic links are not followed");
                return Err(Failure::usage(message).hint("name the target of the link"));
            }
            _ => break,
        }
    }
    Ok(words)
}

/// Reads from an image one of the times (`stamp`) of a file to which the expression refers.
fn read_reference(image: &Image, path: &[u8], stamp: Stamp) -> Result<Time, Failure> {
    let volume = image.read()?;
    let found = volume.inner().lookup_no_follow(OsStr::from_bytes(path));
    let node = found.map_err(|error| volume.failure(path, error))?;
    Ok(stamp.of(&node::facts(&node)))
}

impl Run for Find {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { is_json, targets, program, references, clock } = *self;
        let times =
            references.iter().map(|(image, path, stamp)| read_reference(image, path, *stamp));
        let times = times.collect::<Result<Vec<_>, _>>()?;
        let mut list = match is_json {
            true => Some(List::begin(console.out(), "files")?),
            false => None,
        };
        let targets = targets.read(console);
        let measure = Measure::of_targets(&targets, Measure::files_of_volume);
        let tally = console.begin_rows(Work::reading("searching", measure));
        for target in targets {
            let walk = match target.volume.inner().walk(&target.path) {
                Ok(walk) if program.is_depth_first => walk.contents_first(),
                Ok(walk) => walk,
                Err(error) => {
                    console.report(&target.failure(error));
                    continue;
                }
            };
            let (target, program, clock) = (&target, &program, &clock);
            let search = Search { program, target, clock, references: &times, tally: &tally };
            if search.run(walk, list.as_mut(), console)? {
                break;
            }
        }
        console.end();
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// The search below one address (`IMAGE:/path`) of the command line.
struct Search<'a> {
    program: &'a Program,
    target: &'a ImagePath,
    clock: &'a Clock,
    references: &'a [Time],
    tally: &'a Tally,
}

impl Search<'_> {
    /// Walks the tree and evaluates the expression for each file. Returns true if the expression
    /// has ended the search (`-quit`).
    fn run(
        &self,
        mut walk: Walk,
        mut list: Option<&mut List>,
        console: &mut Console,
    ) -> Result<bool, Failure> {
        while let Some(item) = walk.next() {
            let entry = match item {
                Ok(entry) => self.entry(&entry),
                Err(error) => {
                    let path = error.path.as_os_str().as_bytes();
                    console.report(&self.target.volume.failure(path, error.source));
                    continue;
                }
            };
            self.tally.add_file();
            let mut is_pruned = entry.depth >= self.program.max_depth;
            if entry.depth >= self.program.min_depth && entry.depth <= self.program.max_depth {
                let verdict = self.evaluate(&entry, list.as_deref_mut(), console)?;
                if verdict.has_quit {
                    return Ok(true);
                }
                is_pruned |= verdict.is_pruned;
            }
            if is_pruned {
                walk.skip_subtree();
            }
        }
        Ok(false)
    }

    fn entry(&self, entry: &WalkEntry) -> FoundFile {
        let path = [&self.target.prefix, entry.path.as_os_str().as_bytes()].concat();
        let start = self.target.shown();
        let below = path.strip_prefix(start.as_slice()).unwrap_or_default();
        let below = below.strip_prefix(b"/").unwrap_or(below).len();
        FoundFile {
            facts: node::facts(&entry.node),
            below,
            path,
            depth: entry.depth,
            node: entry.node.clone(),
        }
    }

    fn evaluate(
        &self,
        entry: &FoundFile,
        list: Option<&mut List>,
        console: &mut Console,
    ) -> Result<Verdict, Failure> {
        let style = console.name_style(false);
        let mut sink = io::sink();
        let out: &mut dyn TerminalWrite = if list.is_some() { &mut sink } else { console.out() };
        let mut evaluation = Evaluation::new(out, style, self.clock);
        evaluation.references = self.references;
        let holds = evaluation.run(&self.program.expression, entry);
        let verdict = Verdict { is_pruned: evaluation.is_pruned, has_quit: evaluation.has_quit };
        match holds {
            Ok(true) => {
                if let Some(list) = list {
                    let mut object = Object::new();
                    json::insert_name(&mut object, "path", &entry.path);
                    object.extend(json::facts(&entry.facts));
                    list.push(console.out(), &object)?;
                }
            }
            Ok(false) => {}
            Err(failure) if failure.is_of_output() => return Err(failure),
            Err(failure) => console.report(&self.target.volume.failure(&entry.path, failure)),
        }
        Ok(verdict)
    }
}

/// The decisions that the evaluation for one file makes about the walk.
struct Verdict {
    is_pruned: bool,
    has_quit: bool,
}

/// A file that the walk has found.
struct FoundFile {
    path: Vec<u8>,
    below: usize,
    depth: usize,
    facts: Facts,
    node: Node,
}

impl ExaminedFile for FoundFile {
    fn path(&self) -> &[u8] {
        &self.path
    }

    fn path_below_start(&self) -> &[u8] {
        let start = self.path.len().saturating_sub(self.below);
        self.path.get(start..).unwrap_or_default()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        node::attribute(&self.node, name)
    }

    fn target(&self) -> Result<Option<Vec<u8>>, Failure> {
        node::target(&self.node)
    }

    fn is_empty_directory(&self) -> Result<bool, Failure> {
        // One entry is enough, so that nothing is compared with the index.
        match self.node.entries_from(Cookie::START)?.next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => Err(error.into()),
        }
    }
}
