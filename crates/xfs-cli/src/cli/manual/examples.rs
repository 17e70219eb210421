//! The table of examples: for each command, example command lines and related man pages.

use super::ManualEntry;

const fn entry(
    name: &'static str,
    examples: &'static [(&'static str, &'static str)],
    see_also: &'static [&'static str],
) -> ManualEntry {
    ManualEntry { name, examples, see_also }
}

pub(super) static EXAMPLES: &[ManualEntry] = &[
    entry(
        "",
        &[
            ("ferroxfs mkfs -d file,size=300m new.img", "make an empty volume in a new file"),
            ("ferroxfs import tree disk.img", "copy a directory of the host into it"),
            ("ferroxfs ls -l disk.img:/etc", "list one of its directories"),
            ("ferroxfs cp -a disk.img:/etc copy", "copy a tree out of it"),
            ("ferroxfs mount disk.img /mnt", "mount it, also as an ordinary user"),
        ],
        &["ferroxfs-mkfs(1)", "ferroxfs-cp(1)", "ferroxfs-mount(1)", "xfs(5)"],
    ),
    entry(
        "info",
        &[
            ("ferroxfs info disk.img", "show size, free space, features and the state of the log"),
            ("ferroxfs info --json disk.img", "the same as JSON"),
            ("ferroxfs info --xfs-info disk.img", "in the form of xfs_info(8)"),
            ("ferroxfs info --mountable-by disk.img", "show which kernels can mount the volume"),
        ],
        &["ferroxfs-dump(1)", "ferroxfs-log(1)", "xfs_info(8)"],
    ),
    entry(
        "ls",
        &[
            ("ferroxfs ls -l disk.img:/etc", "list a directory with owners, sizes and times"),
            ("ferroxfs ls -laR disk.img", "list everything"),
        ],
        &["ferroxfs-tree(1)", "ferroxfs-find(1)", "ls(1)"],
    ),
    entry(
        "tree",
        &[("ferroxfs tree -L 2 disk.img:/etc", "draw two levels of directories")],
        &["ferroxfs-ls(1)", "tree(1)"],
    ),
    entry(
        "stat",
        &[
            ("ferroxfs stat disk.img:/etc/hosts", "show owner, permissions, times and flags"),
            ("ferroxfs stat --json disk.img:/etc/hosts", "the same as JSON"),
        ],
        &["ferroxfs-extents(1)", "stat(1)"],
    ),
    entry(
        "cat",
        &[("ferroxfs cat disk.img:/etc/hosts", "print a file")],
        &["ferroxfs-get(1)", "cat(1)"],
    ),
    entry(
        "readlink",
        &[("ferroxfs readlink disk.img:/etc/link", "show where a symbolic link points")],
        &["ferroxfs-ln(1)", "readlink(1)"],
    ),
    entry(
        "getfacl",
        &[("ferroxfs getfacl -R disk.img:/etc", "show the access control lists of a tree")],
        &["ferroxfs-setfacl(1)", "getfacl(1)"],
    ),
    entry(
        "getfattr",
        &[
            ("ferroxfs getfattr -d disk.img:/etc/hosts", "show attributes of the namespace user"),
            ("ferroxfs getfattr -d -m - disk.img:/etc/hosts", "show attributes of all namespaces"),
        ],
        &["ferroxfs-setfattr(1)", "getfattr(1)"],
    ),
    entry(
        "find",
        &[
            ("ferroxfs find disk.img -name '*.conf' -size +4k", "search by name and size"),
            (
                "ferroxfs find disk.img:/etc -type f -mtime -7 -ls",
                "list files modified in the last week",
            ),
        ],
        &["ferroxfs-ls(1)", "find(1)"],
    ),
    entry(
        "du",
        &[
            ("ferroxfs du -sh disk.img", "show how much space all files use"),
            ("ferroxfs du --shared disk.img:/etc", "also show how much is shared"),
        ],
        &["ferroxfs-info(1)", "du(1)"],
    ),
    entry(
        "extents",
        &[
            ("ferroxfs extents disk.img:/etc/hosts", "show where the contents are on disk"),
            ("ferroxfs extents --bmap disk.img:/etc/hosts", "in the form of xfs_bmap(8)"),
        ],
        &["ferroxfs-stat(1)", "xfs_bmap(8)"],
    ),
    entry(
        "parents",
        &[
            ("ferroxfs parents disk.img:/etc/hosts", "show every path of a file"),
            ("ferroxfs parents --ino 128 disk.img", "show the paths of inode 128"),
        ],
        &["ferroxfs-find(1)"],
    ),
    entry(
        "cp",
        &[
            ("ferroxfs cp disk.img:/etc/hosts .", "copy a file out"),
            (
                "ferroxfs cp -a --ignore-owner disk.img:/etc copy",
                "copy a tree out with its times and attributes",
            ),
            ("ferroxfs cp -r tree disk.img:/", "copy a tree in"),
            ("ferroxfs cp disk.img:/etc/hosts disk.img:/hosts", "copy inside an image"),
        ],
        &["ferroxfs-import(1)", "ferroxfs-get(1)", "cp(1)"],
    ),
    entry(
        "tar",
        &[
            ("ferroxfs tar -o etc.tar disk.img:/etc", "write an archive of a directory"),
            ("ferroxfs tar disk.img | tar tf -", "pass everything to another program"),
        ],
        &["ferroxfs-import(1)", "tar(1)"],
    ),
    entry(
        "salvage",
        &[
            (
                "ferroxfs salvage disk.img saved",
                "copy everything that can be read into a new directory",
            ),
            (
                "ferroxfs salvage --map disk.map -o saved.tar disk.img",
                "into an archive, from a copy that ddrescue has made",
            ),
            ("ferroxfs salvage --deleted disk.img saved", "look for deleted files too"),
            ("ferroxfs salvage --new-volume saved.img disk.img", "into a new volume"),
        ],
        &["ferroxfs-check(1)", "ferroxfs-cp(1)", "ddrescue(1)", "xfs_repair(8)"],
    ),
    entry(
        "put",
        &[("ferroxfs put disk.img:/notes.txt < notes.txt", "write standard input to a file")],
        &["ferroxfs-get(1)", "ferroxfs-cp(1)"],
    ),
    entry(
        "edit",
        &[
            ("ferroxfs edit disk.img:/etc/hosts", "edit a file with $VISUAL or $EDITOR"),
            (
                "ferroxfs edit --with 'sed -i s/local/LOCAL/' disk.img:/etc/hosts",
                "edit it with another command",
            ),
        ],
        &["ferroxfs-put(1)", "ferroxfs-get(1)"],
    ),
    entry(
        "get",
        &[
            ("ferroxfs get disk.img:/etc/hosts > hosts", "write a file to standard output"),
            ("ferroxfs get -o hosts disk.img:/etc/hosts", "write it to a file of the host"),
        ],
        &["ferroxfs-put(1)", "ferroxfs-cp(1)"],
    ),
    entry(
        "import",
        &[
            ("ferroxfs import tree disk.img", "copy a directory into the root of an image"),
            (
                "ferroxfs import root.tar disk.img:/etc",
                "unpack an archive into one of its directories",
            ),
            ("ferroxfs import --all-root tree disk.img", "give everything to root"),
        ],
        &["ferroxfs-mkfs(1)", "ferroxfs-tar(1)", "tar(1)"],
    ),
    entry(
        "mkdir",
        &[("ferroxfs mkdir -p disk.img:/srv/www/html", "create a directory and its parents")],
        &["ferroxfs-rm(1)", "mkdir(1)"],
    ),
    entry(
        "rm",
        &[
            ("ferroxfs rm disk.img:/etc/hosts", "remove a file"),
            ("ferroxfs rm -r disk.img:/etc", "remove a tree"),
        ],
        &["rm(1)"],
    ),
    entry(
        "mv",
        &[
            ("ferroxfs mv disk.img:/etc/hosts disk.img:/etc/hosts.old", "rename a file"),
            (
                "ferroxfs mv -n disk.img:/etc/hosts disk.img:/hosts",
                "do not replace an existing file",
            ),
        ],
        &["ferroxfs-cp(1)", "mv(1)"],
    ),
    entry(
        "ln",
        &[
            ("ferroxfs ln -s hosts disk.img:/etc/alias", "create a symbolic link"),
            ("ferroxfs ln disk.img:/etc/hosts disk.img:/hosts", "give a file another name"),
        ],
        &["ferroxfs-readlink(1)", "ln(1)"],
    ),
    entry(
        "chmod",
        &[("ferroxfs chmod -R u=rwX,go=rX disk.img:/etc", "set the permissions of a tree")],
        &["ferroxfs-chown(1)", "chmod(1)"],
    ),
    entry(
        "chown",
        &[("ferroxfs chown -R 1000:1000 disk.img:/etc", "set owner and group of a tree")],
        &["ferroxfs-chmod(1)", "chown(1)"],
    ),
    entry(
        "touch",
        &[("ferroxfs touch -d 2026-01-01 disk.img:/etc/hosts", "set the times of a file")],
        &["touch(1)"],
    ),
    entry(
        "truncate",
        &[("ferroxfs truncate -s 1m disk.img:/etc/hosts", "make a file one MiB long")],
        &["ferroxfs-fallocate(1)", "truncate(1)"],
    ),
    entry(
        "fallocate",
        &[
            ("ferroxfs fallocate -l 1m disk.img:/log", "reserve space for a file"),
            ("ferroxfs fallocate -p -o 4k -l 4k disk.img:/etc/hosts", "punch a hole"),
        ],
        &["ferroxfs-truncate(1)", "fallocate(1)"],
    ),
    entry(
        "setfacl",
        &[
            ("ferroxfs setfacl -m u:1000:rw disk.img:/etc/hosts", "let user 1000 write a file"),
            ("ferroxfs setfacl -b disk.img:/etc/hosts", "remove its list"),
        ],
        &["ferroxfs-getfacl(1)", "setfacl(1)"],
    ),
    entry(
        "setfattr",
        &[
            ("ferroxfs setfattr -n user.note -v text disk.img:/etc/hosts", "set an attribute"),
            ("ferroxfs setfattr -x user.origin disk.img:/etc/hosts", "remove an attribute"),
        ],
        &["ferroxfs-getfattr(1)", "setfattr(1)"],
    ),
    entry(
        "fstrim",
        &[(
            "ferroxfs fstrim -v disk.img",
            "punch holes into the image file where the volume is free",
        )],
        &["fstrim(8)"],
    ),
    entry(
        "zap",
        &[
            ("ferroxfs zap disk.img", "make holes of the free space of an image file"),
            ("ferroxfs zap --zero disk.img", "write zeros instead"),
        ],
        &["ferroxfs-fstrim(1)", "ferroxfs-metadump(1)", "fallocate(1)"],
    ),
    entry(
        "label",
        &[
            ("ferroxfs label disk.img", "show the label"),
            ("ferroxfs label disk.img backup", "change it"),
        ],
        &["ferroxfs-uuid(1)", "xfs_admin(8)"],
    ),
    entry(
        "uuid",
        &[
            ("ferroxfs uuid disk.img", "show the UUID"),
            ("ferroxfs uuid disk.img generate", "give the volume a new one"),
        ],
        &["ferroxfs-label(1)", "xfs_admin(8)"],
    ),
    entry(
        "growfs",
        &[
            ("ferroxfs growfs --size 400m disk.img", "enlarge image and volume"),
            (
                "ferroxfs growfs -r --rt-device rt.img disk.img",
                "enlarge the realtime section to the end of its device",
            ),
        ],
        &["ferroxfs-shrink(1)", "ferroxfs-info(1)", "xfs_growfs(8)"],
    ),
    entry(
        "shrink",
        &[
            ("ferroxfs shrink disk.img", "make image and volume as small as possible"),
            ("ferroxfs shrink --to 40m disk.img", "shrink them to 40 MiB"),
        ],
        &["ferroxfs-growfs(1)", "ferroxfs-fstrim(1)"],
    ),
    entry(
        "dump",
        &[
            ("ferroxfs dump disk.img sb", "show the superblock"),
            ("ferroxfs dump --json disk.img inode 128", "show an inode as JSON"),
        ],
        &["ferroxfs-log(1)", "xfs_db(8)"],
    ),
    entry(
        "dump sb",
        &[("ferroxfs dump disk.img sb 1", "show the copy of the superblock in group 1")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "dump agf",
        &[("ferroxfs dump disk.img agf 0", "show the free space header of group 0")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "dump agi",
        &[("ferroxfs dump disk.img agi 0", "show the inode header of group 0")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "dump agfl",
        &[("ferroxfs dump disk.img agfl 0", "show the free list of group 0")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "dump inode",
        &[("ferroxfs dump disk.img inode 128", "show inode 128 and its forks")],
        &["ferroxfs-dump(1)", "ferroxfs-stat(1)", "xfs_db(8)"],
    ),
    entry(
        "dump block",
        &[("ferroxfs dump disk.img block 1", "show a block, as its magic number says")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "dump btree",
        &[("ferroxfs dump disk.img btree bno 0", "show the free space of group 0 by block")],
        &["ferroxfs-dump(1)", "xfs_db(8)"],
    ),
    entry(
        "check",
        &[
            ("ferroxfs check disk.img", "report what is wrong with a volume"),
            ("ferroxfs check --ndjson disk.img", "the same for programs, one finding on each line"),
        ],
        &["ferroxfs-repair(1)", "ferroxfs-recover(1)", "fsck(8)", "xfs_repair(8)"],
    ),
    entry(
        "quota",
        &[
            ("ferroxfs quota disk.img", "show the usage and the limits of all owners"),
            ("ferroxfs quota check disk.img", "compare the recorded usage with all inodes"),
        ],
        &["ferroxfs-check(1)", "xfs_quota(8)", "repquota(8)"],
    ),
    entry(
        "quota report",
        &[
            ("ferroxfs quota report -u -H disk.img", "show users, and space with units"),
            ("ferroxfs quota report --json disk.img", "show all owners as JSON"),
        ],
        &["ferroxfs-quota(1)", "repquota(8)"],
    ),
    entry(
        "quota check",
        &[("ferroxfs quota check disk.img", "compare the recorded usage with all inodes")],
        &["ferroxfs-quota(1)", "ferroxfs-check(1)", "quotacheck(8)"],
    ),
    entry(
        "quota set",
        &[
            (
                "ferroxfs quota set -u 1000 --block-hard 1g --inode-hard 10000 disk.img",
                "limit a user",
            ),
            (
                "ferroxfs quota set -p 0 --block-grace 86400 disk.img",
                "set the grace period of all projects to a day",
            ),
        ],
        &["ferroxfs-quota(1)", "setquota(8)", "xfs_quota(8)"],
    ),
    entry(
        "quota project",
        &[
            ("ferroxfs quota project --set 42 disk.img:/etc", "give a tree to project 42"),
            ("ferroxfs quota project disk.img:/etc", "show the files that are not in its project"),
            ("ferroxfs quota project --clear disk.img:/etc", "take the tree out of its project"),
        ],
        &["ferroxfs-quota(1)", "xfs_quota(8)"],
    ),
    entry(
        "log",
        &[
            ("ferroxfs log disk.img", "show whether the log is clean"),
            ("ferroxfs log --dump disk.img", "show the changes that it holds for replay"),
        ],
        &["ferroxfs-recover(1)", "xfs_logprint(8)"],
    ),
    entry(
        "recover",
        &[("ferroxfs recover disk.img", "replay the log onto the volume")],
        &["ferroxfs-log(1)", "xfs_repair(8)"],
    ),
    entry(
        "metadump",
        &[
            ("ferroxfs metadump disk.img disk.metadump", "copy the metadata, without names"),
            ("ferroxfs metadump -o -v 2 disk.img disk.metadump", "keep names, in the newer format"),
            ("ferroxfs metadump disk.img - | zstd > disk.metadump.zst", "compress it on the way"),
        ],
        &["ferroxfs-mdrestore(1)", "ferroxfs-check(1)", "xfs_metadump(8)"],
    ),
    entry(
        "mdrestore",
        &[
            ("ferroxfs mdrestore disk.metadump copy.img", "make an image without contents"),
            ("zstd -dc disk.metadump.zst | ferroxfs mdrestore - copy.img", "the same from a pipe"),
        ],
        &["ferroxfs-metadump(1)", "ferroxfs-check(1)", "xfs_mdrestore(8)"],
    ),
    entry(
        "repair",
        &[
            ("ferroxfs repair --plan disk.img", "show what a repair would change"),
            ("ferroxfs repair --plan -o plan disk.img", "keep the plan in a file"),
            ("ferroxfs repair --apply plan disk.img", "apply exactly this plan"),
            ("ferroxfs repair --yes disk.img", "repair; disk.img.undo takes it back"),
            ("ferroxfs repair --undo disk.img.undo disk.img", "take the repair back"),
        ],
        &["ferroxfs-check(1)", "ferroxfs-recover(1)", "fsck(8)", "xfs_repair(8)"],
    ),
    entry(
        "mkfs",
        &[
            ("ferroxfs mkfs -d file,size=300m new.img", "make an empty volume in a new file"),
            (
                "ferroxfs mkfs --from tree -d file,size=300m new.img",
                "make a volume from a directory",
            ),
            (
                "ferroxfs mkfs -f -L backup -m rmapbt=0 -d extszinherit=16 -d file,size=300m disk.img",
                "replace a volume, with a label and other features",
            ),
            (
                "SOURCE_DATE_EPOCH=0 ferroxfs mkfs --from root.tar -d file,size=300m new.img",
                "make the same bytes each time",
            ),
            (
                "ferroxfs mkfs --disk gpt --partition-type linux-root-x86-64 --from root.tar \
                 -d size=auto whole-disk.img",
                "make a disk with a partition table around the volume",
            ),
        ],
        &["ferroxfs-import(1)", "ferroxfs-growfs(1)", "mkfs.xfs(8)"],
    ),
    entry(
        "build",
        &[
            ("ferroxfs build image.toml", "make what the recipe says"),
            ("ferroxfs build --print-command image.toml", "show the same as a command of mkfs"),
            ("ferroxfs build -f -o other.img image.toml", "make another file, and replace it"),
        ],
        &["ferroxfs-mkfs(1)"],
    ),
    entry(
        "mount",
        &[
            ("ferroxfs mount disk.img /mnt", "mount a volume"),
            ("ferroxfs mount -o ro --partition 2 disk.img /mnt", "mount a partition for reading"),
            ("ferroxfs mount -f -v disk.img /mnt", "stay in the foreground and log"),
        ],
        &["ferroxfs-umount(1)", "ferroxfs-mounts(1)", "ferroxfs-stats(1)", "mount(8)", "fuse(8)"],
    ),
    entry(
        "run",
        &[
            ("ferroxfs run disk.img -- sh -c 'du -sh .'", "run a program in the volume"),
            ("ferroxfs run -r disk.img -- find . -newer ./etc/hosts", "the same, for reading only"),
            (
                "ferroxfs run disk.img -- sh -c 'rsync -a /srv/tree/ \"$FERROXFS_MOUNT\"'",
                "update a volume from a directory of the host",
            ),
        ],
        &["ferroxfs-mount(1)", "ferroxfs-umount(1)", "env(1)"],
    ),
    entry(
        "umount",
        &[
            ("ferroxfs umount /mnt", "unmount, and wait until the image is closed"),
            ("ferroxfs umount disk.img", "the same by the name of the image"),
        ],
        &["ferroxfs-mount(1)", "ferroxfs-mounts(1)", "umount(8)"],
    ),
    entry(
        "mounts",
        &[
            ("ferroxfs mounts", "list mounts with their images and processes"),
            ("ferroxfs mounts --json", "the same as JSON"),
        ],
        &["ferroxfs-mount(1)", "ferroxfs-umount(1)", "findmnt(8)"],
    ),
    entry(
        "stats",
        &[
            ("ferroxfs stats /mnt", "show the requests that a mount has served"),
            ("ferroxfs stats --watch /mnt", "show the requests of each second"),
        ],
        &["ferroxfs-mount(1)"],
    ),
    entry(
        "serve",
        &[("ferroxfs serve nfs disk.img", "let NFS clients read a volume")],
        &["ferroxfs-mount(1)"],
    ),
    entry(
        "serve nfs",
        &[
            ("ferroxfs serve nfs disk.img", "let NFS clients read it, at nfs://127.0.0.1:2049/"),
            (
                "ferroxfs serve nfs --write --listen 127.0.0.1:0 disk.img",
                "let them change it, at a free port",
            ),
            (
                "ferroxfs serve nfs --act-as 1000:1000 disk.img",
                "with the rights of one user for all clients",
            ),
        ],
        &["ferroxfs-serve(1)", "ferroxfs-mount(1)", "nfs(5)"],
    ),
    entry(
        "scan",
        &[
            ("ferroxfs scan -o inodes.parquet disk.img", "write a row for each inode"),
            ("ferroxfs scan --summary disk.img", "print totals"),
        ],
        &["ferroxfs-find(1)", "ferroxfs-du(1)", "ferroxfs-diff(1)"],
    ),
    entry(
        "diff",
        &[
            ("ferroxfs diff yesterday.img disk.img", "show what changed since a copy was made"),
            ("ferroxfs diff yesterday.parquet disk.img", "the same, since a scan"),
            (
                "ferroxfs diff --contents --format ndjson yesterday.img disk.img",
                "compare the bytes of files that may have changed, for a script",
            ),
        ],
        &["ferroxfs-scan(1)", "diff(1)"],
    ),
    #[cfg(feature = "bench")]
    entry(
        "bench",
        &[("ferroxfs bench --help", "list the workloads")],
        &["ferroxfs-stats(1)", "fio(1)"],
    ),
    entry(
        "completions",
        &[
            ("ferroxfs completions bash > ferroxfs", "for /usr/share/bash-completion/completions"),
            ("ferroxfs completions zsh > _ferroxfs", "for a directory in fpath"),
            ("ferroxfs completions fish > ferroxfs.fish", "for ~/.config/fish/completions"),
        ],
        &["bash(1)", "zsh(1)", "fish(1)"],
    ),
    entry(
        "man",
        &[
            ("ferroxfs man pages", "write the man pages into a directory"),
            ("ferroxfs man --format markdown reference", "write Markdown for a site"),
        ],
        &["man(1)"],
    ),
];
