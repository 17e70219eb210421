//! Tests of work on trees of a mount, compared with the kernel, and of the commands about mounts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xfs_oracle::harness::TrialError;
use xfs_oracle::populate;

use crate::mounted::{
    Mounted, Stopped, await_end, await_mount, ferroxfs, mounted, run, said, volume,
};

/// The tree that is copied: some thousand small files, directories and links.
const TREE: &str = "/usr/share/perl";
/// How long the server may take to free removed files.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn tree_is_copied_there_and_back() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let (there, back) = (volume.at("tree"), volume.outside("back"));
    run(Command::new("cp").arg("-a").arg(TREE).arg(&there));
    run(Command::new("diff").args(["-r", "--no-dereference", TREE]).arg(&there));
    volume.unmount();
    volume.mount("ro");
    run(Command::new("diff").args(["-r", "--no-dereference", TREE]).arg(&there));
    run(Command::new("cp").arg("-a").arg(&there).arg(&back));
    assert_eq!(listing(Path::new(TREE)), listing(&back));
    volume.check()
}

/// Returns a line for each file below a folder: name, type, mode, owner, time and link target.
fn listing(folder: &Path) -> String {
    let format = "%P %y %m %U:%G %T@ %l\n";
    let list = run(Command::new("find").arg(folder).args(["-printf", format]));
    let mut lines: Vec<_> = list.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns the output of stat(1) for each file below a folder, without values in which two mounts
/// may differ.
fn shown(folder: &Path) -> String {
    // Only the names of attributes: some values are longer than a line should be.
    let format = "%n %f %h %u %g %s %b %t:%T %x %y %z %w\n";
    let mut stat = Command::new("find");
    stat.arg(".").args(["-exec", "stat", "--printf", format, "{}", "+"]);
    let mut lines: Vec<_> = run(stat.current_dir(folder)).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines.join("\n")
}

pub(crate) fn tree_made_by_the_kernel_is_shown() -> Result<(), TrialError> {
    let mut volume = volume("parent-exchange")?;
    let kernel = volume.image.mount(&["noatime"])?;
    populate(kernel.path(), 7)?;
    kernel.unmount()?;
    let kernel = volume.image.mount(&["ro"])?;
    let expected = shown(kernel.path());
    kernel.unmount()?;
    volume.mount("ro");
    let ours = shown(&volume.path());
    let differences: Vec<_> =
        expected.lines().zip(ours.lines()).filter(|(kernel, ours)| kernel != ours).collect();
    assert!(differences.is_empty(), "{:#?}", &differences[..differences.len().min(10)]);
    assert_eq!(expected.lines().count(), ours.lines().count());
    volume.check()
}

pub(crate) fn overlayfs_works_over_a_mount() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::create_dir(volume.at("folder")).unwrap();
    fs::write(volume.at("folder/file"), "lower").unwrap();
    volume.unmount();
    for options in ["ro", "rw"] {
        volume.mount(options);
        lay_over(&volume);
        volume.unmount();
    }
    volume.check()
}

fn lay_over(volume: &Mounted) {
    // The upper layer is on a tmpfs, and the mount disappears with the program that makes it.
    let top = volume.outside("top");
    fs::create_dir_all(&top).unwrap();
    let script = "set -e; mount -t tmpfs none \"$1\"; cd \"$1\"; mkdir upper work merged
        mount -t overlay -o lowerdir=\"$2\",upperdir=upper,workdir=work none merged
        test \"$(cat merged/folder/file)\" = lower
        echo upper > merged/folder/file; rm -r merged/folder; test ! -e merged/folder";
    let mut unshare = Command::new("unshare");
    run(unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(&top).arg(volume.path()));
    assert_eq!(fs::read(volume.at("folder/file")).unwrap(), b"lower");
}

/// Checks that the program works as a helper of mount(8), which calls it for an entry of fstab.
pub(crate) fn mount_calls_the_helper() -> Result<(), TrialError> {
    let volume = volume("default")?;
    let helper = volume.outside("mount.fuse.ferroxfs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferroxfs"), &helper).unwrap();
    let mut mount = Command::new(&helper);
    run(mount.arg(&volume.image.data).arg(volume.path()).args([
        "-n",
        "-o",
        "rw,noatime,dev,nosymfollow",
    ]));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(volume.path().to_str().unwrap()));
    assert!(line.unwrap().contains(" fuse.ferroxfs rw,nosuid,"), "{line:?}");
    assert!(line.unwrap().contains(",nosymfollow"), "{line:?}");
    // As mount(8) asks for it: with all options that the mount shows.
    let remount = |how: &str| {
        let shown = format!("{how},relatime,user_id=0,group_id=0,default_permissions,remount");
        let mut mount = Command::new(&helper);
        mount.arg(&volume.image.data).arg(volume.path()).args(["-o", &shown]).output().unwrap()
    };
    let write = || fs::write(volume.at("file"), "contents");
    write().unwrap();
    // A change elsewhere than in the root, which is clean itself.
    fs::create_dir(volume.at("folder")).unwrap();
    File::open(volume.path()).unwrap().sync_all().unwrap();
    fs::write(volume.at("folder/file"), "written").unwrap();
    let output = remount("ro");
    assert!(output.status.success(), "{}", said(&output));
    let copy = volume.outside("copy.xfs");
    fs::copy(&volume.image.data, &copy).unwrap();
    let kept = run(ferroxfs(&["cat"]).arg(format!("{}:/folder/file", copy.display())));
    assert_eq!(kept, "written");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(volume.path().to_str().unwrap()));
    assert!(line.unwrap().contains(" fuse.ferroxfs ro,nosuid,relatime"), "dev stays: {line:?}");
    assert!(line.unwrap().contains(",nosymfollow"), "that too: {line:?}");
    assert_eq!(write().unwrap_err().raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    let mut label = Command::new("xfs_io");
    let labelled = label.args(["-x", "-c", "label -s late"]).arg(volume.path()).output().unwrap();
    assert!(said(&labelled).contains("Read-only"), "{labelled:?}");
    let output = remount("rw");
    assert!(output.status.success(), "{}", said(&output));
    write().unwrap();
    run(ferroxfs(&["umount"]).arg(volume.path()));
    run(&mut volume.mount_command("ro"));
    let output = remount("rw");
    let text = said(&output);
    assert!(!output.status.success() && text.contains("is open for reading only"), "{text}");
    run(ferroxfs(&["umount"]).arg(volume.path()));
    volume.check()
}

/// Checks that mount(8) itself passes the options suid and dev on. It passes on only options that
/// it does not consider defaults.
pub(crate) fn mount_passes_on_suid_and_dev() -> Result<(), TrialError> {
    let volume = volume("default")?;
    // Only in this namespace the helper is where mount(8) looks for it.
    let script = r#"set -e
        mount -t tmpfs none /mnt; mkdir /mnt/upper /mnt/work
        ln -s "$1" /mnt/upper/mount.fuse.ferroxfs
        programs=$(readlink -f /sbin)
        mount -t overlay -o lowerdir=$programs,upperdir=/mnt/upper,workdir=/mnt/work none $programs
        shown() { grep -F " $place " /proc/self/mountinfo | cut -d " " -f 6; }
        place=$3
        mount -t fuse.ferroxfs -o allow_suid,allow_dev "$2" "$3"
        trap '"$1" umount "$3"' EXIT
        test "$(shown)" = rw,relatime
        mount -o remount,nosuid "$3"; test "$(shown)" = rw,nosuid,relatime
        mount -o remount,nodev "$3"; test "$(shown)" = rw,nosuid,nodev,relatime
        mount -o remount,allow_suid,allow_dev "$3"; test "$(shown)" = rw,relatime"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-xc", script, "sh", env!("CARGO_BIN_EXE_ferroxfs")]);
    run(unshare.arg(&volume.image.data).arg(volume.path()));
    volume.check()
}

/// Checks that `umount` accepts a symbolic link to the folder of a mount, as umount(8) does. The
/// mount was made through the same link.
pub(crate) fn link_to_a_mount_is_unmounted() -> Result<(), TrialError> {
    let volume = volume("default")?;
    let link = volume.outside("link");
    std::os::unix::fs::symlink(volume.path(), &link).unwrap();
    for lazily in [false, true] {
        run(ferroxfs(&["mount"]).arg(&volume.image.data).arg(&link));
        fs::write(volume.at("file"), "contents").unwrap();
        let server = volume.server();
        let lazy = lazily.then_some("--lazy");
        run(ferroxfs(&["umount"]).args(lazy).arg(&link));
        assert!(!xfs_fuse::is_mount_point(&volume.path()), "lazily: {lazily}");
        // A lazy unmount does not wait until the image is closed.
        await_end(&server);
    }
    volume.check()
}

pub(crate) fn cached_inodes_are_bounded() -> Result<(), TrialError> {
    let volume = mounted("rw,cache=1M")?;
    for index in 0..6000 {
        File::create(volume.at(&format!("file{index}"))).unwrap();
    }
    let text = run(ferroxfs(&["stats", "--prometheus"]).arg(volume.path()));
    let mut lines = text.lines();
    let kept = lines.find_map(|line| line.strip_prefix("ferroxfs_inodes_in_memory ")).unwrap();
    // 128, and the inodes that each processor has not counted yet.
    assert!(kept.parse::<u64>().unwrap() < 4000, "{kept} of 6000 inodes are kept");
    volume.check()
}

pub(crate) fn free_space_is_given_back() -> Result<(), TrialError> {
    const BYTES: usize = 8 << 20;
    let volume = mounted("rw")?;
    let path = volume.at("file");
    fs::write(&path, vec![b'x'; BYTES]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let taken = || fs::metadata(&volume.image.data).unwrap().blocks() * 512;
    let before = taken();
    fs::remove_file(&path).unwrap();
    File::open(volume.path()).unwrap().sync_all().unwrap();
    // Removed files are freed in the background, and the log takes blocks of the image meanwhile.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = run(Command::new("fstrim").arg("-v").arg(volume.path()));
        assert!(said.contains("trimmed"), "{said}");
        if taken() + BYTES as u64 / 2 <= before {
            break;
        }
        assert!(Instant::now() < deadline, "{} of {before} bytes are left", taken());
        std::thread::sleep(Duration::from_millis(50));
    }
    let beyond = Command::new("fstrim").args(["-o", "1E"]).arg(volume.path()).output().unwrap();
    assert!(!beyond.status.success());
    volume.check()
}

pub(crate) fn figures_are_shown() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::write(volume.at("large"), vec![1; 100_000]).unwrap();
    volume.unmount();
    volume.mount("rw");
    fs::read(volume.at("large")).unwrap();
    fs::write(volume.at("file"), "contents").unwrap();
    let table = run(ferroxfs(&["stats"]).arg(volume.path()));
    assert!(table.lines().any(|line| line.starts_with("create ")), "{table}");
    assert!(table.lines().any(|line| line.starts_with("commits ")), "{table}");
    let text = run(ferroxfs(&["stats", "--prometheus"]).arg(volume.path()));
    assert!(text.contains("ferroxfs_request_seconds_count{request=\"write\"} 1\n"), "{text}");
    assert!(text.contains("\nferroxfs_written_bytes_total 8\n"), "{text}");
    assert!(text.contains("\nferroxfs_read_bytes_total 100000\n"), "{text}");
    for figure in [
        "commits",
        "checkpoints",
        "log_forces",
        "log_space_waits",
        "write_back_pinned",
        "map_insertions",
        "empty_transactions",
    ] {
        let start = format!("ferroxfs_{figure}_total ");
        assert!(text.lines().any(|line| line.starts_with(&start)), "{figure}: {text}");
    }
    for gauge in ["gathered_items", "unplaced_items", "remembered_absent_names"] {
        let start = format!("ferroxfs_{gauge} ");
        assert!(text.lines().any(|line| line.starts_with(&start)), "{gauge}: {text}");
    }
    // On a terminal each table replaces the previous one; elsewhere they follow each other.
    let program =
        format!("{} stats --watch {}", env!("CARGO_BIN_EXE_ferroxfs"), volume.path().display());
    let mut terminal = Command::new("script");
    terminal
        .args(["-q", "-e", "-c", &program, "/dev/null"])
        .env("TERM", "xterm")
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let drawn = await_output(&mut terminal, "\x1b[Hrequest", 2);
    assert!(drawn.starts_with("\x1b[Hrequest"), "{drawn:?}");
    let mut piped = ferroxfs(&["stats", "--watch"]);
    let printed = await_output(piped.arg(volume.path()).env("TERM", "xterm"), "request ", 2);
    assert!(!printed.contains('\x1b'), "{printed:?}");
    let elsewhere = ferroxfs(&["stats", "/"]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(1), "/ is no mount of ours");
    volume.check()
}

/// The limit on the output of a command, in bytes. A few tables of figures are shorter.
const MOST_PRINTED: usize = 20_000;

/// Runs a command until its output contains a text this number of times, and then ends it. Returns
/// the output.
fn await_output(command: &mut Command, text: &str, times: usize) -> String {
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = running.stdout.take().unwrap();
    let (mut printed, mut buffer) = (Vec::new(), [0; 4096]);
    while String::from_utf8_lossy(&printed).matches(text).count() < times {
        let length = stdout.read(&mut buffer).unwrap();
        let so_far = String::from_utf8_lossy(&printed);
        assert!(length > 0 && printed.len() < MOST_PRINTED, "{text:?} is missing: {so_far:?}");
        printed.extend_from_slice(&buffer[..length]);
    }
    drop(stdout);
    // `timeout` passes this signal on, unlike SIGKILL.
    run(Command::new("kill").arg(running.id().to_string()));
    running.wait().unwrap();
    String::from_utf8(printed).unwrap()
}

pub(crate) fn figures_are_served() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::write(volume.at("file"), "contents").unwrap();
    let elsewhere = ferroxfs(&["stats", "--prometheus", "--listen", "127.0.0.1:0", "/"]).output();
    assert_eq!(elsewhere.unwrap().status.code(), Some(1), "/ is no mount of ours");
    let mut stats = ferroxfs(&["stats", "--prometheus", "--listen", "127.0.0.1:0"]);
    let mut serving = stats.arg(volume.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut place = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut place).unwrap();
    let served = figures_at(&place);
    let stopped = Stopped::new(volume.server());
    let still = [served_at(&place), served_at(&place)];
    drop(stopped);
    volume.unmount();
    let gone = served_at(&place);
    // `timeout` passes it on.
    run(Command::new("kill").arg(serving.id().to_string()));
    serving.wait().unwrap();
    assert!(served.starts_with("HTTP/1.1 200 OK\r\n"), "{place}: {served}");
    assert!(served.contains("ferroxfs_request_seconds_count{request=\"write\"} 1\n"), "{served}");
    for refused in still.into_iter().chain([gone]) {
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    }
    volume.check()
}

/// Returns the figures that are served at this address. On a busy machine the server may answer
/// that they are late (503), so the request is repeated for a while.
fn figures_at(place: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = served_at(place);
        if !text.starts_with("HTTP/1.1 503 ") || Instant::now() > end {
            return text;
        }
    }
}

/// Requests the figures at this address over HTTP, and returns the answer. On a busy machine the
/// request may be too late for an answer, so it is repeated for a while.
fn served_at(place: &str) -> String {
    let host = place.trim().trim_start_matches("http://").trim_end_matches("/metrics");
    let ask = || {
        let mut stream = TcpStream::connect(host)?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let end = Instant::now() + PATIENCE;
    loop {
        let text = ask().unwrap_or_else(|error| error.to_string());
        if text.starts_with("HTTP/") || Instant::now() > end {
            return text;
        }
    }
}

pub(crate) fn verbose_mount_logs_its_work() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let mut serve = ferroxfs(&["mount", "-f", "-vvv"]);
    serve.arg(&volume.image.data).arg(volume.path()).stderr(Stdio::piped());
    let serving = serve.spawn().unwrap();
    await_mount(&volume.path());
    let file = File::create(volume.at("file")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    run(ferroxfs(&["umount"]).arg(volume.path()));
    let told = String::from_utf8(serving.wait_with_output().unwrap().stderr).unwrap();
    for span in [" opened in ", "of=\"create\"", " commit took ", " log_force ", " closed in "] {
        assert!(told.contains(span), "{span}: {told}");
    }
    volume.check()
}

/// Checks that a mount serves with fewer threads if the system refuses to start more. Each thread
/// takes a GiB of address space for its stack, and the test raises the limit on address space from
/// mount to mount.
pub(crate) fn mount_serves_with_the_available_threads() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::write(volume.at("file"), "contents").unwrap();
    volume.unmount();
    let (mut refused, mut served) = (0, Vec::new());
    for limit_gib in 1..16_u64 {
        let mut mount = Command::new("sh");
        let words = format!("ulimit -v {}; exec \"$@\"", limit_gib << 20);
        mount.args(["-c", &words, "sh", env!("CARGO_BIN_EXE_ferroxfs"), "mount"]);
        mount.args(["-o", "ro,threads=4"]).arg(&volume.image.data).arg(volume.path());
        let output = mount.env("RUST_MIN_STACK", (1 << 30).to_string()).output().unwrap();
        if output.status.success() {
            assert_eq!(fs::read(volume.at("file")).unwrap(), b"contents");
            let server = Path::new("/proc").join(volume.server());
            served.push(fs::read_dir(server.join("task")).unwrap().count());
            run(ferroxfs(&["umount"]).arg(volume.path()));
        } else {
            let text = said(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains("threads") && !text.contains("panicked"), "{text}");
            refused += 1;
        }
    }
    // The first thread, the one for signals, and the workers.
    assert!(served.contains(&3) && served.ends_with(&[6]), "{served:?}");
    assert!(refused > 0 && served.is_sorted(), "{served:?}");
    volume.check()
}

pub(crate) fn mount_continues_when_standard_error_is_closed() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let mut serve = ferroxfs(&["mount", "-f", "-vvv"]);
    serve.arg(&volume.image.data).arg(volume.path()).stderr(Stdio::piped());
    let mut serving = serve.spawn().unwrap();
    await_mount(&volume.path());
    drop(serving.stderr.take());
    File::create(volume.at("file")).unwrap().sync_all().unwrap();
    run(ferroxfs(&["umount"]).arg(volume.path()));
    assert!(serving.wait().unwrap().success(), "the mount did not end well");
    volume.check()
}
