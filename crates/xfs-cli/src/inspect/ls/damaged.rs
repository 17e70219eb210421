//! `ls --damaged`: lists directories of damaged volumes, as far as they can be read.
//!
//! Owns: the rows of names that can be read and of names whose file is gone. Does **not** own: the
//! form of a listing, which `ls` determines.

use std::path::PathBuf;

use xfs_salvage::{FileReport, NameId, NameTree, Salvage, Status};

use super::{Listing, ListingRow, join};
use crate::cli::{GlobalOptions, LsArguments};
use crate::damaged::shortfalls::Shortfalls;
use crate::damaged::source::SalvageSource;
use crate::damaged::volume::DamagedImage;
use crate::damaged::{name_tree, survey};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::source::Source;
use crate::image::address::Address;
use crate::interrupt;
use crate::json::List;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::time::Clock;

struct DamagedLs {
    arguments: LsArguments,
    /// Each image once, with the paths in it that are listed.
    images: Vec<(DamagedImage, Vec<Vec<u8>>)>,
    clock: Clock,
}

/// Opens the damaged images of the addresses (`IMAGE:/path`).
pub(super) fn open(
    arguments: LsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let addresses = Address::parse_all(&arguments.addresses, options.image.as_deref())?;
    let mut paths: Vec<(PathBuf, Vec<Vec<u8>>)> = Vec::new();
    for Address { image, path } in addresses {
        match paths.iter_mut().find(|(other, _)| *other == image) {
            Some((_, listed)) => listed.push(path),
            None => paths.push((image, vec![path])),
        }
    }
    let open = |(image, listed): (PathBuf, _)| {
        DamagedImage::open(&image, None, options).map(|image| (image, listed))
    };
    let images = paths.into_iter().map(open).collect::<Result<_, _>>()?;
    interrupt::arm()?;
    Ok(Box::new(DamagedLs { arguments, images, clock: Clock::open() }))
}

impl Run for DamagedLs {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, images, clock } = *self;
        let style = console.name_style(arguments.list.null);
        let is_human = arguments.human_readable || console.is_terminal();
        let mut list = match arguments.list.json.json {
            true => Some(List::begin(console.out(), "entries")?),
            false => None,
        };
        let count: usize = images.iter().map(|(_, paths)| paths.len()).sum();
        let has_several = images.len() > 1;
        let has_headings = arguments.recursive || count > 1;
        let mut has_printed = false;
        for (image, paths) in images {
            let shown = image.shown();
            let prefix = if has_several { [shown.as_bytes(), b":"].concat() } else { Vec::new() };
            let volume = image.read(|note| console.note(format!("{shown}: {note}")))?;
            let survey = survey(&volume, volume.survey_options(), &shown, console)?;
            let (tree, shortfalls) = name_tree(&survey, &shown, console)?;
            let listing = Listing {
                arguments: &arguments,
                clock: &clock,
                style,
                is_human,
                list: list.as_mut(),
            };
            let volume = SurveyedVolume { survey: &survey, tree: &tree, shortfalls: &shortfalls };
            let mut lister = Lister { listing, volume, prefix };
            for path in &paths {
                lister.list(path, has_headings.then_some(&mut has_printed), &shown, console)?;
            }
            shortfalls.print(&shown, console, |report| {
                paths.iter().any(|path| concerns(report, path, &arguments))
            });
        }
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// Returns whether a report about a damaged file is about `path`, or about a file below it that the
/// listing of `path` shows.
fn concerns(report: &FileReport, path: &[u8], arguments: &LsArguments) -> bool {
    let parts = |path: &[u8]| -> Vec<Vec<u8>> {
        let names = path.split(|byte| *byte == b'/');
        names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
    };
    let (listed, reported) = (parts(path), parts(&report.path));
    let Some(below) = reported.strip_prefix(listed.as_slice()) else { return false };
    match below.len() {
        0 => true,
        _ if arguments.directory => false,
        1 => true,
        _ => arguments.recursive,
    }
}

/// A damaged volume: its survey (everything that can still be read), the tree of its names, and the
/// reports of the files that are not whole.
struct SurveyedVolume<'a> {
    survey: &'a Salvage<'a>,
    tree: &'a NameTree,
    shortfalls: &'a Shortfalls,
}

/// A listing of a damaged volume.
struct Lister<'a> {
    listing: Listing<'a>,
    volume: SurveyedVolume<'a>,
    /// The text in front of printed paths: the image, if several images are listed.
    prefix: Vec<u8>,
}

impl Lister<'_> {
    /// Lists the file or directory at `path` of the image; `shown` is the name of the image in
    /// messages. `heading` is as for [`Listing::tree`].
    fn list(
        &mut self,
        path: &[u8],
        heading: Option<&mut bool>,
        shown: &str,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let top = [&self.prefix, path].concat();
        let Some(id) = self.volume.tree.find(path) else {
            let message = "no such file or directory, as far as the volume can be read";
            let failure = Failure::new(Exit::Failed, message);
            console.report(&failure.about(&names::in_message(path)).about(shown));
            return Ok(());
        };
        let row = self.row(top.clone(), id);
        if self.listing.arguments.directory || row.kind != FileKind::Directory {
            self.listing.print(&[row], None, console)?;
            if let Some(has_printed) = heading {
                *has_printed = true;
            }
            return Ok(());
        }
        self.tree(top, id, heading, console)
    }

    fn tree(
        &mut self,
        path: Vec<u8>,
        id: NameId,
        mut heading: Option<&mut bool>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let mut pending = vec![(path, id)];
        while let Some((path, id)) = pending.pop() {
            interrupt::check()?;
            let is_list = self.listing.list.is_some();
            if let Some(has_printed) = heading.as_deref_mut().filter(|_| !is_list) {
                self.listing.print_heading(&path, *has_printed, console)?;
                *has_printed = true;
            }
            let mut rows = self.rows(id);
            let arguments = self.listing.arguments;
            if !arguments.unsorted {
                let key = |row: &ListingRow| self.listing.key(|| row.facts);
                rows.sort_by(|(a, _), (b, _)| {
                    key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
                });
                if arguments.reverse {
                    rows.reverse();
                }
            }
            if arguments.recursive {
                let directories = rows.iter().rev().filter_map(|(row, id)| {
                    let is_other = !matches!(row.name.as_slice(), b"." | b"..");
                    let id = id.filter(|_| is_other && row.kind == FileKind::Directory)?;
                    Some((join(&path, &row.name), id))
                });
                pending.extend(directories);
            }
            let rows: Vec<ListingRow> = rows.into_iter().map(|(row, _)| row).collect();
            if !arguments.unsorted {
                self.listing.print_total(&rows, console)?;
            }
            self.listing.print(&rows, Some(&path), console)?;
        }
        Ok(())
    }

    /// Returns the rows of a directory: its entries, and the names whose file is gone. The second
    /// value of each row is the name in the tree. It is `None` for `.`, `..`, and names whose file
    /// is gone.
    fn rows(&self, directory: NameId) -> Vec<(ListingRow, Option<NameId>)> {
        let tree = self.volume.tree;
        let arguments = self.listing.arguments;
        let mut rows = Vec::new();
        if arguments.all && !arguments.almost_all {
            rows.push((self.row(b".".to_vec(), directory), None));
            rows.push((self.row(b"..".to_vec(), tree.parent(directory)), None));
        }
        for id in tree.children(directory) {
            rows.push((self.row(tree.name(id).to_vec(), id), Some(id)));
        }
        let path = tree.path(directory);
        let reports = self.volume.shortfalls.reports().iter();
        rows.extend(reports.filter_map(|report| Some((lost_row(report, &path)?, None))));
        let shows_all = arguments.all || arguments.almost_all;
        rows.retain(|(row, _)| shows_all || !row.name.starts_with(b"."));
        rows
    }

    fn row(&self, name: Vec<u8>, id: NameId) -> ListingRow {
        let tree = self.volume.tree;
        let source = SalvageSource::new(tree.node(self.volume.survey, id));
        let mut facts = source.facts();
        facts.inode = tree.inode(id).map_or(0, |inode| inode.0);
        let is_long = self.listing.arguments.long;
        let is_link = facts.kind() == FileKind::Symlink;
        let shows_target = is_link && (is_long || self.listing.list.is_some());
        let is_list = |name: &[u8]| name.starts_with(b"system.posix_acl_");
        let has_list = is_long
            && source.attributes().iter().flatten().any(|attribute| is_list(&attribute.name));
        ListingRow {
            name,
            inode: facts.inode,
            kind: facts.kind(),
            // A target of which nothing is left is reported with the file.
            target: if shows_target { source.target().ok() } else { None },
            facts: Some(facts),
            has_list,
        }
    }
}

/// If the report is about a name in `directory` whose file is gone, returns the row of that name;
/// otherwise returns `None`.
fn lost_row(report: &FileReport, directory: &[u8]) -> Option<ListingRow> {
    let slash = report.path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match slash {
        Some(at) => (report.path.get(..at)?, report.path.get(at + 1..)?),
        None => (b"".as_slice(), report.path.as_slice()),
    };
    let is_here = directory.strip_prefix(b"/") == Some(parent);
    if report.status != Status::Lost || !is_here || name.is_empty() {
        return None;
    }
    Some(ListingRow {
        name: name.to_vec(),
        inode: report.inode.0,
        kind: FileKind::of(report.mode.into()),
        facts: None,
        has_list: false,
        target: None,
    })
}
