//! Running the blocks of a document in one shell, in an empty directory, as root or as an ordinary
//! user.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use xfs_oracle::OracleError;
use xfs_oracle::harness::TrialError;

/// The user id of an ordinary user, for tests that root runs: on Debian, that of `nobody`.
const ORDINARY_USER: u32 = 65534;
/// The time limit for a document: longer than any document takes on a busy machine.
const TIMEOUT_SECONDS: &str = "600";

/// The script that lets every user open /dev/fuse, in a mount namespace of its own. Only a root
/// user who may make device nodes can run it.
const OPEN_FUSE: &str = "\
mount -t tmpfs -o mode=755 none /mnt
mknod -m 666 /mnt/fuse c 10 229
mount --bind /mnt/fuse /dev/fuse
";

/// The script that runs the blocks, and then unmounts what a failed block has left mounted.
const RUN: &str = r#"
code=0
sh -eux "$1" || code=$?
while read -r _ point kind _; do
    case "$kind $point" in
        "fuse.ferroxfs $PWD/"*) ferroxfs umount --force "$point" || umount -l "$point" ;;
    esac
done < /proc/self/mounts
exit $code
"#;

/// The user that runs the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

impl User {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "as_root",
            Self::Ordinary => "as_an_ordinary_user",
        }
    }
}

/// A folder that holds the built program, and an empty directory for each run.
pub(crate) struct Shell {
    folder: TempDir,
    program: PathBuf,
}

impl Shell {
    /// Copies the program into a folder from which every user may run it.
    pub(crate) fn new(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a mode");
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a directory");
        let copy = programs.join("ferroxfs");
        fs::copy(program, &copy).expect("copies the program");
        Self { folder, program: copy }
    }

    /// Runs shell commands as a user. The error has the last lines of the output.
    pub(crate) fn run(&self, name: &str, commands: &str, user: User) -> Result<(), TrialError> {
        can_be(user)?;
        let directory = self.folder.path().join(name);
        fs::create_dir(&directory).map_err(|error| format!("{name}: {error}"))?;
        let script = self.folder.path().join(format!("{name}.sh"));
        fs::write(&script, commands).map_err(|error| format!("{name}: {error}"))?;
        let output = self.command(&directory, &script, user).output();
        let output = output.map_err(|error| format!("cannot run a shell: {error}"))?;
        let removed = fs::remove_dir_all(&directory);
        if !output.status.success() {
            return Err(TrialError::Failed(format!("{}\n{}", output.status, last_lines(&output))));
        }
        removed.map_err(|error| TrialError::Failed(format!("{}: {error}", directory.display())))
    }

    fn command(&self, directory: &Path, script: &Path, user: User) -> Command {
        let is_other = user == User::Ordinary && is_root();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", TIMEOUT_SECONDS]);
        if is_other {
            chown(directory, Some(ORDINARY_USER), Some(ORDINARY_USER)).expect("an owner");
            let identity = format!("--reuid={ORDINARY_USER} --regid={ORDINARY_USER}");
            let prefix = format!("exec setpriv {identity} --clear-groups --inh-caps=-all");
            let open = if fuse_is_missing().is_none() { OPEN_FUSE } else { "" };
            let script = format!("set -e\n{open}{prefix} sh -c \"$RUN\" sh \"$1\"");
            command.args(["unshare", "--mount", "sh", "-c", &script, "sh"]).env("RUN", RUN);
        } else {
            command.args(["sh", "-c", RUN, "sh"]);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = self.program.parent().unwrap_or(directory).display();
        command.arg(script).current_dir(directory).stdin(Stdio::null());
        command.env("PATH", format!("{programs}:{path}")).env("HOME", directory);
        command.env_remove("SOURCE_DATE_EPOCH");
        command
    }
}

/// Returns an error if this process cannot act as `user`. With this error, the trial is skipped.
pub(crate) fn can_be(user: User) -> Result<(), OracleError> {
    if user == User::Root && !is_root() {
        return Err(OracleError::Unavailable("not root".to_owned()));
    }
    Ok(())
}

/// Returns the reason why `user` cannot mount on this machine; `None` if the user can.
pub(crate) fn cannot_mount(user: User) -> Option<String> {
    if let Some(reason) = fuse_is_missing() {
        return Some(reason);
    }
    let has_helper = Command::new("fusermount3").arg("-V").output().is_ok();
    (user == User::Ordinary && !has_helper).then(|| "fusermount3 is not installed".to_owned())
}

/// Returns the reason why disk images cannot be made and served on this machine; `None` if they
/// can.
pub(crate) fn cannot_serve() -> Option<String> {
    let programs = ["qemu-img", "qemu-nbd"];
    let missing =
        programs.iter().find(|name| Command::new(name).arg("--version").output().is_err());
    missing.map(|name| format!("{name} is not installed"))
}

fn fuse_is_missing() -> Option<String> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    device.err().map(|error| format!("/dev/fuse: {error}"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

fn last_lines(output: &Output) -> String {
    const SHOWN: usize = 20;
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<_> = text.lines().rev().take(SHOWN).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
