//! The commands, and the two steps in which each of them runs.
//!
//! First [`open`] opens everything that the command needs: images, devices, output files, tables of
//! the host. Then the command runs on what is open, and opens nothing more. Between the two is the
//! place where a process gives up its rights before it looks at the first byte of an image.

mod bench;
mod cat;
mod chmod;
mod chown;
mod complete;
mod completions;
mod cp;
mod du;
mod dump;
mod edit;
mod extents;
mod fallocate;
mod find;
mod fstrim;
mod get;
mod getfacl;
mod getfattr;
mod growfs;
mod import;
mod info;
mod label;
mod ln;
mod log;
mod ls;
mod man;
mod mkdir;
mod mkfs;
mod mount;
mod mounts;
mod mv;
mod parents;
mod put;
mod readlink;
mod recover;
mod rm;
mod scan;
mod setfacl;
mod setfattr;
mod stat;
mod stats;
mod tar;
mod touch;
mod tree;
mod truncate;
mod umount;
mod uuid;

use crate::cli::{Cli, Command};
use crate::console::Console;
use crate::failure::Failure;
use crate::sandbox::Reach;

/// A command with everything open.
pub(crate) trait Run {
    /// What the command still needs of the host, which for most is only what is open.
    fn reach(&self) -> Reach<'_> {
        Reach::Nothing
    }

    /// Does the work.
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure>;
}

/// Opens what the command line names.
pub(crate) fn open(cli: Cli) -> Result<Box<dyn Run>, Failure> {
    let options = &cli.global;
    match cli.command {
        Command::Info(arguments) => info::open(arguments, options),
        Command::Extents(arguments) => extents::open(arguments, options),
        Command::Ls(arguments) => ls::open(arguments, options),
        Command::Tree(arguments) => tree::open(arguments, options),
        Command::Stat(arguments) => stat::open(arguments, options),
        Command::Cat(arguments) => cat::open(&arguments, options),
        Command::Readlink(arguments) => readlink::open(&arguments, options),
        Command::Getfacl(arguments) => getfacl::open(arguments, options),
        Command::Getfattr(arguments) => getfattr::open(arguments, options),
        Command::Find(arguments) => find::open(&arguments, options),
        Command::Du(arguments) => du::open(arguments, options),
        Command::Parents(arguments) => parents::open(&arguments, options),
        Command::Cp(arguments) => cp::open(&arguments, options),
        Command::Tar(arguments) => tar::open(&arguments, options),
        Command::Put(arguments) => put::open(&arguments, options),
        Command::Edit(arguments) => edit::open(&arguments, options),
        Command::Get(arguments) => get::open(arguments, options),
        Command::Import(arguments) => import::open(&arguments, options),
        Command::Mkdir(arguments) => mkdir::open(&arguments, options),
        Command::Rm(arguments) => rm::open(&arguments, options),
        Command::Mv(arguments) => mv::open(&arguments, options),
        Command::Ln(arguments) => ln::open(arguments, options),
        Command::Chmod(arguments) => chmod::open(arguments, options),
        Command::Chown(arguments) => chown::open(&arguments, options),
        Command::Touch(arguments) => touch::open(&arguments, options),
        Command::Truncate(arguments) => truncate::open(&arguments, options),
        Command::Fallocate(arguments) => fallocate::open(&arguments, options),
        Command::Setfacl(arguments) => setfacl::open(&arguments, options),
        Command::Setfattr(arguments) => setfattr::open(&arguments, options),
        Command::Fstrim(arguments) => fstrim::open(&arguments, options),
        Command::Label(arguments) => label::open(&arguments, options),
        Command::Growfs(arguments) => growfs::open(&arguments, options),
        Command::Uuid(arguments) => uuid::open(&arguments, options),
        Command::Completions(arguments) => Ok(completions::open(&arguments)),
        Command::Man(arguments) => man::open(&arguments),
        Command::Dump(arguments) => dump::open(&arguments, options),
        Command::Scan(arguments) => scan::open(&arguments, options),
        Command::Log(arguments) => log::open(&arguments, options),
        Command::Recover(arguments) => recover::open(&arguments, options),
        Command::Mkfs(arguments) => mkfs::open(*arguments, options),
        Command::Mount(arguments) => mount::open(arguments, options),
        Command::Umount(arguments) => umount::open(arguments),
        Command::Mounts(arguments) => Ok(mounts::open(arguments)),
        Command::Complete(arguments) => Ok(complete::open(&arguments)),
        Command::Stats(arguments) => stats::open(arguments),
        Command::Bench(arguments) => bench::open(*arguments),
    }
}
