//! Tests of the commands that show the contents of an image.

use expect_test::expect;

use crate::{GoldenDir, check, shared, transcript};

#[test]
fn info_prints_the_geometry() {
    check(
        &["info", "image"],
        &expect![[r#"
        image           image
        format          XFS version 5
        label           golden
        UUID            f0000000-0000-4000-8000-00000000c0de
        size            32.0 MiB in 32768 blocks
        free            25.4 MiB in 25974 blocks
        inodes          714 used, 1024 allocated
        groups          2 of 16384 blocks
        sizes           block 1024, sector 512, inode 512, directory block 4096
        features        ftype sparse bigtime nrext64 exchange parent finobt rmapbt reflink inobtcount
        log             internal, 5.0 MiB, clean
    "#]],
    );
    check(
        &["info", "--xfs-info", "image"],
        &expect![[r#"
            meta-data=image                  isize=512    agcount=2, agsize=16384 blks
                     =                       sectsz=512   attr=2, projid32bit=1
                     =                       crc=1        finobt=1, sparse=1, rmapbt=1
                     =                       reflink=1    bigtime=1 inobtcount=1 nrext64=1
                     =                       exchange=1   metadir=0
            data     =                       bsize=1024   blocks=32768, imaxpct=25
                     =                       sunit=0      swidth=0 blks
            naming   =version 2              bsize=4096   ascii-ci=0, ftype=1, parent=1
            log      =internal log           bsize=1024   blocks=5120, version=2
                     =                       sectsz=512   sunit=0 blks, lazy-count=1
            realtime =none                   extsz=4096   blocks=0, rtextents=0
                     =                       rgcount=0    rgsize=0 extents
                     =                       zoned=0      start=0 reserved=0
        "#]],
    );
}

#[test]
fn info_prints_json() {
    check(
        &["info", "--json", "image"],
        &expect![[r#"
        {
          "schema_version": 1,
          "format": "xfs-v5",
          "uuid": "f0000000-0000-4000-8000-00000000c0de",
          "block_size": 1024,
          "sector_size": 512,
          "inode_size": 512,
          "directory_block_size": 4096,
          "ag_count": 2,
          "ag_blocks": 16384,
          "data_blocks": 32768,
          "inode_max_percent": 25,
          "stripe_unit_blocks": 0,
          "stripe_width_blocks": 0,
          "features": [
            "ftype",
            "sparse",
            "bigtime",
            "nrext64",
            "exchange",
            "parent",
            "finobt",
            "rmapbt",
            "reflink",
            "inobtcount"
          ],
          "start_bytes": 0,
          "meta_uuid": "f0000000-0000-4000-8000-00000000c0de",
          "realtime_blocks": 0,
          "log": {
            "external": false,
            "blocks": 5120,
            "state": "clean",
            "head": "4:0",
            "tail": "4:0"
          },
          "free_blocks": 25974,
          "inodes_allocated": 1024,
          "inodes_free": 310,
          "label": "golden"
        }
    "#]],
    );
}

#[test]
fn ls_prints_names_and_long_lines() {
    check(
        &["ls", "-i", "image:/short"],
        &expect![[r#"
        70 a
        71 bb
        72 ccc
        73 not-utf8-��
    "#]],
    );
    check(
        &["ls", "-R", "image:/deep/1/2/3/4/5/6"],
        &expect![[r#"
        /deep/1/2/3/4/5/6:
        7

        /deep/1/2/3/4/5/6/7:
        8

        /deep/1/2/3/4/5/6/7/8:
    "#]],
    );
    check(
        &["ls", "--json", "image:/files"],
        &expect![[r#"
        {"schema_version": 1, "entries": [
        {"path":"/files/empty","name":"empty","ino":43079,"type":"file","mode":33188,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":0,"blocks":0,"atime":1795304456184682998,"mtime":1795304456184682998,"ctime":1795304457021541019,"btime":1795304456184682998,"xflags":2147483656},
        {"path":"/files/long","name":"long","ino":43085,"type":"file","mode":33188,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":8070450532247928832,"blocks":0,"atime":1795304456280683003,"mtime":1795304456280683003,"ctime":1795304456280683003,"btime":1795304456280683003,"xflags":2147483648},
        {"path":"/files/original","name":"original","ino":43083,"type":"file","mode":33152,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":40960,"blocks":80,"atime":1795304456264683002,"mtime":1795304456268289233,"ctime":1795304456268289233,"btime":1795304456264683002,"xflags":2147483648},
        {"path":"/files/shared","name":"shared","ino":43084,"type":"file","mode":33152,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":40960,"blocks":80,"atime":1795304456272683002,"mtime":1795304456272683002,"ctime":1795304456272683002,"btime":1795304456272683002,"xflags":2147483648},
        {"path":"/files/sparse","name":"sparse","ino":43080,"type":"file","mode":33152,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":1048576,"blocks":2,"atime":1795304456192682999,"mtime":1795304456194323864,"ctime":1795304456194323864,"btime":1795304456192682999,"xflags":2147483648},
        {"path":"/files/tree","name":"tree","ino":43082,"type":"file","mode":33152,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":1638400,"blocks":1630,"atime":1795304456200682999,"mtime":1795304456248683001,"ctime":1795304456248683001,"btime":1795304456200682999,"xflags":2147483650},
        {"path":"/files/unwritten","name":"unwritten","ino":43081,"type":"file","mode":33152,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":65536,"blocks":128,"atime":1795304456196682999,"mtime":1795304456198381346,"ctime":1795304456198381346,"btime":1795304456196682999,"xflags":2147483650}
        ]}
    "#]],
    );
    check(
        &["--image", "image", "ls", "-d", "files", "/short/a"],
        &expect![[r#"
        /files
        /short/a
    "#]],
    );
}

#[test]
fn tree_draws_directories() {
    check(
        &["tree", "image:/deep"],
        &expect![[r#"
        /deep
        └── 1
            └── 2
                └── 3
                    └── 4
                        └── 5
                            └── 6
                                └── 7
                                    └── 8

        8 directories, 0 files
    "#]],
    );
    check(
        &["tree", "-L", "1", "-d", "image"],
        &expect![[r#"
        /
        ├── block
        ├── deep
        ├── files
        ├── leaf
        ├── many
        ├── node
        └── short

        7 directories, 0 files
    "#]],
    );
}

#[test]
fn stat_prints_all_fields() {
    check(
        &["stat", "image:/files/shared"],
        &expect![[r#"
          File: /files/shared
          Size: 40960     	Blocks: 80         IO Block: 1024   regular file
        Volume: f0000000-0000-4000-8000-00000000c0de	Inode: 43084       Links: 1
        Access: (0600/-rw-------)  Uid:     0   Gid:     0   Project: 0
        Access: 2026-11-21 23:40:56.272683002 +0000
        Modify: 2026-11-21 23:40:56.272683002 +0000
        Change: 2026-11-21 23:40:56.272683002 +0000
         Birth: 2026-11-21 23:40:56.272683002 +0000
        Extents: 1      	Attribute extents: 0	Generation: 3177149856	Flags: none
    "#]],
    );
    check(
        &["stat", "--json", "image:/null"],
        &expect![[r#"
        {"schema_version": 1, "files": [
        {"path":"/null","ino":81,"type":"char_device","mode":8612,"nlink":1,"uid":0,"gid":0,"project_id":0,"size":0,"blocks":0,"atime":1795304456304683004,"mtime":1795304456304683004,"ctime":1795304456304683004,"btime":1795304456304683004,"xflags":2147483648,"rdev_major":1,"rdev_minor":3,"generation":442532333,"extents":0,"attr_extents":0}
        ]}
    "#]],
    );
}

#[test]
fn cat_and_get_print_contents() {
    check(
        &["cat", "image:/short/bb", "image:/short/ccc"],
        &expect![[r#"
        bb
        ccc
    "#]],
    );
    check(
        &["readlink", "image:/links-inline"],
        &expect![[r#"
        target
    "#]],
    );
}

#[test]
fn getfattr_prints_attributes() {
    check(
        &["getfattr", "-d", "image:/attr-short", "image:/acl"],
        &expect![[r##"
        # file: attr-short
        user.one="1"

    "##]],
    );
    check(
        &["getfattr", "-m", "-", "-d", "-e", "hex", "image:/acl"],
        &expect![[r#"
        # file: acl
        system.posix_acl_access=0x0200000001000600ffffffff02000600e803000004000400ffffffff08000400e803000010000600ffffffff20000400ffffffff
        trusted.SGI_ACL_FILE=0x0000000600000001ffffffff0006000000000002000003e80006000000000004ffffffff0004000000000008000003e80004000000000010ffffffff0006000000000020ffffffff00040000

    "#]],
    );
    check(
        &["getfattr", "-n", "user.none", "image:/acl"],
        &expect![[r#"
        ! ferroxfs: image: /acl: user.none: no such attribute
        exit 1
    "#]],
    );
}

#[test]
fn find_applies_its_tests() {
    check(
        &["find", "image", "-lname", "targ*", "-printf", "%p -> %l\\n"],
        &expect![[r#"
        /links-inline -> target
    "#]],
    );
    check(
        &["find", "image:/leaf", "-name", "*-10?", "-links", "+2"],
        &expect![[r#"
        /leaf/leaf-entry-100
        /leaf/leaf-entry-101
        /leaf/leaf-entry-102
        /leaf/leaf-entry-103
        /leaf/leaf-entry-104
        /leaf/leaf-entry-105
        /leaf/leaf-entry-106
        /leaf/leaf-entry-107
        /leaf/leaf-entry-108
        /leaf/leaf-entry-109
    "#]],
    );
    check(
        &["find", "image", "-xattr", "user.one=1"],
        &expect![[r#"
        /attr-short
    "#]],
    );
    check(
        &["find", "image", "-newer", "image:/none"],
        &expect![[r#"
        ! ferroxfs: image: /none: no such file or directory
        exit 1
    "#]],
    );
}

#[test]
fn du_adds_up_blocks() {
    check(
        &["du", "--shared", "image:/files", "-a"],
        &expect![[r#"
        0	0	0	0	/files/empty
        1	0	0	0	/files/sparse
        64	0	0	0	/files/unwritten
        815	0	0	0	/files/tree
        40	40	0	0	/files/original
        0	0	40	0	/files/shared
        0	0	0	0	/files/long
        920	40	40	0	/files
    "#]],
    );
    check(
        &["du", "-s", "image"],
        &expect![[r#"
        1146	/
    "#]],
    );
}

/// Checks that `ls` sorts files as ls(1) sorts the same files.
#[test]
fn lists_are_sorted_as_by_ls() {
    let place = crate::changing::VolumeDir::new();
    std::fs::create_dir_all(place.path("tree/sub/low")).unwrap();
    std::fs::create_dir(place.path("tree/other")).unwrap();
    let files = [("b", 3), ("a", 3), (".c", 9), ("long", 70_000), ("sub/x", 2), ("sub/y", 1)];
    for (at, (name, length)) in files.into_iter().enumerate() {
        let path = place.path("tree").join(name);
        std::fs::write(&path, vec![1; length]).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 * at as u64);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    for (at, name) in ["sub", "other", "sub/low"].into_iter().enumerate() {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(2_500_000 + at as u64);
        std::fs::File::open(place.path("tree").join(name)).unwrap().set_modified(time).unwrap();
    }
    place.check(&["import", "tree", "image"]);
    for options in ["-A", "-t", "-r", "-tr", "-RAt", "-RAtr", "-RAr"] {
        let theirs = std::process::Command::new("ls")
            .args(["-1", options])
            .current_dir(place.path("tree"))
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let theirs = theirs.replace("./", "/").replace(".:", "/:");
        assert_eq!(place.check(&["ls", options, "image"]), theirs, "{options}");
    }
    // Directories have other lengths there.
    let largest = place.check(&["ls", "-AS", "image"]);
    let files = largest.lines().filter(|name| !["sub", "other"].contains(name));
    assert_eq!(files.collect::<Vec<_>>(), ["long", ".c", "a", "b"]);
    assert_eq!(place.check(&["ls", "-rS", "image:/sub"]).lines().last(), Some("low"));
}

#[test]
fn apparent_size_adds_up_lengths() {
    let place = crate::changing::VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/d/f", b"hello");
    place.check(&["ln", "image:/d/f", "image:/d/g"]);
    place.check(&["truncate", "-s", "3g", "image:/d/sparse"]);
    let du = |options: &[&str], path: &str| {
        let text = place.check(&[&["du", "-s"], options, &[path]].concat());
        text.split_once('\t').unwrap().0.parse::<u64>().unwrap()
    };
    let own = place.fact("image:/d", "Size:").parse::<u64>().unwrap();
    assert_eq!(du(&["-b", "--apparent-size"], "image:/d"), own + 5 + (3 << 30));
    assert_eq!(du(&["--apparent-size"], "image:/d/f"), 1);
    assert_eq!(du(&["-b"], "image:/d"), 4096);
    let json = place.check(&["du", "-s", "--json", "--apparent-size", "image:/d/f"]);
    assert!(json.contains("\"size_bytes\":5") && !json.contains("used_bytes"), "{json}");
    place.check_failure(&["du", "--apparent-size", "--shared", "image"], 2, "cannot be used");
}

/// Checks the sizes with units that -h shows. Users expect this meaning of -h; help is `--help`
/// here.
#[test]
fn sizes_are_shown_for_people() {
    check(
        &["du", "-ah", "image:/files"],
        &expect![[r#"
        0	/files/empty
        1.0K	/files/sparse
        64K	/files/unwritten
        815K	/files/tree
        40K	/files/original
        0	/files/shared
        0	/files/long
        920K	/files
    "#]],
    );
    let listed = transcript(&shared().run(&["ls", "-lh", "image:/files"]));
    assert!(listed.contains(" 40K ") && !listed.contains("40960"), "{listed}");
    for command in ["ls", "du"] {
        let help = transcript(&shared().run(&[command, "--help"]));
        assert!(help.contains("--human-readable") && help.contains("--help"), "{help}");
    }
    assert_eq!(shared().run(&["du", "-bh", "image"]).status.code(), Some(2));
}

#[test]
fn live_volume_is_not_replayed_and_says_so() {
    let told = transcript(&shared().run(&["ls", "--live", "image:/short"]));
    assert!(
        told.contains("! ferroxfs: image: the volume may be in use, and its log is not replayed")
    );
}

#[test]
fn extents_prints_the_map() {
    check(
        &["extents", "image:/files/unwritten"],
        &expect![[r#"
        Filesystem type is: 58465342
        File size of /files/unwritten is 65536 (64 blocks of 1024 bytes)
         ext:     logical_offset:        physical_offset: length:   expected: flags:
           0:        0..       7:      21628..     21635:      8:             unwritten
           1:        8..      11:      21636..     21639:      4:            
           2:       12..      63:      21640..     21691:     52:             last,unwritten,eof
        /files/unwritten: 1 extent found
    "#]],
    );
    check(
        &["extents", "--bmap", "image:/files/sparse"],
        &expect![[r#"
        /files/sparse:
         EXT: FILE-OFFSET      BLOCK-RANGE      AG AG-OFFSET        TOTAL FLAGS
           0: [0..199]:        hole                                   200
           1: [200..201]:      43036..43037      1 (10268..10269)       2 000000
           2: [202..2047]:     hole                                  1846
    "#]],
    );
    check(
        &["extents", "--json", "image:/files/shared"],
        &expect![[r#"
        {
          "schema_version": 1,
          "path": "/files/shared",
          "fork": "data",
          "size": 40960,
          "block_size": 1024,
          "extents": [
            {
              "offset_bytes": 0,
              "length_bytes": 40960,
              "device_offset_bytes": 23908352,
              "fsblock": 23348,
              "unwritten": false,
              "shared": true
            }
          ]
        }
    "#]],
    );
}

#[test]
fn parents_prints_all_paths() {
    check(
        &["parents", "--ino", "72", "image"],
        &expect![[r#"
        /short/ccc
    "#]],
    );
    check(
        &["parents", "--ino", "1", "image"],
        &expect![[r#"
        ! ferroxfs: image: inode 1: no such file or directory
        exit 1
    "#]],
    );
    check(
        &["parents", "image:/files/tree"],
        &expect![[r#"
        /files/tree
    "#]],
    );
}

#[test]
fn dump_prints_structures() {
    check(
        &["dump", "image", "agf", "0"],
        &expect![[r#"
        agf at disk address 1, 512 bytes
        magic = 0x58414746 "XAGF"
        version = 0x1
        group = 0
        length = 16384
        by_block_root = 100
        by_size_root = 102
        reverse_map_root = 95
        by_block_levels = 1
        by_size_levels = 1
        reverse_map_levels = 2
        free_list_first = 1
        free_list_last = 8
        free_list_count = 8
        free_blocks = 15731
        longest = 15648
        btree_blocks = 3
        uuid = f0000000-0000-4000-8000-00000000c0de
        reverse_map_blocks = 4
        refcount_blocks = 1
        refcount_root = 98
        refcount_levels = 1
        lsn = 0:0
        crc = 0xe5623d66
        verification: passed
    "#]],
    );
    check(
        &["dump", "image", "btree", "ino", "1"],
        &expect![[r#"
        inode chunks at disk address 43384, 1024 bytes
        magic = 0x49414233 "IAB3"
        level = 0
        count = 1
        left = null
        right = null
        address = 43384
        lsn = 0:0
        uuid = f0000000-0000-4000-8000-00000000c0de
        owner = 1
        crc = 0x970f4f60
        records[0] = start 10304, holes 0x0, count 64, free_count 50, free 0xffffffffffffc000
        verification: passed

    "#]],
    );
}

#[test]
fn dump_shows_forks() {
    check(
        &["dump", "--json", "image", "inode", "43080"],
        &expect![[r#"
            {
              "schema_version": 1,
              "structure": "inode",
              "disk_address": 43080,
              "length_bytes": 512,
              "fields": {
                "magic": 18766,
                "mode": 33152,
                "version": 3,
                "data_format": 2,
                "old_nlink": 0,
                "uid": 0,
                "gid": 0,
                "nlink": 1,
                "project_id_low": 0,
                "project_id_high": 0,
                "big_extents": 1,
                "access_time": 3942788104192682999,
                "modify_time": 3942788104194323864,
                "change_time": 3942788104194323864,
                "size": 1048576,
                "blocks": 1,
                "extent_size_hint": 0,
                "extents": 0,
                "attr_extents": 0,
                "fork_offset": 24,
                "attr_format": 1,
                "flags": 0,
                "generation": 3667802478,
                "next_unlinked": null,
                "crc": 1916014497,
                "change_count": 6,
                "lsn": "1:441",
                "flags2": 24,
                "cow_extent_size_hint": 0,
                "birth_time": 3942788104192682999,
                "number": 43080,
                "uuid": "f0000000-0000-4000-8000-00000000c0de",
                "data": [
                  {
                    "file_block": 100,
                    "start": 21518,
                    "length_blocks": 1,
                    "unwritten": false
                  }
                ],
                "attributes": [
                  {
                    "namespace": "parent",
                    "name": "sparse",
                    "value": {
                      "base64": "AAAAAAAAqEZZk2aZ"
                    }
                  }
                ]
              },
              "verified": true
            }
        "#]],
    );
}

#[test]
fn dump_shows_inodes() {
    check(
        &["dump", "image", "inode", "80"],
        &expect![[r#"
        inode at disk address 80, 512 bytes
        magic = 0x494e "IN"
        mode = 10644
        version = 0x3
        data_format = 0
        old_nlink = 0
        uid = 0
        gid = 0
        nlink = 1
        project_id_low = 0
        project_id_high = 0
        big_extents = 0
        access_time = 3942788104300683004
        modify_time = 3942788104300683004
        change_time = 3942788104300683004
        size = 0
        blocks = 0
        extent_size_hint = 0
        extents = 0
        attr_extents = 0
        fork_offset = 1
        attr_format = 1
        flags = 0x0
        generation = 180752433
        next_unlinked = null
        crc = 0xbc3ff60d
        change_count = 3
        lsn = 1:441
        flags2 = 0x18
        cow_extent_size_hint = 0
        birth_time = 3942788104300683004
        number = 80
        uuid = f0000000-0000-4000-8000-00000000c0de
        attributes[0] = namespace parent, name fifo, value $'\000\000\000\000\000\000\000''@'$'\000\000\000\000'
        verification: passed
    "#]],
    );
}

/// Runs a command and returns its output without the words in the range `times` of each line. The
/// form of a time depends on the present date.
fn without_times(arguments: &[&str], times: std::ops::Range<usize>) -> String {
    let text = transcript(&shared().run(arguments));
    let words = |line: &str| {
        let words = line.split_whitespace().enumerate();
        let kept = words.filter(|(index, _)| !times.contains(index)).map(|(_, word)| word);
        kept.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn ls_and_find_print_long_lines() {
    expect![[r#"
        total 90
        drwxr-xr-x 2 0 0 55 .
        drwxr-xr-x 9 0 0 251 ..
        -rw-r--r-- 261 0 0 2 a
        -rw-r--r-- 801 0 0 3 bb
        -rw-r--r-- 1 0 0 4 ccc
        -rw-r--r-- 1 0 0 0 not-utf8-��"#]]
    .assert_eq(&without_times(&["ls", "-la", "image:/short"], 5..8));
    let special = ["find", "image", "-maxdepth", "1", "-type", "p", "-ls"];
    expect!["80 0 prw-r--r-- 1 0 0 0 /fifo"].assert_eq(&without_times(&special, 7..10));
}

#[test]
fn names_are_raw_in_pipes() {
    let output = shared().run(&["ls", "-0", "image:/short"]);
    assert!(output.stdout.split(|&byte| byte == 0).any(|name| name == b"not-utf8-\xff\xfe"));
    let json = shared().run(&["ls", "--json", "image:/short"]);
    assert!(transcript(&json).contains("\"name_bytes\":\"bm90LXV0Zjgt//4=\""));
}

#[test]
fn completions_and_man_pages_come_from_the_definitions() {
    let place = shared();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]);
        assert!(transcript(&script).contains("getfattr"), "{shell}");
    }
    assert!(place.run(&["man", "man"]).status.success());
    for page in ["ferroxfs.1", "ferroxfs-find.1", "ferroxfs-dump-agf.1"] {
        assert!(place.path().join("man").join(page).exists(), "{page}");
    }
}

#[test]
fn log_prints_records() {
    check(
        &["log", "image"],
        &expect![[r#"
        start           32784 (in units of 512 bytes, on the device of the log)
        blocks          10240 of 512 bytes
        tail            4:0
        head            4:0
        state           clean
    "#]],
    );
    check(
        &["log", "--dump", "--json", "image"],
        &expect![[r#"
        {"schema_version": 1, "entries": [
        {"entry":"log","start":32784,"blocks":10240,"tail":"4:0","head":"4:0","state":"clean"}
        ]}
    "#]],
    );
}

#[test]
fn clean_log_needs_no_recovery() {
    // No other process may have the image open meanwhile, as other tests have the shared one.
    let output = GoldenDir::new().run(&["recover", "image"]);
    expect![[r#"
        the log is clean, there is nothing to recover
    "#]]
    .assert_eq(&transcript(&output));
    check(
        &["recover", "--no-recovery", "image"],
        &expect![[r#"
        ! ferroxfs: --live and --no-recovery are for reading
        exit 2
    "#]],
    );
}
