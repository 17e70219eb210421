//! Tests of man pages and help: each has its sections, and each example runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::changing::VolumeDir;

/// The beginnings of examples that do not run here, because they need a mount.
const NOT_RUN: [&str; 5] =
    ["ferroxfs mount ", "ferroxfs run ", "ferroxfs umount ", "ferroxfs stats ", "ferroxfs serve "];

/// Returns the command lines in the examples section of a man page, without the escapes of roff.
fn examples(page: &str) -> Vec<String> {
    let (_, section) = page.split_once(".SH EXAMPLES\n").expect("a section of examples");
    let (section, _) = section.split_once("\n.SH ").expect("a section after it");
    let lines = section.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
    lines.map(|line| line.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\e", "\\")).collect()
}

fn pages(place: &VolumeDir) -> Vec<(String, String)> {
    place.check(&["man", "pages"]);
    let names = fs::read_dir(place.path("pages")).unwrap();
    let page = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let text = fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    };
    names.map(page).collect()
}

#[test]
fn every_page_has_examples_exit_status_and_see_also() {
    let place = VolumeDir::new();
    let pages = pages(&place);
    assert!(pages.len() > 40, "{}", pages.len());
    for (name, page) in &pages {
        for section in ["NAME", "SYNOPSIS", "EXAMPLES", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
            let heading = format!("\n.SH {section}\n");
            assert!(page.contains(&heading), "{name} has no {section}");
        }
        assert!(!examples(page).is_empty(), "{name}");
    }
}

#[test]
fn help_ends_with_examples_exit_status_and_see_also() {
    let place = VolumeDir::new();
    for (name, _) in pages(&place) {
        let words = name.strip_suffix(".1").unwrap().split('-').skip(1);
        let help = words.chain(["--help"]).collect::<Vec<_>>();
        let help = place.check(&help);
        for heading in ["\nExamples:\n", "\nExit status:\n", "\nSee also: "] {
            assert!(help.contains(heading), "{name}: {heading}");
        }
    }
}

/// Makes the files with which the examples of all man pages start.
fn furnish(place: &VolumeDir, program: &Path) {
    let script = r#"set -e
        mkdir -p tree/sub base/etc
        echo one > tree/a.conf; echo two > tree/sub/b; echo words > notes.txt
        echo 127.0.0.1 localhost > base/etc/hosts
        ln -s hosts base/etc/link
        printf '0x0 + 1\n0x0 0x3000000 +\n' > disk.map
        tar cf root.tar -C tree a.conf sub
        printf 'output = "new.img"\nfrom = "tree"\nsize = "300m"\n' > image.toml
        ferroxfs mkfs -q --unsupported --from base -d file,size=48m base.img
        ferroxfs setfattr -n user.origin -v here base.img:/etc/hosts"#;
    run(place.path("."), program, script);
}

fn run(directory: impl AsRef<Path>, program: &Path, script: &str) {
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", program.parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", script])
        .current_dir(directory)
        .env("PATH", path)
        .env("EDITOR", "true")
        .env_remove("VISUAL")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {}: {said}", output.status);
}

/// Makes the files that an example expects an earlier example to have made: a metadata image, a
/// plan, a volume whose realtime device has grown, or an undo file and the volume that it restores.
fn prepare(folder: impl AsRef<Path>, program: &Path, line: &str) {
    if line.contains("mdrestore") {
        let script = "ferroxfs metadump -q disk.img disk.metadump && zstd -q disk.metadump -o disk.metadump.zst";
        run(folder, program, script);
    } else if line.contains("growfs -r") {
        let script = "truncate -s 48m rt.img; rm disk.img; \
                      ferroxfs mkfs -q --unsupported -d file,size=48m -r rtdev=rt.img disk.img; \
                      truncate -s 64m rt.img";
        run(folder, program, script);
    } else if line.contains("--apply plan") {
        run(folder, program, "ferroxfs repair --plan -o plan disk.img");
    } else if line.contains("yesterday") {
        let script = "ferroxfs scan -q -o yesterday.parquet disk.img; cp disk.img yesterday.img";
        run(folder, program, script);
    } else if line.contains("--undo disk.img.undo") {
        let damage = "dd if=/dev/zero of=disk.img bs=512 seek=1 count=1 conv=notrunc status=none";
        run(folder, program, &format!("{damage}; ferroxfs repair --yes disk.img || [ $? = 1 ]"));
    }
}

#[test]
fn every_example_runs() {
    let place = VolumeDir::new();
    let program = Path::new(env!("CARGO_BIN_EXE_ferroxfs"));
    furnish(&place, program);
    let mut count = 0;
    for (name, page) in pages(&place) {
        for (index, line) in examples(&page).into_iter().enumerate() {
            if NOT_RUN.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let folder = format!("{name}.{index}");
            run(
                place.path("."),
                program,
                &format!(
                    "mkdir {folder} && cp -r tree root.tar notes.txt disk.map image.toml {folder} && \
                          cp --sparse=always base.img {folder}/disk.img"
                ),
            );
            prepare(place.path(&folder), program, &line);
            run(place.path(&folder), program, &line);
            fs::remove_dir_all(place.path(&folder)).unwrap();
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}
