//! Tests of the command `repair`: plans, applies, undo files, refusals and exit codes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::SeekFrom;
use serde_json::Value;

use crate::changing::VolumeDir;

/// The offset in bytes of the second sector of the image, which holds the first AGF.
const AGF: u64 = 512;

/// The blocks of an image that are not all zeros, by block number.
type Image = BTreeMap<u64, Vec<u8>>;

const BLOCK: usize = 4096;

/// Offset in the superblock of the count of free blocks, eight bytes.
const FREE_BLOCKS: usize = 144;

/// Reads the file `image` in the directory of a test.
fn image(place: &VolumeDir) -> Image {
    let file = File::open(place.path("image")).unwrap();
    let (mut blocks, mut at) = (Image::new(), 0);
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        for number in start / BLOCK as u64..end.div_ceil(BLOCK as u64) {
            let mut block = vec![0; BLOCK];
            file.read_exact_at(&mut block, number * BLOCK as u64).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                blocks.insert(number, block);
            }
        }
        at = end;
    }
    blocks
}

/// Returns a directory with a volume `image` that has some files.
fn filled() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    for number in 0..50 {
        fs::write(place.path("tree").join(number.to_string()), number.to_string()).unwrap();
    }
    place.check(&["import", "tree", "image:/"]);
    place
}

/// Returns a directory whose file `image` holds a volume with some files, and the contents of that
/// image. The first AGF of the volume is zeroed.
fn damaged() -> (VolumeDir, Image) {
    let place = filled();
    let file = File::options().write(true).open(place.path("image")).unwrap();
    file.write_all_at(&[0; 512], AGF).unwrap();
    let broken = image(&place);
    (place, broken)
}

/// Runs `repair` and returns its exit code, and what it wrote to standard output and error.
fn run(place: &VolumeDir, arguments: &[&str]) -> (i32, String) {
    let output = place.command(&[&["repair"], arguments].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

fn check_code(place: &VolumeDir, arguments: &[&str], expected: i32) -> String {
    let (code, said) = run(place, arguments);
    assert_eq!(code, expected, "{arguments:?}: {said}");
    said
}

#[test]
fn clean_volume_is_not_written() {
    let place = VolumeDir::new();
    let before = image(&place);
    check_code(&place, &["--plan", "image"], 0);
    let said = check_code(&place, &["--yes", "image"], 0);
    assert_eq!(said, "image: clean, nothing was written\n");
    assert!(image(&place) == before);
    assert!(!place.path("image.undo").exists());
}

#[test]
fn repair_is_undone_and_resumed_byte_for_byte() {
    let (place, broken) = damaged();
    check_code(&place, &["--plan", "image"], 4);
    assert!(image(&place) == broken, "a plan wrote to the image");
    let said = check_code(&place, &["--yes", "image"], 1);
    assert!(said.contains("clean after the repair"), "{said}");
    let repaired = image(&place);
    place.check(&["check", "-q", "image"]);
    check_code(&place, &["--undo", "image.undo", "image"], 0);
    assert!(image(&place) == broken, "the undo does not end as before");
    check_code(&place, &["--resume", "image.undo", "image"], 1);
    assert!(image(&place) == repaired, "the resume does not end as after");
    let said = check_code(&place, &["--yes", "image"], 8);
    assert!(said.contains("exists already"), "{said}");
}

#[test]
fn plan_is_applied_to_its_image_only() {
    let (place, broken) = damaged();
    check_code(&place, &["--plan", "-o", "plan", "image"], 4);
    let first = fs::read_to_string(place.path("plan")).unwrap();
    check_code(&place, &["--plan", "-o", "again", "image"], 4);
    assert_eq!(fs::read_to_string(place.path("again")).unwrap(), first);

    fs::write(place.path("edited"), first.replacen("\"rounds\":", "\"rounds\": ", 1)).unwrap();
    let said = check_code(&place, &["--apply", "edited", "image"], 8);
    assert!(said.contains("digest"), "{said}");
    // One more damage: the plan is of another state of the image.
    let file = File::options().write(true).open(place.path("image")).unwrap();
    file.write_all_at(&[0; 512], 2 * AGF).unwrap();
    let said = check_code(&place, &["--apply", "plan", "image"], 8);
    assert!(said.contains("does not match the image"), "{said}");
    file.write_all_at(&broken[&0][1024..1536], 2 * AGF).unwrap();
    assert!(image(&place) == broken);

    check_code(&place, &["--apply", "plan", "--undo-file", "back", "image"], 1);
    place.check(&["check", "-q", "image"]);
    check_code(&place, &["--undo", "back", "image"], 0);
    assert!(image(&place) == broken);
}

#[test]
fn plan_without_losses_is_applied_although_losses_are_allowed() {
    let (place, _) = damaged();
    check_code(&place, &["--plan", "-o", "plan", "image"], 4);
    let losses = ["--allow-loss", "--quarantine", "kept"];
    check_code(&place, &[&["--apply", "plan"], &losses[..], &["image"]].concat(), 1);
    place.check(&["check", "-q", "image"]);
}

/// Overwrites the superblocks of all groups with zeros. Returns the old first sector.
fn zero_superblocks(place: &VolumeDir) -> [u8; 512] {
    let file = File::options().read(true).write(true).open(place.path("image")).unwrap();
    let mut sector = [0; 512];
    file.read_exact_at(&mut sector, 0).unwrap();
    let number = |at: usize| u32::from_be_bytes(sector[at..at + 4].try_into().unwrap());
    let group_bytes = u64::from(number(84)) * u64::from(number(4));
    for group in 0..u64::from(number(88)) {
        file.write_all_at(&[0; 512], group * group_bytes).unwrap();
    }
    sector
}

/// Checks that a repair with `--allow-loss` writes all superblocks again after all of them were
/// overwritten with zeros. Three volumes are repaired: one with a reverse map, a new one without,
/// and one without a reverse map whose log has a superblock. The repair of the last one loses no
/// label.
#[test]
fn superblocks_that_are_all_lost_are_written_again() {
    for (reverse_map, is_new) in [("rmapbt=1", true), ("rmapbt=0", true), ("rmapbt=0", false)] {
        let place = VolumeDir::new();
        fs::remove_file(place.path("image")).unwrap();
        place.check(&["mkfs", "-q", "-m", reverse_map, "-d", "size=300m", "image"]);
        if !is_new {
            place.put("image:/name", b"contents");
        }
        let sector = zero_superblocks(&place);
        let said = check_code(&place, &["--plan", "image"], 8);
        assert!(said.contains("with --allow-loss"), "{said}");
        let losses = ["--allow-loss", "--quarantine", "kept"];
        let said = check_code(&place, &[&["--yes"], &losses[..], &["image"]].concat(), 1);
        assert_eq!(said.contains("LOSES the label of the volume"), is_new, "{said}");
        place.check(&["check", "-q", "image"]);
        // Sizes, UUID, log and inodes.
        let mut made = fs::read(place.path("image")).unwrap();
        // No inode of a new volume without reverse map shows the flag ATTR. The first attribute
        // sets it again.
        made[101] |= sector[101] & 0x10;
        assert_eq!(made[..108], sector[..108], "{reverse_map}");
        if !is_new {
            let output = place.command(&["cat", "image:/name"]).output().unwrap();
            assert_eq!(output.stdout, b"contents");
        }
    }
}

#[test]
fn damaged_undo_file_is_refused() {
    let (place, _) = damaged();
    check_code(&place, &["--yes", "image"], 1);
    let repaired = image(&place);
    let mut undo = fs::read(place.path("image.undo")).unwrap();
    let middle = undo.len() / 2;
    undo[middle] ^= 1;
    fs::write(place.path("image.undo"), undo).unwrap();
    let said = check_code(&place, &["--undo", "image.undo", "image"], 8);
    assert!(said.contains("the undo file has a damaged run"), "{said}");
    assert!(image(&place) == repaired);
}

#[test]
fn undo_after_another_change_is_refused() {
    let (place, _) = damaged();
    check_code(&place, &["--yes", "image"], 1);
    place.check(&["mkdir", "image:/later"]);
    let changed = image(&place);
    let said = check_code(&place, &["--undo", "image.undo", "image"], 8);
    assert!(said.contains("another program has changed the volume"), "{said}");
    assert!(image(&place) == changed);
}

/// Checks that an action on the whole volume is printed without a place. The action corrects a
/// wrong count in the superblock.
#[test]
fn action_on_the_whole_volume_prints_no_place() {
    let place = filled();
    let file = File::options().read(true).write(true).open(place.path("image")).unwrap();
    let mut sector = vec![0; 512];
    file.read_exact_at(&mut sector, 0).unwrap();
    sector[FREE_BLOCKS + 7] ^= 1;
    xfs_format::superblock::seal(&mut sector);
    file.write_all_at(&sector, 0).unwrap();
    let said = check_code(&place, &["--plan", "image"], 4);
    assert!(said.lines().any(|line| line.starts_with("counters (sb.")), "{said}");
}

#[test]
fn plan_is_read_by_programs() {
    let (place, _) = damaged();
    let document = check_code(&place, &["--plan", "--json", "image"], 4);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "ferroxfs.repair/1");
    assert!(!document["actions"].as_array().unwrap().is_empty());
    assert_eq!(document["left"].as_array().unwrap().len(), 0);
    let run = &document["runs"][0];
    assert_ne!(run["before"], run["after"], "{run}");
}

#[test]
fn losses_need_a_quarantine() {
    let (place, broken) = damaged();
    check_code(&place, &["--yes", "--allow-loss", "image"], 16);
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "").unwrap();
    check_code(&place, &["--yes", "--allow-loss", "--quarantine", "full", "image"], 8);
    assert!(image(&place) == broken);
    check_code(&place, &["--yes", "--allow-loss", "--quarantine", "kept", "image"], 1);
    let manifest = fs::read_to_string(place.path("kept/manifest")).unwrap();
    let lines: Vec<Value> =
        manifest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let blocks = fs::read(place.path("kept/blocks")).unwrap();
    // Every run of the manifest is in `blocks` as it was before the repair.
    let mut runs = 0;
    for run in lines.iter().filter(|line| line["kind"] == "overwritten") {
        let number = |key: &str| run[key].as_u64().unwrap() as usize;
        let mut kept = blocks[number("position")..][..number("length")].chunks(512);
        for offset in (number("offset")..).step_by(512) {
            let Some(kept) = kept.next() else { break };
            let block = broken.get(&((offset / BLOCK) as u64));
            let before = block.map_or(&[0; 512][..], |block| &block[offset % BLOCK..][..512]);
            assert!(before == kept, "the sector at byte {offset}");
        }
        runs += 1;
    }
    assert!(runs > 0, "{manifest}");
}

#[test]
fn image_in_use_is_refused() {
    let (place, broken) = damaged();
    let lock = File::open(place.path("image")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for mode in ["--plan", "--yes"] {
        check_code(&place, &[mode, "image"], 8);
    }
    drop(lock);
    assert!(image(&place) == broken);
    assert!(!place.path("image.undo").exists());
}

/// Returns a volume with two damages, and the contents of the damaged image. A copy of the
/// superblock can be repaired; an overwritten inode cannot be repaired without a loss.
fn partly_repairable() -> (VolumeDir, Image) {
    let place = filled();
    let sound = image(&place);
    let inode = |block: &[u8]| block.starts_with(b"IN") && block[2] == 0x81;
    let inode = sound.iter().find_map(|(number, block)| {
        let at = block.chunks(512).position(inode)?;
        Some(number * BLOCK as u64 + at as u64 * 512)
    });
    damage_newest_record(&place);
    let file = File::options().read(true).write(true).open(place.path("image")).unwrap();
    file.write_all_at(&[0xff; 512], inode.expect("a regular file")).unwrap();
    let field = |offset: u64| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, offset).unwrap();
        u64::from(u32::from_be_bytes(bytes))
    };
    let (block_bytes, group_blocks) = (field(4), field(84));
    file.write_all_at(&[0; 512], block_bytes * group_blocks).unwrap();
    let broken = image(&place);
    (place, broken)
}

/// The size of an inode in bytes.
const INODE_BYTES: u64 = 512;

/// Runs a command with `--json` and returns what it printed.
fn json(place: &VolumeDir, arguments: &[&str]) -> Value {
    let output = place.command(&[arguments, &["--json"]].concat()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Overwrites the whole inode of the file at `path` with bytes of the value `byte`.
fn overwrite_inode(place: &VolumeDir, path: &str, byte: u8) {
    let stat = json(place, &["stat", path]);
    let number = stat["files"][0]["ino"].as_u64().unwrap_or_else(|| panic!("{stat}"));
    let info = json(place, &["info", "image"]);
    let group_inodes = info["ag_blocks"].as_u64().unwrap() * (BLOCK as u64 / INODE_BYTES);
    // An inode number has the group above the bits of the number in the group.
    let bits = group_inodes.next_power_of_two().trailing_zeros();
    let (group, inode) = (number >> bits, number & ((1 << bits) - 1));
    let file = File::options().write(true).open(place.path("image")).unwrap();
    let at = (group * group_inodes + inode) * INODE_BYTES;
    file.write_all_at(&[byte; INODE_BYTES as usize], at).unwrap();
}

/// Returns a directory with a volume that has a file, a directory and a symbolic link. All changes
/// that made them are still in its log.
fn logged() -> VolumeDir {
    let place = filled();
    place.check(&["mkdir", "image:/directory"]);
    place.check(&["chmod", "0711", "image:/directory"]);
    place.check(&["cp", "tree/7", "image:/directory/below"]);
    place.check(&["ln", "-s", "target", "image:/link"]);
    place
}

/// Checks that overwritten inodes are restored from the log, without any loss: after the repair,
/// the image has the same bytes as before the damage.
#[test]
fn overwritten_inode_is_restored_from_the_log_byte_for_byte() {
    let place = logged();
    let before = image(&place);
    for path in ["image:/7", "image:/directory", "image:/link"] {
        for byte in [0, 0x5a] {
            overwrite_inode(&place, path, byte);
            let said = check_code(&place, &["--yes", "image"], 1);
            assert!(said.contains("the log has the newest state of the inode"), "{said}");
            assert!(image(&place) == before, "{path}: the image is not as before: {said}");
            fs::remove_file(place.path("image.undo")).unwrap();
        }
    }
}

/// Damages the newest record of the log. It may have held newer states of inodes, so a state in an
/// earlier record is no longer known to be the newest.
fn damage_newest_record(place: &VolumeDir) {
    let log = json(place, &["log", "image"]);
    let head = log["head"].as_str().and_then(|lsn| lsn.split(':').nth(1));
    let head: u64 = head.unwrap_or_else(|| panic!("{log}")).parse().unwrap();
    let file = File::options().write(true).open(place.path("image")).unwrap();
    let last_block = log["start"].as_u64().unwrap() + head - 1;
    file.write_all_at(&[0xff], last_block * 512 + 300).unwrap();
}

#[test]
fn overwritten_inode_is_not_taken_from_a_log_that_is_damaged_after_it() {
    let place = logged();
    damage_newest_record(&place);
    overwrite_inode(&place, "image:/7", 0);
    let said = check_code(&place, &["--plan", "image"], 4);
    assert!(!said.contains("the log has the newest state of the inode"), "{said}");
}

#[test]
fn plan_that_leaves_damage_needs_partial() {
    let (place, broken) = partly_repairable();
    let said = check_code(&place, &["--plan", "-o", "plan", "image"], 4);
    assert!(said.contains("--yes --partial image"), "{said}");
    for mode in [&["--yes"][..], &["--apply", "plan"]] {
        let said = check_code(&place, &[mode, &["image"]].concat(), 4);
        assert!(said.contains("nothing was written; --partial"), "{said}");
        assert!(image(&place) == broken, "{mode:?} wrote to the image");
        assert!(!place.path("image.undo").exists());
    }
    let said = check_code(&place, &["--yes", "--partial", "image"], 4);
    assert!(said.contains("takes it back"), "{said}");
    let repaired = image(&place);
    assert!(repaired != broken);
    check_code(&place, &["--undo", "image.undo", "image"], 0);
    assert!(image(&place) == broken);
    check_code(&place, &["--resume", "image.undo", "image"], 4);
    assert!(image(&place) == repaired);
}

/// Returns a directory with a volume, and the paths of all its files. The headers, btrees and first
/// inodes of the second group are overwritten, but the log still has all inodes.
fn without_a_group_head() -> (VolumeDir, String) {
    let place = VolumeDir::new();
    for directory in 0..8 {
        let directory = place.path("tree").join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..18 {
            fs::write(directory.join(number.to_string()), number.to_string()).unwrap();
        }
    }
    place.check(&["import", "tree", "image:/"]);
    let paths = place.check(&["find", "image:/"]);
    let info = json(&place, &["info", "image"]);
    let group_bytes = info["ag_blocks"].as_u64().unwrap() * BLOCK as u64;
    let file = File::options().write(true).open(place.path("image")).unwrap();
    file.write_all_at(&[0x5a; 24 * BLOCK], group_bytes).unwrap();
    (place, paths)
}

#[test]
fn lost_chunk_keeps_the_names_of_inodes_that_the_log_has() {
    let (place, paths) = without_a_group_head();
    let lossy = ["--yes", "--allow-loss", "--quarantine", "kept", "image"];
    let said = check_code(&place, &lossy, 1);
    assert!(!said.contains("LOSES the name"), "{said}");
    assert_eq!(place.check(&["find", "image:/"]), paths);
    for directory in 0..8 {
        let path = format!("image:/{directory}/17");
        assert_eq!(place.check(&["cat", &path]), "17");
    }
    place.check(&["check", "-q", "image"]);
}

#[test]
fn plan_names_the_commands_for_damage_that_needs_a_loss() {
    let (place, _) = without_a_group_head();
    let lossy = "'ferroxfs repair --plan --allow-loss image' shows them; run 'ferroxfs salvage \
                 image DIR' first";
    for mode in ["--plan", "--yes"] {
        let said = check_code(&place, &[mode, "image"], 4);
        assert!(said.contains(&format!("would repair it: {lossy}")), "{mode}: {said}");
        assert!(said.contains("not done: "), "{mode}: {said}");
        assert!(!said.contains("no rule repairs this damage\n"), "{mode}: {said}");
    }
    let said = check_code(&place, &["--plan", "--allow-loss", "image"], 4);
    let command = "'ferroxfs repair --yes --allow-loss --quarantine DIR image' does it";
    assert!(said.contains(command), "{said}");
    assert!(said.contains("would be lost: run 'ferroxfs salvage image DIR' first"), "{said}");
    let output = place.run(&["check", "image"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("may need --allow-loss: run 'ferroxfs salvage image DIR'"), "{said}");
}

#[test]
fn suggested_commands_name_the_place_of_the_volume() {
    let (place, _) = damaged();
    let volume = fs::read(place.path("image")).unwrap();
    let file = File::create(place.path("disk image")).unwrap();
    file.set_len(volume.len() as u64 + (1 << 20)).unwrap();
    file.write_all_at(&volume, 1 << 20).unwrap();
    let at = ["--offset", "1m", "disk image"];
    let said = check_code(&place, &[&["--plan"], &at[..]].concat(), 4);
    let command = "'ferroxfs repair --yes --offset 1048576 'disk image'' does it";
    assert!(said.contains(command), "{said}");
    let said = check_code(&place, &[&["--yes"], &at[..]].concat(), 1);
    let command = "--undo 'disk image.undo' --offset 1048576 'disk image'' takes it back";
    assert!(said.contains(command), "{said}");
}

#[test]
fn short_image_gets_no_promise_of_a_repair() {
    let place = filled();
    let file = File::options().write(true).open(place.path("image")).unwrap();
    // The log is in the middle of the volume.
    file.set_len(150 << 20).unwrap();
    let output = place.run(&["check", "image"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("sb.device-short"), "{said}");
    assert!(said.contains("there is no repair for it"), "{said}");
    let said = check_code(&place, &["--plan", "image"], 8);
    let hint = "hint: nothing was written; 'ferroxfs salvage image DIR' copies the files";
    assert!(said.contains(hint) && said.contains("--plan --allow-loss image"), "{said}");
}

#[test]
fn undo_file_and_quarantine_are_readable_by_the_owner_only() {
    let (place, _) = damaged();
    check_code(&place, &["--yes", "--allow-loss", "--quarantine", "kept", "image"], 1);
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o777;
    assert_eq!(mode("kept"), 0o700);
    for name in ["image.undo", "kept/manifest", "kept/blocks"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn repair_that_writes_nothing_leaves_no_file_in_the_quarantine() {
    let place = VolumeDir::new();
    let lossy = ["--yes", "--allow-loss", "--quarantine", "kept", "image"];
    check_code(&place, &lossy, 0);
    assert_eq!(fs::read_dir(place.path("kept")).unwrap().count(), 0);
    check_code(&place, &lossy, 0);
    // An undo file that exists is noticed before the quarantine is made.
    fs::remove_dir(place.path("kept")).unwrap();
    fs::write(place.path("image.undo"), "").unwrap();
    check_code(&place, &lossy, 8);
    assert!(!place.path("kept").exists());
}

#[test]
fn exit_codes_of_fsck_do_not_depend_on_options_before_the_command() {
    let (place, _) = damaged();
    for (arguments, expected) in [
        (&["--color", "never", "check", "image"][..], 4),
        (&["--color", "never", "repair", "--plan", "image"], 4),
        (&["--offset", "1m", "repair", "--no-such-option", "image"], 16),
        (&["--color", "never", "repair", "--yes", "image"], 1),
    ] {
        let output = place.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {output:?}");
    }
}
