//! The options of the commands that fill an image: which files are copied, and what they get.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

/// Which files are copied, and the properties that they get
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options for files")]
pub(crate) struct PolicyOptions {
    /// Leave out files that match PATTERN, and what is below them; a pattern with a slash starts at
    /// the top of the source, ** stands for any directories
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<OsString>,
    /// Copy only files that match a pattern in FILE, one in each line, and what is below them
    #[arg(long, value_name = "FILE")]
    pub(crate) include_from: Vec<PathBuf>,
    /// Give all files to USER and GROUP, by number, or by a name of this host, of --passwd and
    /// --group, or of the image
    #[arg(long, value_name = "USER:GROUP", conflicts_with = "all_root")]
    pub(crate) owner: Option<OsString>,
    /// Look up the user of --owner in FILE, in the format of /etc/passwd
    #[arg(long, value_name = "FILE", requires = "owner")]
    pub(crate) passwd: Option<PathBuf>,
    /// Look up the group of --owner in FILE, in the format of /etc/group
    #[arg(long, value_name = "FILE", requires = "owner")]
    pub(crate) group: Option<PathBuf>,
    /// Look up the names of --owner in /etc/passwd and /etc/group that the image will have. The
    /// sources are read once more, so they must not come from a pipe
    #[arg(long, requires = "owner", conflicts_with_all = ["passwd", "group"])]
    pub(crate) passwd_from_image: bool,
    /// Change the ids of users and groups from FROM to TO, for COUNT ids that follow each other; in
    /// access control lists too
    #[arg(long, value_name = "FROM:TO[:COUNT]", conflicts_with = "all_root")]
    pub(crate) chown_map: Vec<String>,
    /// Change modes as chmod(1) does, of all files or of those that match PATTERN: u=rwX,go=rX or
    /// 600:etc/shadow
    #[arg(long, value_name = "MODE[:PATTERN]", allow_hyphen_values = true)]
    pub(crate) mode: Vec<OsString>,
    /// Give all files this modification time in seconds since 1970; "clamp" keeps times that are
    /// not later than SOURCE_DATE_EPOCH
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) mtime: Option<String>,
    /// Label all files for SELinux by this file of contexts
    #[arg(long, value_name = "FILE")]
    pub(crate) selinux_file_contexts: Option<PathBuf>,
    /// Put DIR of the image, and all files below it, into PROJECT, a number or a name of
    /// /etc/projid; new files in the directories inherit it. "/=PROJECT" means all files. A file
    /// with several names gets the project of the first one
    #[arg(long, value_name = "DIR=PROJECT")]
    pub(crate) project: Vec<OsString>,
    /// The platform of a container image: OS/ARCHITECTURE[/VARIANT]
    #[arg(long, value_name = "PLATFORM")]
    pub(crate) platform: Option<String>,
    /// The directory that holds the contents of large files of a dump of composefs
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) composefs_objects: Option<PathBuf>,
}

impl PolicyOptions {
    /// Returns whether `--owner` gives a user, and a group, that is no number.
    pub(crate) fn names_of_owner(&self) -> (bool, bool) {
        let owner = self.owner.as_deref().unwrap_or_default().as_bytes();
        let mut parts = owner.splitn(2, |byte| *byte == b':');
        let mut is_name = || {
            let part = parts.next().unwrap_or_default();
            !part.iter().all(u8::is_ascii_digit)
        };
        (is_name(), is_name())
    }

    /// Returns the name of the first of these options that the command line gives; `None` if it
    /// gives none.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--exclude", !self.exclude.is_empty()),
            ("--include-from", !self.include_from.is_empty()),
            ("--owner", self.owner.is_some()),
            ("--passwd", self.passwd.is_some()),
            ("--group", self.group.is_some()),
            ("--passwd-from-image", self.passwd_from_image),
            ("--chown-map", !self.chown_map.is_empty()),
            ("--mode", !self.mode.is_empty()),
            ("--mtime", self.mtime.is_some()),
            ("--selinux-file-contexts", self.selinux_file_contexts.is_some()),
            ("--project", !self.project.is_empty()),
            ("--platform", self.platform.is_some()),
            ("--composefs-objects", self.composefs_objects.is_some()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}
