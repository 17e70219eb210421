//! The scenes of the demo, in order. Each scene checks what it shows.

use std::fs;
use std::path::Path;

use super::Demo;
use crate::command;
use crate::error::Error;
use crate::oracles;

/// A function that plays one part of the demo and checks the result.
type Scene = fn(&mut Demo) -> Result<(), Error>;

/// Every scene, with its name in the summary. A scene comes after the scenes whose volumes it uses.
pub(super) const ALL: [(&str, Scene); 5] =
    [("build", build), ("mount", mount), ("scan", scan), ("recover", recover), ("damage", damage)];

/// Number of inodes of the large volume: 1000 directories with 1000 symbolic links each, and the
/// root. They are symbolic links, because mkfs opens a file of the host for each regular file,
/// which takes twice the time.
const INODES: u64 = 1_001_001;
/// A shell command that writes a prototype file for mkfs.xfs with `INODES` inodes.
const PROTOTYPE: &str = r#"awk 'BEGIN { print "x\n0 0\nd--755 0 0"; while (d++ < 1000) {
  print "d" d " d--755 0 0"; for (n = 1; n <= 1000; n++) print "n" n " l--777 0 0 target"
  print "$" } print "$" }' > million.proto"#;
/// Number of inodes that must be durable before the scene `recover` kills the copying program: a
/// directory, and the links in it.
const DURABLE: u64 = 1001;
/// Exit status of a shell whose command was ended by SIGKILL.
const KILLED: i32 = 128 + 9;
/// Exit status with which `ferroxfs` reports a corrupt image.
const CORRUPT: i32 = 5;

/// Makes one volume from a file tree and another from a copy of the tree, and lists one of them.
/// Checks that both are equal byte for byte, although the inode numbers and the order of names
/// differ between the trees.
fn build(demo: &mut Demo) -> Result<(), Error> {
    demo.screen.title("1. Build an image from a directory. The same files give the same bytes.");
    demo.shell("mkdir -p tree/etc tree/home/ada tree/srv/www; ln -s ../srv/www tree/etc/web")?;
    demo.shell("echo '<h1>It works</h1>' > tree/srv/www/index.html; truncate -s 1G tree/srv/hole")?;
    demo.shell("seq 900000 > tree/home/ada/numbers; cp -a tree copy")?;
    for (tree, image) in [("tree", "disk.xfs"), ("copy", "again.xfs")] {
        demo.shell(&format!(
            "SOURCE_DATE_EPOCH=1700000000 ferroxfs mkfs -q -d size=300m --from {tree} {image}"
        ))?;
    }
    demo.shell("cmp disk.xfs again.xfs")?;
    let listed = demo.shell("ferroxfs tree disk.xfs")?.text();
    demo.screen.output(&listed);
    if !listed.contains("index.html") || !listed.contains("5 directories, 4 files") {
        return Err(Error::Demo(format!("the image has other files: {listed}")));
    }
    demo.came_out("two images of 300 MiB, equal byte for byte");
    Ok(())
}

/// Makes a volume of a million inodes and lists all of them with `ferroxfs scan`.
fn scan(demo: &mut Demo) -> Result<(), Error> {
    demo.screen.title("3. Scan it: a million inodes become a table, with their paths.");
    demo.shell(PROTOTYPE)?;
    demo.shell("ferroxfs mkfs -q -d size=2g -p million.proto million.xfs")?;
    let scanned = demo.shell("ferroxfs scan --format parquet -o million.parquet million.xfs")?;
    let table = demo.folder.join("million.parquet");
    let table = fs::read(&table).map_err(Error::file(&table))?;
    let counted = metadata_number(&table, b"ferroxfs.inodes");
    if counted != Some(INODES) {
        return Err(Error::Demo(format!("the table has {counted:?} inodes, not {INODES}")));
    }
    let shown = demo.shell("ferroxfs scan --summary million.xfs | head -n 7")?;
    demo.screen.output(&shown.text());
    let seconds = scanned.seconds();
    let rate = INODES as f64 / 1e6 / seconds;
    demo.came_out(&format!(
        "1,001,001 rows in {seconds:.2} s, {rate:.1} million a second, {:.1} MB",
        table.len() as f64 / 1e6
    ));
    Ok(())
}

/// Returns the number under `key` in the footer of a Parquet file, or `None` if the key is missing.
/// The footer holds the key, one byte of type, one byte of length, and the digits.
fn metadata_number(table: &[u8], key: &[u8]) -> Option<u64> {
    let at = table.windows(key.len()).rposition(|window| window == key)?;
    let rest = table.get(at + key.len()..)?;
    let from = rest.iter().take(4).position(u8::is_ascii_digit)?;
    let digits: Vec<u8> =
        rest.get(from..)?.iter().copied().take_while(u8::is_ascii_digit).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Kills `ferroxfs cp` while it copies a million inodes, and recovers the volume. Checks that the
/// recovered volume has the inodes that were durable before the kill.
fn recover(demo: &mut Demo) -> Result<(), Error> {
    demo.screen.title("4. Kill a copy in the middle, and recover.");
    // An xfs_repair of some years does not know the newest features.
    demo.shell("ferroxfs mkfs -q -d size=2g -i exchange=0 -n parent=0 killed.xfs")?;
    demo.shell("ferroxfs cp -r million.xfs:/d1 killed.xfs:/")?;
    let line = "timeout -s KILL 4 ferroxfs cp -r million.xfs:/ killed.xfs:/all";
    let copied = demo.try_shell(line)?;
    if copied.output.status.code() != Some(KILLED) && !was_killed(&copied.output.status) {
        return Err(Error::Command { line: line.to_owned(), status: copied.output.status });
    }
    let recovered = demo.shell("ferroxfs recover killed.xfs")?;
    demo.screen.output(&recovered.text());
    let durable = demo.shell("ferroxfs find killed.xfs:/d1 | wc -l")?.printed();
    let all = demo.shell("ferroxfs find killed.xfs | wc -l")?.printed();
    if durable.parse() != Ok(DURABLE) {
        return Err(Error::Demo(format!("{durable} of {DURABLE} durable inodes are there")));
    }
    demo.screen.output(&format!("{durable} durable, {all} in all"));
    let judgement = judge(demo)?;
    demo.came_out(&format!("all {DURABLE} durable inodes are there; {judgement}"));
    Ok(())
}

fn was_killed(status: &std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}

/// Checks the volume for damage with xfs_repair, and returns its judgement in words. Without
/// xfs_repair on this machine, the words say that it was not asked.
fn judge(demo: &mut Demo) -> Result<&'static str, Error> {
    let unpacked = oracles::program(&demo.root, "xfs_repair");
    if command::is_in_path("xfs_repair") || Path::new("/usr/sbin/xfs_repair").exists() {
        demo.shell("xfs_repair -n killed.xfs > repair.txt 2>&1")?;
    } else if Path::new(unpacked.get_program()).exists() {
        let words = std::iter::once(unpacked.get_program()).chain(unpacked.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        demo.shell(&format!("{} -n killed.xfs > repair.txt 2>&1", words.join(" ")))?;
    } else {
        demo.screen
            .left_out("left out: xfs_repair -n killed.xfs: not installed (package xfsprogs)");
        return Ok("xfs_repair is not here");
    }
    Ok("xfs_repair agrees")
}

/// Changes one byte of the root directory's inode without an update of the checksum. Checks that
/// `ferroxfs` reports the damage.
fn damage(demo: &mut Demo) -> Result<(), Error> {
    demo.screen.title("5. One wrong byte is found and named.");
    demo.shell("printf X | dd of=again.xfs bs=1 seek=65600 conv=notrunc status=none")?;
    let listed = demo.try_shell("ferroxfs ls again.xfs")?;
    let text = listed.text();
    demo.screen.output(&text);
    let is_named = text.contains("inode 128") && text.contains("checksum");
    if listed.output.status.code() != Some(CORRUPT) || text.lines().count() != 1 || !is_named {
        return Err(Error::Demo(format!("a damaged inode gives {}", listed.output.status)));
    }
    demo.came_out("refused with exit code 5, in one line");
    Ok(())
}

/// Mounts a volume, copies files on it with `cp`, and unmounts it, if this user can mount on this
/// machine. Then lists the copied files without the mount.
fn mount(demo: &mut Demo) -> Result<(), Error> {
    demo.screen.title("2. Mount it, and any program works on it.");
    if let Some(reason) = no_mount() {
        demo.left_out("ferroxfs mount disk.xfs mnt", &reason);
        return Ok(());
    }
    demo.shell("mkdir mnt; ferroxfs mount disk.xfs mnt")?;
    let worked =
        demo.shell("cp -r tree/home mnt/copied; cmp tree/home/ada/numbers mnt/copied/ada/numbers");
    demo.shell("ferroxfs umount mnt")?;
    worked?;
    let line = demo.shell("ferroxfs ls -lh disk.xfs:/copied/ada")?;
    demo.screen.output(&line.text());
    demo.came_out("written through the mount, read without it");
    Ok(())
}

/// Returns the reason why this user cannot mount on this machine, or `None` if mounting is
/// possible.
fn no_mount() -> Option<String> {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        return Some(format!("/dev/fuse: {error}"));
    }
    let has_helper = command::is_in_path("fusermount3");
    (!command::is_root() && !has_helper).then(|| "fusermount3 is not installed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::metadata_number;

    #[test]
    fn number_of_a_key_is_read_from_the_footer() {
        let footer =
            b"rows\x0fferroxfs.errors\x18\x010\x00\x18\x0fferroxfs.inodes\x18\x071001001\x00";
        assert_eq!(metadata_number(footer, b"ferroxfs.inodes"), Some(1_001_001));
        assert_eq!(metadata_number(footer, b"ferroxfs.errors"), Some(0));
        assert_eq!(metadata_number(footer, b"ferroxfs.rows"), None);
        assert_eq!(metadata_number(b"ferroxfs.inodes", b"ferroxfs.inodes"), None);
    }
}
