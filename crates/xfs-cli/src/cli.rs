//! The command line as clap sees it: every command, its arguments and its help.
//!
//! Owns: the definitions from which parsing, help, man pages, reference pages and completions are
//! made. Does **not** own: the work of the commands, or the expressions of `find`. The expressions
//! keep the single-dash words of find(1), and [`crate::inspect::predicate`] parses them.

#[cfg(feature = "bench")]
mod bench;
mod build;
mod diff;
mod disk;
mod edit;
mod export;
mod import;
mod inspect;
mod ls;
mod manual;
mod metadump;
mod mkfs;
mod mount;
pub(crate) mod options;
mod parsing;
mod policy;
mod quota;
mod scan;
mod serve;
mod shell;
mod structures;
pub(crate) mod suggestions;
mod volume;

use clap::{Parser, Subcommand};

#[cfg(feature = "bench")]
pub(crate) use bench::BenchArguments;
pub(crate) use build::BuildArguments;
pub(crate) use diff::{DiffArguments, DiffFormatName};
pub(crate) use disk::{CompressionName, DiskKind, DiskOptions, ImageFormat};
pub(crate) use edit::{
    ChmodArguments, ChownArguments, EditArguments, FallocateArguments, LnArguments, MkdirArguments,
    MvArguments, RmArguments, SetfaclArguments, SetfattrArguments, TouchArguments,
    TruncateArguments,
};
pub(crate) use export::{CatArguments, CpArguments, GetArguments, SalvageArguments, TarArguments};
pub(crate) use import::{ArchiveOptions, ImportArguments, PutArguments};
pub(crate) use inspect::{
    CheckArguments, DuArguments, ExtentsArguments, FindArguments, GetfaclArguments,
    GetfattrArguments, InfoArguments, ParentsArguments, ReadlinkArguments, StatArguments,
    TreeArguments, ValueEncoding,
};
pub(crate) use ls::LsArguments;
pub(crate) use manual::{pages, reference, with_manual};
pub(crate) use metadump::{MdrestoreArguments, MetadumpArguments, MetadumpFormat};
pub(crate) use mkfs::MkfsArguments;
pub(crate) use mount::{
    MountArguments, MountsArguments, RunArguments, StatsArguments, UmountArguments,
};
pub(crate) use options::{GlobalOptions, ListOptions, Verbosity};
pub(crate) use parsing::{command_word, parse, with_shared_options};
pub(crate) use policy::PolicyOptions;
pub(crate) use quota::{
    QuotaArguments, QuotaCheckArguments, QuotaCommand, QuotaProjectArguments, QuotaReportOptions,
    QuotaSetArguments, QuotaTypeOptions,
};
pub(crate) use scan::{ScanArguments, ScanFormat, ScanHash, ScanKey};
pub(crate) use serve::{NfsArguments, ServeArguments, ServeProtocol};
pub(crate) use shell::{CompleteArguments, CompletionsArguments, ManArguments, ManFormat};
pub(crate) use structures::{DumpArguments, DumpBtree, DumpStructure, LogArguments};
pub(crate) use volume::{
    FstrimArguments, GrowfsArguments, LabelArguments, RecoverArguments, RepairArguments,
    ShrinkArguments, UuidArguments, ZapArguments,
};

/// Read, check and change XFS images without mounting them.
///
/// Write a path inside an image as IMAGE:/path. ferroxfs splits it at the first ":/"; if that
/// splits the name of the image, use --image IMAGE PATH instead. IMAGE alone means its root
/// directory.
#[derive(Debug, Parser)]
#[command(name = "ferroxfs", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether `--json` was given to the command.
    #[arg(skip)]
    json: bool,
}

impl Cli {
    /// Returns how much the run prints in addition to its output.
    pub(crate) const fn verbosity(&self) -> Verbosity {
        Verbosity { is_quiet: self.global.quiet || self.global.logs_requests(), is_json: self.json }
    }
}

const EXIT_CODES: &str = "\
Exit codes: 0 fine; 1 failed; 2 usage; 3 refused by name; 4 log dirty; 5 corrupt;
129, 130, 143 stopped by a signal; 141 output pipe closed. check and repair have the
codes of fsck(8); diff has those of diff(1): 1 different, 2 failed or usage.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(InfoArguments),
    Ls(LsArguments),
    Tree(TreeArguments),
    Stat(StatArguments),
    Cat(CatArguments),
    Readlink(ReadlinkArguments),
    Getfacl(GetfaclArguments),
    Getfattr(GetfattrArguments),
    Find(FindArguments),
    Du(DuArguments),
    Extents(ExtentsArguments),
    Parents(ParentsArguments),
    Cp(CpArguments),
    Tar(TarArguments),
    Salvage(SalvageArguments),
    Put(PutArguments),
    Edit(EditArguments),
    Get(GetArguments),
    Import(ImportArguments),
    Mkdir(MkdirArguments),
    Rm(RmArguments),
    Mv(MvArguments),
    Ln(LnArguments),
    Chmod(ChmodArguments),
    Chown(ChownArguments),
    Touch(TouchArguments),
    Truncate(TruncateArguments),
    Fallocate(FallocateArguments),
    Setfacl(SetfaclArguments),
    Setfattr(SetfattrArguments),
    Fstrim(FstrimArguments),
    Zap(ZapArguments),
    Label(LabelArguments),
    Uuid(UuidArguments),
    Growfs(GrowfsArguments),
    Shrink(ShrinkArguments),
    Dump(DumpArguments),
    Log(LogArguments),
    Check(CheckArguments),
    Quota(QuotaArguments),
    Recover(RecoverArguments),
    Metadump(MetadumpArguments),
    Mdrestore(MdrestoreArguments),
    Repair(RepairArguments),
    Mkfs(Box<MkfsArguments>),
    Build(BuildArguments),
    Mount(MountArguments),
    Run(RunArguments),
    Umount(UmountArguments),
    Mounts(MountsArguments),
    Stats(StatsArguments),
    Serve(ServeArguments),
    Scan(Box<ScanArguments>),
    Diff(Box<DiffArguments>),
    #[cfg(feature = "bench")]
    Bench(Box<BenchArguments>),
    Completions(CompletionsArguments),
    #[command(hide = true)]
    Complete(CompleteArguments),
    Man(ManArguments),
}
