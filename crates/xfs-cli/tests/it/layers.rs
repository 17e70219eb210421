//! Tests of container images and of several sources as layers, and of the options that choose files
//! and change their properties.

mod oci;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::archives::writer::{Head, Writer};
use crate::changing::VolumeDir;
use oci::{Layout, Packing};

const PLATFORM: (&str, &str) = ("linux", "amd64");

/// Returns an archive with members that `make` adds.
fn archive(make: impl Fn(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new(3);
    make(&mut writer);
    writer.end();
    writer.bytes().to_vec()
}

/// Writes a layout `name` with one image, whose layers are these.
fn layout(place: &VolumeDir, name: &str, layers: &[(Packing, Vec<u8>)]) {
    let directory = place.path(name);
    let mut layout = Layout::new(&directory);
    layout.add(layout.image(PLATFORM, layers));
    layout.finish();
}

/// Writes the directory that `docker save` archives, with these layers from the lowest on.
fn docker(directory: &Path, tag: &str, layers: &[Vec<u8>]) {
    let unpacked = layers.iter().map(|bytes| format!("sha256:{}", oci::sha256(bytes)));
    let configuration = json!({
        "os": "linux", "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": unpacked.collect::<Vec<_>>()},
    });
    let configuration = configuration.to_string();
    let name = format!("{}.json", oci::sha256(configuration.as_bytes()));
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(&name), configuration).unwrap();
    let paths = layers.iter().enumerate().map(|(number, bytes)| {
        let path = format!("layer{number}/layer.tar");
        fs::create_dir_all(directory.join(format!("layer{number}"))).unwrap();
        fs::write(directory.join(&path), bytes).unwrap();
        path
    });
    let manifest = json!([{
        "Config": name, "RepoTags": [tag], "Layers": paths.collect::<Vec<_>>(),
    }]);
    fs::write(directory.join("manifest.json"), manifest.to_string()).unwrap();
}

/// Writes the archive of `docker save` with these layers.
pub(crate) fn docker_archive(place: &VolumeDir, archive: &str, layers: &[Vec<u8>]) {
    let directory = place.path("docker");
    docker(&directory, "example.com/tree:1", layers);
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(place.path(archive)).arg("-C").arg(directory).arg(".");
    assert!(tar.status().unwrap().success());
}

/// Makes the image `out` from sources.
#[track_caller]
fn make(place: &VolumeDir, out: &str, arguments: &[&str]) {
    place.check(&[&["mkfs", "-f", "-q", "-d", "size=320m"], arguments, &[out]].concat());
}

#[track_caller]
fn check_refused(place: &VolumeDir, arguments: &[&str], code: i32, message: &str) {
    let arguments = [&["mkfs", "-q", "-d", "size=320m"], arguments, &["refused"]].concat();
    place.check_failure(&arguments, code, message);
    assert!(!place.path("refused").exists(), "{arguments:?}: leaves an image");
}

fn files(place: &VolumeDir, image: &str) -> Vec<String> {
    let listed =
        place.check(&["find", &format!("{image}:/"), "-mindepth", "1", "-printf", "%P\\n"]);
    let mut found: Vec<String> = listed.lines().map(str::to_owned).collect();
    found.sort();
    found
}

fn three_layers() -> Vec<(Packing, Vec<u8>)> {
    let first = archive(|to| {
        to.directory("d");
        to.file("d/kept", b"kept");
        to.file("d/gone", b"gone");
        to.directory("opaque");
        to.file("opaque/lower", b"");
        to.directory("opaque/sub");
        to.file("opaque/sub/lower", b"");
        to.directory("becomes-file");
        to.file("becomes-file/x", b"");
        to.file("becomes-directory", b"");
        to.file("linked", b"linked");
        to.directory("whole");
        to.directory("whole/deep");
        to.file("whole/deep/er", b"");
    });
    let second = archive(|to| {
        to.file("d/.wh.gone", b"");
        to.file("d/.wh.never-there", b"");
        to.file("no/such/directory/.wh.x", b"");
        to.directory("opaque");
        to.file("opaque/upper", b"upper");
        to.directory("opaque/sub");
        to.file("opaque/sub/upper", b"");
        // Files of this layer before the mark stay.
        to.file("opaque/.wh..wh..opq", b"");
        to.file("becomes-file", b"a file");
        to.directory("becomes-directory");
        to.file("becomes-directory/y", b"");
        to.hard_link("link", "linked");
        to.file(".wh.whole", b"");
        to.file(".wh..wh.plnk/1.2", b"");
    });
    let third = archive(|to| {
        to.file(".wh.linked", b"");
        to.file("d/new", b"new");
        to.directory("whole");
        to.file("whole/again", b"");
    });
    vec![(Packing::Plain, first), (Packing::Gzip, second), (Packing::Zstd, third)]
}

const AFTER_THREE: [&str; 13] = [
    "becomes-directory",
    "becomes-directory/y",
    "becomes-file",
    "d",
    "d/kept",
    "d/new",
    "link",
    "opaque",
    "opaque/sub",
    "opaque/sub/upper",
    "opaque/upper",
    "whole",
    "whole/again",
];

#[track_caller]
fn check_three(place: &VolumeDir, image: &str) {
    assert_eq!(files(place, image), AFTER_THREE, "{image}");
    let read = |path: &str| place.check(&["cat", &format!("{image}:/{path}")]);
    assert_eq!([read("link"), read("becomes-file"), read("d/kept")], ["linked", "a file", "kept"]);
    assert_eq!(place.fact(&format!("{image}:/link"), "Links:"), "1");
    place.check(&["check", image]);
}

#[test]
fn container_layers_hide_and_replace_files_of_lower_ones() {
    let place = VolumeDir::new();
    layout(&place, "layout", &three_layers());
    make(&place, "of-directory", &["--from", "oci:layout"]);
    check_three(&place, "of-directory");
    place.check(&["import", "oci:layout", "image"]);
    check_three(&place, "image");
    let tar = |options: &[&str]| {
        let mut tar = Command::new("tar");
        tar.args(options).args(["-C", "layout", "."]).current_dir(place.path(""));
        assert!(tar.status().unwrap().success());
    };
    tar(&["-cf", "layout.tar"]);
    tar(&["-czf", "layout.tar.gz"]);
    let made = fs::read(place.path("of-directory")).unwrap();
    for source in ["oci-archive:layout.tar", "oci-archive:layout.tar.gz"] {
        make(&place, "of-archive", &["--from", source]);
        assert!(fs::read(place.path("of-archive")).unwrap() == made, "{source}: other bytes");
    }
}

#[test]
fn docker_archive_gives_the_tree_of_its_layers() {
    let place = VolumeDir::new();
    let layers: Vec<Vec<u8>> = three_layers().into_iter().map(|(_, bytes)| bytes).collect();
    docker(&place.path("saved"), "example.com/tree:1", &layers);
    // Old versions of Docker store a layer once and link to it.
    fs::rename(place.path("saved/layer0/layer.tar"), place.path("saved/layer1/first")).unwrap();
    symlink("../layer1/first", place.path("saved/layer0/layer.tar")).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-cf", "saved.tar", "-C", "saved", "."]).current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
    for source in [
        "docker-archive:saved",
        "docker-archive:saved.tar",
        "docker-archive:saved.tar:example.com/tree:1",
    ] {
        make(&place, "out", &["--from", source]);
        check_three(&place, "out");
    }
    let refused = |arguments: &[&str], message: &str| check_refused(&place, arguments, 1, message);
    refused(&["--from", "docker-archive:saved.tar:other"], "has no image other");
    refused(
        &["--from", "docker-archive:saved.tar", "--platform", "linux/arm64"],
        "its platform is linux/amd64",
    );
    fs::write(place.path("saved/layer2/layer.tar"), archive(|to| to.file("x", b""))).unwrap();
    refused(&["--from", "docker-archive:saved"], "differ from their digest");
}

#[test]
fn platform_and_name_choose_one_image() {
    let place = VolumeDir::new();
    let directory = place.path("many");
    let mut layout = Layout::new(&directory);
    let image = |layout: &Layout<'_>, architecture: &str, text: &str| {
        let layer = archive(|to| to.file("which", text.as_bytes()));
        let mut image = layout.image(("linux", architecture), &[(Packing::Gzip, layer)]);
        image["platform"] = json!({"os": "linux", "architecture": architecture});
        image
    };
    let mut about = image(&layout, "unknown", "attestation");
    about["platform"] = json!({"os": "unknown", "architecture": "unknown"});
    let index = json!({"schemaVersion": 2, "manifests": [
        image(&layout, "riscv64", "of riscv"), image(&layout, "s390x", "of s390"), about,
    ]});
    let mut index =
        layout.blob("application/vnd.oci.image.index.v1+json", index.to_string().as_bytes());
    index["annotations"] = json!({"org.opencontainers.image.ref.name": "many"});
    layout.add(index);
    let mut single = image(&layout, "riscv64", "of single");
    single["annotations"] = json!({"org.opencontainers.image.ref.name": "single"});
    layout.add(single);
    layout.finish();
    for (source, platform, text) in [
        ("oci:many:many", "linux/s390x", "of s390"),
        ("oci:many:many", "linux/riscv64", "of riscv"),
        ("oci:many:single", "linux/riscv64", "of single"),
        ("oci:many", "linux/s390x", "of s390"),
    ] {
        make(&place, "out", &["--from", source, "--platform", platform]);
        assert_eq!(place.check(&["cat", "out:/which"]), text, "{source} {platform}");
    }
    make(&place, "out", &["--from", "oci:many:single"]);
    assert_eq!(place.check(&["cat", "out:/which"]), "of single", "the only one needs no platform");
    let refused = |arguments: &[&str], message: &str| check_refused(&place, arguments, 1, message);
    refused(&["--from", "oci:many:many", "--platform", "linux/arm"], "linux/riscv64, linux/s390x");
    refused(&["--from", "oci:many", "--platform", "linux/riscv64"], "has 2 images");
    refused(&["--from", "oci:many:other"], "it has: many, single");
    // A layout may lack the blobs of the platforms that its writer did not need.
    for blob in fs::read_dir(place.path("many/blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        let document: Option<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).ok();
        if document.is_some_and(|document| document["architecture"] == "riscv64") {
            fs::remove_file(path).unwrap();
        }
    }
    make(&place, "out", &["--from", "oci:many:many", "--platform", "linux/s390x"]);
    check_refused(&place, &["--from", "oci:many", "--platform", "linux"], 2, "is not a platform");
}

#[test]
fn damaged_and_strange_container_images_are_refused_before_anything_is_made() {
    let place = VolumeDir::new();
    let layer = || vec![(Packing::Gzip, archive(|to| to.file("f", b"contents")))];
    let refused =
        |code: i32, message: &str| check_refused(&place, &["--from", "oci:l"], code, message);
    let fresh = || {
        _ = fs::remove_dir_all(place.path("l"));
        layout(&place, "l", &layer());
        let blobs = fs::read_dir(place.path("l/blobs/sha256")).unwrap();
        let blobs: Vec<_> = blobs.map(|entry| entry.unwrap().path()).collect();
        let starts = |start: &[u8]| {
            let found = blobs.iter().find(|path| fs::read(path).unwrap().starts_with(start));
            found.unwrap().clone()
        };
        (starts(b"\x1f\x8b"), starts(b"{\"schemaVersion"))
    };
    let (blob, _) = fresh();
    let mut bytes = fs::read(&blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&blob, &bytes).unwrap();
    refused(1, "differ from their digest");
    bytes.push(0);
    fs::write(&blob, &bytes).unwrap();
    refused(1, "differ from their digest");
    fs::remove_file(&blob).unwrap();
    refused(1, "No such file");
    symlink("/etc/passwd", &blob).unwrap();
    refused(1, "l: blobs/sha256/");
    let (_, manifest) = fresh();
    fs::write(&manifest, b"{}").unwrap();
    refused(1, "differ from their digest");
    fresh();
    fs::write(place.path("l/oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    refused(3, "layout version \"2.0.0\"");
    fresh();
    fs::write(place.path("l/index.json"), "[").unwrap();
    refused(1, "index.json is not a document of JSON");
    fs::write(place.path("l/index.json"), r#"{"manifests":[]}"#).unwrap();
    refused(3, "has no image of a container");
    let digest = |digest: &str| {
        let index = json!({"manifests": [{"digest": digest, "size": 1}]});
        fs::write(place.path("l/index.json"), index.to_string()).unwrap();
    };
    digest("md5:00");
    refused(3, "md5:00 is not supported");
    digest("sha256:../../../etc/passwd");
    refused(1, "is not a digest");
    fs::remove_file(place.path("l/index.json")).unwrap();
    fs::File::create(place.path("l/index.json")).unwrap().set_len(1 << 40).unwrap();
    refused(1, "more than 16777216");
    check_refused(&place, &["--from", "oci:nowhere"], 1, "No such file");
    check_refused(&place, &["--from", "oci-archive:image"], 1, "is not an archive of tar");
}

/// Checks that an unpacked layer is compared with the digest in the configuration.
#[test]
fn layer_with_another_unpacked_digest_fails() {
    let place = VolumeDir::new();
    let directory = place.path("l");
    let mut layout = Layout::new(&directory);
    let good = archive(|to| to.file("f", b"contents"));
    let configuration = json!({
        "os": "linux", "architecture": "amd64",
        "rootfs": {"diff_ids": [format!("sha256:{}", oci::sha256(b"other"))]},
    });
    let configuration = configuration.to_string();
    let configuration =
        layout.blob("application/vnd.oci.image.config.v1+json", configuration.as_bytes());
    let blob = layout.blob("application/vnd.oci.image.layer.v1.tar", &good);
    let manifest = json!({"config": configuration, "layers": [blob]});
    let manifest = manifest.to_string();
    layout.add(layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes()));
    layout.finish();
    check_refused(&place, &["--from", "oci:l"], 1, "differ from their digest");
}

#[test]
fn layers_of_unknown_types_are_refused_by_name() {
    let place = VolumeDir::new();
    let directory = place.path("l");
    let mut layout = Layout::new(&directory);
    let configuration = json!({"rootfs": {"diff_ids": []}}).to_string();
    let configuration =
        layout.blob("application/vnd.oci.image.config.v1+json", configuration.as_bytes());
    let blob = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", b"secret");
    let manifest = json!({"config": configuration, "layers": [blob]}).to_string();
    layout.add(layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes()));
    layout.finish();
    check_refused(&place, &["--from", "oci:l"], 3, "tar+gzip+encrypted are not supported");
}

#[test]
fn several_sources_are_layers_in_order() {
    let place = VolumeDir::new();
    let write = |path: &str, contents: &str| {
        let path = place.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    };
    write("one/etc/hosts", "of one");
    write("one/etc/only", "only");
    write("one/tree/a/b", "");
    write("two/etc/hosts", "of two");
    write("two/tree", "a file now");
    write("extra/deep/file", "extra");
    let layer = archive(|to| {
        to.file("etc/hosts", b"of three");
        to.file(".wh.literal", b"a plain archive has no whiteouts");
        to.file("etc/.wh.only", b"");
    });
    fs::write(place.path("three.tar"), layer).unwrap();
    let sources = ["--from", "one", "--from", "two", "--from", "three.tar"];
    let added =
        ["--add", "extra:/opt/new", "--add", "one/etc/only:/etc/named", "--add", "two/tree:/srv/"];
    make(&place, "out", &[&sources[..], &added[..]].concat());
    let expected = [
        ".wh.literal",
        "etc",
        "etc/.wh.only",
        "etc/hosts",
        "etc/named",
        "etc/only",
        "opt",
        "opt/new",
        "opt/new/deep",
        "opt/new/deep/file",
        "srv",
        "srv/tree",
        "tree",
    ];
    assert_eq!(files(&place, "out"), expected);
    assert_eq!(place.check(&["cat", "out:/etc/hosts", "out:/tree"]), "of threea file now");
    make(&place, "again", &[&sources[..], &added[..]].concat());
    assert!(fs::read(place.path("out")).unwrap() == fs::read(place.path("again")).unwrap());
    check_refused(&place, &["--add", "extra"], 2, "is not SOURCE:DEST");
    check_refused(&place, &["--add", "extra:/a/../b"], 2, "must not contain");
    check_refused(&place, &["--from", "-", "--from", "-"], 2, "standard input is read once");
}

/// Checks that an image of layers holds no contents of files that a later layer has replaced.
#[test]
fn replaced_contents_do_not_stay_in_the_image() {
    let place = VolumeDir::new();
    let secret = b"-----a secret of a lower layer-----".repeat(1000);
    let first = archive(|to| to.file("secret", &secret));
    let second = archive(|to| to.file(".wh.secret", b""));
    layout(&place, "l", &[(Packing::Plain, first), (Packing::Plain, second)]);
    make(&place, "out", &["--from", "oci:l"]);
    let searched = |image: &str| {
        let mut grep = Command::new("grep");
        grep.args(["-qaF", "a secret of a lower layer"]).arg(place.path(image));
        grep.status().unwrap().code()
    };
    assert_eq!(searched("out"), Some(1), "the secret is in the image");
    fs::write(place.path("kept"), &secret).unwrap();
    assert_eq!(searched("kept"), Some(0), "grep finds the secret");
}

/// Checks that a whiteout removes a file although no pattern of `--include-from` matches the path
/// of the whiteout itself: the path of the file decides.
#[test]
fn whiteouts_count_for_the_files_that_patterns_take() {
    let place = VolumeDir::new();
    let first = archive(|to| {
        to.file("etc/keep", b"");
        to.file("etc/secret", b"");
        to.file("opaque/secret", b"");
        to.file("other", b"");
    });
    let second = archive(|to| {
        to.file("etc/.wh.secret", b"");
        to.file("opaque/.wh..wh..opq", b"");
    });
    layout(&place, "l", &[(Packing::Plain, first), (Packing::Plain, second)]);
    fs::write(place.path("taken"), "etc/keep\netc/secret\nopaque/secret\n").unwrap();
    make(&place, "out", &["--from", "oci:l", "--include-from", "taken"]);
    assert_eq!(files(&place, "out"), ["etc", "etc/keep", "opaque"]);
}

/// Writes a tree for the tests of the options that choose files.
fn tree(place: &VolumeDir) {
    for path in
        ["etc/a.conf", "etc/b.txt", "var/cache/x", "var/lib/y", "usr/lib/p/m.pyc", "usr/lib/p/m.py"]
    {
        let path = place.path("tree").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
}

/// Checks which files two kinds of sources give with these options.
#[track_caller]
fn check_chosen(place: &VolumeDir, options: &[&str], expected: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(["-cf", "tree.tar", "-C", "tree", "."]).current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
    for source in ["tree", "tree.tar"] {
        make(place, "out", &[&["--from", source], options].concat());
        let found = files(place, "out");
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let is_file = |path: &&str| path.contains('.') || path.ends_with(['x', 'y']);
        let found: Vec<&str> = found.into_iter().filter(is_file).collect();
        assert_eq!(found, expected, "{source} {options:?}");
    }
}

#[test]
fn patterns_choose_the_files_of_a_source() {
    let place = VolumeDir::new();
    tree(&place);
    let all = |without: &str| -> Vec<&'static str> {
        let all = [
            "etc/a.conf",
            "etc/b.txt",
            "usr/lib/p/m.py",
            "usr/lib/p/m.pyc",
            "var/cache/x",
            "var/lib/y",
        ];
        all.into_iter().filter(|path| !without.split(' ').any(|out| out == *path)).collect()
    };
    check_chosen(&place, &["--exclude", "*.pyc"], &all("usr/lib/p/m.pyc"));
    check_chosen(&place, &["--exclude", "var/cache/*"], &all("var/cache/x"));
    check_chosen(
        &place,
        &["--exclude", "/var/", "--exclude", "etc/*.txt"],
        &all("var/cache/x var/lib/y etc/b.txt"),
    );
    check_chosen(&place, &["--exclude", "usr/**/m.p?"], &all("usr/lib/p/m.py"));
    check_chosen(&place, &["--exclude", "lib"], &all("usr/lib/p/m.py usr/lib/p/m.pyc var/lib/y"));
    fs::write(place.path("some"), "# comment\n\netc/*.conf\nvar\n").unwrap();
    check_chosen(&place, &["--include-from", "some"], &["etc/a.conf", "var/cache/x", "var/lib/y"]);
    let both = ["--include-from", "some", "--exclude", "cache"];
    check_chosen(&place, &both, &["etc/a.conf", "var/lib/y"]);
    check_refused(&place, &["--from", "tree", "--exclude", "/"], 2, "is not a pattern");
    place.check(&["import", "--exclude", "usr", "tree", "image:/in"]);
    assert!(!files(&place, "image").contains(&"in/usr".to_owned()));
}

/// Returns mode, owner and time of a file of the image `out`.
#[track_caller]
fn shown(place: &VolumeDir, path: &str) -> String {
    place.check(&["find", &format!("out:/{path}"), "-maxdepth", "0", "-printf", "%m %U %G %T@"])
}

#[test]
fn owners_modes_and_times_follow_the_options() {
    let place = VolumeDir::new();
    let head = |name: &str, id: &[u8; 8]| Head {
        uid: *id,
        gid: *id,
        mode: *b"0000640\0",
        mtime: *b"00000001750\0",
        ..Head::new(name)
    };
    let bytes = archive(|to| {
        to.directory("d");
        to.add(&head("d/root", b"0000000\0"), b"");
        to.add(&head("d/user", b"0001750\0"), b"");
        to.pax(&[("SCHILY.acl.access", "user::rw-,user:1000:r--,group::r--,mask::r--,other::---")]);
        to.add(&head("d/list", b"0000001\0"), b"");
    });
    fs::write(place.path("a.tar"), bytes).unwrap();
    let with = |options: &[&str]| make(&place, "out", &[&["--from", "a.tar"], options].concat());
    with(&[]);
    assert_eq!(shown(&place, "d/user"), "640 1000 1000 1000.0000000000");
    with(&["--owner", "5:6"]);
    assert_eq!(shown(&place, "d/user"), "640 5 6 1000.0000000000");
    assert_eq!(shown(&place, "d"), "755 5 6 0.0000000000");
    with(&["--owner", ":6"]);
    assert_eq!(shown(&place, "d/user"), "640 1000 6 1000.0000000000");
    with(&["--chown-map", "1000:7", "--chown-map", "0:100000:1000"]);
    assert_eq!(shown(&place, "d/user"), "640 7 7 1000.0000000000");
    assert_eq!(shown(&place, "d/root"), "640 100000 100000 1000.0000000000");
    let list = place.check(&["getfacl", "out:/d/list"]);
    assert!(list.contains("user:7:r--") && list.contains("# owner: 100001"), "{list}");
    with(&["--mode", "go=u,o-w", "--mode", "400:d/root", "--mode", "700:/d/"]);
    assert_eq!(shown(&place, "d/user"), "664 1000 1000 1000.0000000000");
    assert_eq!(shown(&place, "d/root"), "400 0 0 1000.0000000000");
    assert_eq!(shown(&place, "d"), "700 0 0 0.0000000000");
    with(&["--mtime", "77"]);
    assert_eq!(shown(&place, "d/user"), "640 1000 1000 77.0000000000");
    with(&["--mtime", "clamp", "--time", "500"]);
    assert_eq!(shown(&place, "d/user"), "640 1000 1000 500.0000000000");
    for (options, message) in [
        (["--owner", "no-such-user"], "neither a user of this host nor a number"),
        (["--chown-map", "1:2:0"], "is not FROM:TO"),
        (["--chown-map", "1:4294967295:2"], "is not FROM:TO"),
        (["--mode", "9"], "is not a mode"),
        (["--mtime", "noon"], "neither \"clamp\" nor"),
    ] {
        check_refused(&place, &[&["--from", "a.tar"], &options[..]].concat(), 2, message);
    }
}

#[test]
fn file_contexts_label_all_files() {
    let place = VolumeDir::new();
    tree(&place);
    let contexts = "/.*  system_u:object_r:default_t:s0\n\
                    /etc(/.*)?  system_u:object_r:etc_t:s0\n\
                    /etc/a\\.conf -- system_u:object_r:conf_t:s0\n\
                    /var/lib/y -d <<none>>\n\
                    /var(/.*)? <<none>>\n";
    fs::write(place.path("contexts"), contexts).unwrap();
    make(
        &place,
        "out",
        &[
            "--from",
            "tree",
            "--selinux-file-contexts",
            "contexts",
            "--add",
            "tree/etc/b.txt:/opt/new/b",
        ],
    );
    let label = |path: &str| {
        let found = place.check(&["getfattr", "-d", "-m", "-", &format!("out:/{path}")]);
        found.split('"').nth(1).unwrap_or("none").trim_end_matches("\\000").to_owned()
    };
    assert_eq!(label("etc"), "system_u:object_r:etc_t:s0");
    assert_eq!(label("etc/a.conf"), "system_u:object_r:conf_t:s0");
    assert_eq!(label("etc/b.txt"), "system_u:object_r:etc_t:s0");
    assert_eq!(label("usr/lib"), "system_u:object_r:default_t:s0");
    assert_eq!(label(""), "system_u:object_r:default_t:s0");
    assert_eq!(
        label("opt/new"),
        "system_u:object_r:default_t:s0",
        "a directory that no source lists"
    );
    assert_eq!(label("var/lib/y"), "none");
    place.check(&["import", "--selinux-file-contexts", "contexts", "tree/etc", "image:/etc"]);
    let found = place.check(&["getfattr", "-d", "-m", "-", "image:/etc/a.conf"]);
    assert!(found.contains("conf_t"), "{found}");
    fs::write(place.path("contexts"), "/a(?=b) system_u:object_r:t:s0\n").unwrap();
    let options = ["--from", "tree", "--selinux-file-contexts", "contexts"];
    check_refused(&place, &options, 2, "line 1: /a(?=b): look-around is not supported");
    fs::write(place.path("contexts"), "/a -x system_u:object_r:t:s0\n").unwrap();
    check_refused(&place, &options, 2, "-x is not a type of a file");
}

#[test]
fn container_images_are_no_plain_paths() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("oci:plain")).unwrap();
    fs::write(place.path("oci:plain/file"), "plain").unwrap();
    make(&place, "out", &["--from", "./oci:plain"]);
    assert_eq!(files(&place, "out"), ["file"]);
}

/// Returns the size of an image in bytes, and its free bytes, those that it reserves included.
fn space(place: &VolumeDir, image: &str) -> (u64, u64) {
    let text = place.check(&["info", "--json", image]);
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |key: &str| facts[key].as_u64().unwrap_or_else(|| panic!("{key} in {text}"));
    (fs::metadata(place.path(image)).unwrap().len(), number("free_blocks") * 4096)
}

/// Returns contents of `length` bytes, a multiple of 1,000,000, without a block of zeros.
fn no_holes(length: usize) -> Vec<u8> {
    let million: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    million.repeat(length / million.len())
}

#[test]
fn automatic_size_holds_the_files_and_leaves_the_free_space() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/many")).unwrap();
    for number in 0..1500_u32 {
        let contents = vec![1; (number % 7) as usize * 1500];
        fs::write(place.path(&format!("tree/many/file-{number:05}")), contents).unwrap();
    }
    let auto = |out: &str, options: &[&str]| {
        let arguments = ["mkfs", "-f", "-q", "-d", "size=auto", "--from", "tree"];
        place.check(&[&arguments[..], options, &[out]].concat());
        place.check(&["check", out]);
        space(&place, out)
    };
    let (small, _) = auto("small", &[]);
    assert_eq!(small, 300 << 20, "the smallest volume holds this tree");
    // Most of it is no zeros: a hole takes no space.
    fs::write(place.path("tree/large"), no_holes(400_000_000)).unwrap();
    let (size, free) = auto("fits", &[]);
    assert!(size > 400 << 20 && free < size / 12, "{size} bytes, {free} free");
    let (_, free) = auto("roomy", &["--free", "100m"]);
    assert!((100 << 20..145 << 20).contains(&free), "{free} free");
    let (size, free) = auto("half", &["--free", "50%"]);
    assert!(free >= size / 2 && free < size * 6 / 10, "{size} bytes, {free} free");
    auto("again", &["--free", "50%"]);
    assert!(fs::read(place.path("half")).unwrap() == fs::read(place.path("again")).unwrap());
    let arguments = ["mkfs", "-q", "-d", "size=300m", "--from", "tree", "full"];
    place.check_failure(&arguments, 1, "; all files need a volume of about");
    assert!(!place.path("full").exists());
    place.check_failure(
        &["mkfs", "-q", "-d", "size=auto", "none"],
        2,
        "-d size=auto needs a source",
    );
    let arguments = ["mkfs", "-q", "-d", "size=1g", "--free", "1m", "--from", "tree", "none"];
    place.check_failure(&arguments, 2, "--free is for -d size=auto");
}

#[test]
fn automatic_size_reads_archives_and_standard_input() {
    let place = VolumeDir::new();
    let bytes = archive(|to| to.file("large", &no_holes(310_000_000)));
    fs::write(place.path("a.tar"), &bytes).unwrap();
    layout(&place, "l", &[(Packing::Gzip, bytes)]);
    let auto = |source: &str, out: &str| {
        let mut mkfs = place.command(&["mkfs", "-q", "-d", "size=auto", "--from", source, out]);
        mkfs.stdin(fs::File::open(place.path("a.tar")).unwrap());
        let output = mkfs.output().unwrap();
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        fs::read(place.path(out)).unwrap()
    };
    let first = auto("a.tar", "one");
    assert!(first == auto("-", "two"), "standard input gives the same");
    assert!((310..400).contains(&(first.len() >> 20)), "{} bytes", first.len());
    auto("oci:l", "three");
    place.check(&["check", "three"]);
}

#[test]
fn dump_of_composefs_gives_its_tree() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("objects/ab")).unwrap();
    fs::write(place.path("objects/ab/cdef"), "from an object").unwrap();
    let dump = "/ 4096 40755 4 0 0 0 5.0 - - -\n\
                /etc 4096 40711 4 1 2 0 6.0 - - - user.note=x\\x3dy\n\
                /etc/inline 10 100640 1 3 4 0 7.8 - some-text\\n -\n\
                /etc/large 14 100644 2 0 0 0 8.0 ab/cdef - -\n\
                /hard 14 @100644 2 0 0 0 8.0 /etc/large - -\n\
                /link 0 120777 1 0 0 0 9.0 etc/inline - -\n";
    fs::write(place.path("dump"), dump).unwrap();
    make(&place, "out", &["--from", "dump", "--composefs-objects", "objects"]);
    assert_eq!(place.check(&["cat", "out:/link", "out:/hard"]), "some-text\nfrom an object");
    assert_eq!(shown(&place, "etc/inline"), "640 3 4 7.0000000080");
    assert_eq!(place.fact("out:/hard", "Links:"), "2");
    assert!(place.check(&["getfattr", "-d", "out:/etc"]).contains("user.note=\"x=y\""));
    check_refused(&place, &["--from", "dump", "--composefs-objects", "none"], 1, "none: ");
    place.check_failure(&["import", "dump", "image"], 1, "--composefs-objects names");
    assert_eq!(place.check(&["cat", "image:/etc/inline"]), "some-text\n");
}
