//! `getfacl`: shows access control lists, as getfacl(1) does. Users and groups appear as numbers.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::{Acl, AclKind};
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::{FileType, Node};

use super::getfattr::relative;
use crate::cli::{GetfaclArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::{Measure, Tally, Work};
use crate::text::acl::{entry_text, permission_text};

/// Mode bits that getfacl(1) shows in a line of their own, each with its letter.
const FLAGS: [(u16, char); 3] = [(0o4000, 's'), (0o2000, 's'), (0o1000, 't')];

struct Getfacl {
    arguments: GetfaclArguments,
    targets: ImagePaths,
}

/// Opens the images and returns the command, ready to run.
pub(crate) fn open(
    arguments: GetfaclArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Getfacl { arguments, targets }))
}

impl Run for Getfacl {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, targets } = *self;
        let list = match arguments.json.json {
            true => Some(List::begin(console.out(), "files")?),
            false => None,
        };
        let targets = targets.read(console);
        let measure = Measure::of_targets(&targets, Measure::files_of_volume);
        let tally = console.begin_rows(Work::reading("reading lists", measure));
        let mut output = AclPrinter { arguments: &arguments, list, tally: &tally };
        for target in targets {
            let shown = if arguments.recursive {
                output.tree(&target, console)
            } else {
                let node = target.node(true);
                node.and_then(|node| output.file(&target, &target.shown(), &node, console))
            };
            if let Err(failure) = shown {
                console.report(&failure);
            }
        }
        console.end();
        match output.list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// The access control lists of a file.
struct Lists {
    access: Acl,
    default: Option<Acl>,
}

struct AclPrinter<'a> {
    arguments: &'a GetfaclArguments,
    list: Option<List>,
    tally: &'a Tally,
}

impl AclPrinter<'_> {
    fn tree(&mut self, target: &ImagePath, console: &mut Console) -> Result<(), Failure> {
        let walk = target.volume.inner().walk(&target.path);
        for item in walk.map_err(|error| target.failure(error))? {
            let shown = match item {
                Ok(entry) if entry.node.file_type() == FileType::Symlink => continue,
                Ok(entry) => {
                    let path = [&target.prefix, entry.path.as_os_str().as_bytes()].concat();
                    self.file(target, &path, &entry.node, console)
                }
                Err(error) => {
                    Err(target.volume.failure(error.path.as_os_str().as_bytes(), error.source))
                }
            };
            if let Err(failure) = shown {
                console.report(&failure);
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        target: &ImagePath,
        path: &[u8],
        node: &Node,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let read = |kind| node.acl(kind).map_err(|error| target.volume.failure(path, error));
        let access = read(AclKind::Access)?;
        let access = access.unwrap_or_else(|| Acl::from_mode(node.metadata().mode));
        self.tally.add_file();
        let lists = Lists { access, default: read(AclKind::Default)? };
        match &mut self.list {
            Some(list) => Ok(list.push(console.out(), &describe(path, node, &lists))?),
            None => Ok(self.print(path, node, &lists, console)?),
        }
    }

    fn print(
        &self,
        path: &[u8],
        node: &Node,
        lists: &Lists,
        console: &mut Console,
    ) -> io::Result<()> {
        let out = console.out();
        if !self.arguments.omit_header {
            out.write_all(b"# file: ")?;
            out.write_all(&relative(path))?;
            let metadata = node.metadata();
            write!(out, "\n# owner: {}\n# group: {}\n", metadata.uid, metadata.gid)?;
            let flag = |(bit, letter)| if metadata.mode & bit == 0 { '-' } else { letter };
            if FLAGS.iter().any(|(bit, _)| metadata.mode & bit != 0) {
                writeln!(out, "# flags: {}", FLAGS.map(flag).iter().collect::<String>())?;
            }
        }
        let (access, default) = (self.arguments.access, self.arguments.default);
        if access || !default {
            print_list(out, "", &lists.access)?;
        }
        if let Some(list) = lists.default.as_ref().filter(|_| default || !access) {
            print_list(out, "default:", list)?;
        }
        out.write_all(b"\n")
    }
}

fn print_list(out: &mut impl Write, prefix: &str, list: &Acl) -> io::Result<()> {
    let mask = list.entries().iter().find(|entry| entry.tag == AclTag::Mask);
    for entry in list.entries() {
        write!(out, "{prefix}{}", entry_text(entry))?;
        let effective = mask.filter(|_| is_masked(entry)).map(|mask| mask.permissions);
        match effective.map(|mask| entry.permissions & mask) {
            Some(effective) if effective != entry.permissions => {
                writeln!(out, "\t#effective:{}", permission_text(effective))?;
            }
            _ => writeln!(out)?,
        }
    }
    Ok(())
}

fn is_masked(entry: &AclEntry) -> bool {
    matches!(entry.tag, AclTag::User(_) | AclTag::OwningGroup | AclTag::Group(_))
}

fn describe(path: &[u8], node: &Node, lists: &Lists) -> Object {
    let mut object = Object::new();
    json::insert_name(&mut object, "path", path);
    let metadata = node.metadata();
    object.insert("mode".to_owned(), metadata.mode.into());
    object.insert("uid".to_owned(), metadata.uid.into());
    object.insert("gid".to_owned(), metadata.gid.into());
    let texts = |list: &Acl| list.entries().iter().map(entry_text).collect::<Vec<_>>();
    object.insert("access".to_owned(), texts(&lists.access).into());
    if let Some(list) = &lists.default {
        object.insert("default".to_owned(), texts(list).into());
    }
    object
}
