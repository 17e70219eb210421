//! Dispatch of a command line to its command, and the two steps of every command.
//!
//! First [`open`] opens everything that the command needs: images, devices, output files, tables of
//! the host. Then [`Run::run`] does the work and opens nothing more. Between these two steps, the
//! process gives up its rights, so that it has none when it begins to interpret an image.

#[cfg(feature = "bench")]
use crate::bench;
use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::run::Run;
use crate::{edit, export, import, inspect, mount, quota, shell, volume};

/// Opens everything that the command line names, and returns the command, ready to run.
pub(crate) fn open(cli: Cli) -> Result<Box<dyn Run>, Failure> {
    let options = &cli.global;
    match cli.command {
        Command::Info(arguments) => inspect::info::open(arguments, options),
        Command::Extents(arguments) => inspect::extents::open(arguments, options),
        Command::Ls(arguments) => inspect::ls::open(arguments, options),
        Command::Tree(arguments) => inspect::tree::open(arguments, options),
        Command::Stat(arguments) => inspect::stat::open(arguments, options),
        Command::Cat(arguments) => export::cat::open(&arguments, options),
        Command::Readlink(arguments) => inspect::readlink::open(&arguments, options),
        Command::Getfacl(arguments) => inspect::getfacl::open(arguments, options),
        Command::Getfattr(arguments) => inspect::getfattr::open(arguments, options),
        Command::Find(arguments) => inspect::find::open(&arguments, options),
        Command::Du(arguments) => inspect::du::open(arguments, options),
        Command::Parents(arguments) => inspect::parents::open(&arguments, options),
        Command::Cp(arguments) => export::cp::open(&arguments, options),
        Command::Tar(arguments) => export::tar::open(&arguments, options),
        Command::Salvage(arguments) => export::salvage::open(arguments, options),
        Command::Put(arguments) => import::put::open(&arguments, options),
        Command::Edit(arguments) => edit::edit::open(&arguments, options),
        Command::Get(arguments) => export::get::open(arguments, options),
        Command::Import(arguments) => import::import::open(&arguments, options),
        Command::Mkdir(arguments) => edit::mkdir::open(&arguments, options),
        Command::Rm(arguments) => edit::rm::open(&arguments, options),
        Command::Mv(arguments) => edit::mv::open(&arguments, options),
        Command::Ln(arguments) => edit::ln::open(arguments, options),
        Command::Chmod(arguments) => edit::chmod::open(arguments, options),
        Command::Chown(arguments) => edit::chown::open(&arguments, options),
        Command::Touch(arguments) => edit::touch::open(&arguments, options),
        Command::Truncate(arguments) => edit::truncate::open(&arguments, options),
        Command::Fallocate(arguments) => edit::fallocate::open(&arguments, options),
        Command::Setfacl(arguments) => edit::setfacl::open(&arguments, options),
        Command::Setfattr(arguments) => edit::setfattr::open(&arguments, options),
        Command::Fstrim(arguments) => volume::fstrim::open(&arguments, options),
        Command::Zap(arguments) => volume::zap::open(&arguments, options),
        Command::Label(arguments) => volume::label::open(&arguments, options),
        Command::Growfs(arguments) => volume::growfs::open(&arguments, options),
        Command::Shrink(arguments) => volume::shrink::open(&arguments, options),
        Command::Uuid(arguments) => volume::uuid::open(&arguments, options),
        Command::Completions(arguments) => Ok(shell::completions::open(&arguments)),
        Command::Man(arguments) => shell::man::open(&arguments),
        Command::Dump(arguments) => inspect::dump::open(&arguments, options),
        Command::Diff(arguments) => inspect::diff::open(&arguments, options),
        Command::Scan(arguments) => inspect::scan::open(&arguments, options),
        Command::Check(arguments) => inspect::check::open(arguments, options),
        Command::Quota(arguments) => quota::open(arguments, options),
        Command::Log(arguments) => inspect::log::open(&arguments, options),
        Command::Recover(arguments) => volume::recover::open(&arguments, options),
        Command::Metadump(arguments) => volume::metadump::open(arguments, options),
        Command::Mdrestore(arguments) => volume::mdrestore::open(&arguments, options),
        Command::Repair(arguments) => volume::repair::open(arguments, options),
        Command::Mkfs(arguments) => volume::mkfs::open(*arguments, options),
        Command::Build(arguments) => volume::build::open(&arguments, options),
        Command::Mount(arguments) => mount::mount::open(arguments, options),
        Command::Run(arguments) => mount::run::open(arguments, options),
        Command::Umount(arguments) => mount::umount::open(arguments),
        Command::Mounts(arguments) => Ok(mount::mounts::open(arguments)),
        Command::Complete(arguments) => Ok(shell::complete::open(&arguments)),
        Command::Stats(arguments) => mount::stats::open(arguments),
        Command::Serve(arguments) => mount::nfs::open(arguments, options),
        #[cfg(feature = "bench")]
        Command::Bench(arguments) => bench::open(*arguments),
    }
}
