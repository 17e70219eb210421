//! Tests of volumes in disk images and behind NBD servers. qemu-img makes the images and qemu-nbd
//! is the server; a test says that it is skipped where they are not installed.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{GoldenDir, transcript};

/// Runs qemu-img in the directory. If qemu-img is not installed, prints that the test is skipped
/// and returns `false`.
fn qemu_img(place: &GoldenDir, arguments: &[&str]) -> bool {
    match Command::new("qemu-img").current_dir(place.path()).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            eprintln!("skipped: qemu-img cannot be run ({error})");
            false
        }
    }
}

/// Checks that `ls` shows the same for the golden volume in a raw image and in disk images of
/// several formats. The command runs inside the sandbox.
#[test]
fn volume_in_a_disk_image_is_listed_as_in_the_raw_image() {
    let place = GoldenDir::new();
    let list = |image: &str| transcript(&place.run(&["ls", "-laR", "--sandbox=always", image]));
    let expected = list("image");
    assert!(expected.lines().count() > 20, "{expected}");
    for form in [
        &["-O", "vmdk", "-o", "subformat=streamOptimized"][..],
        &["-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"],
        &["-O", "vhdx"],
        &["-O", "vdi"],
        &["-O", "qcow2", "-c", "-o", "compression_type=zstd"],
    ] {
        let convert = [&["convert", "-f", "raw"], form, &["image", "disk"]].concat();
        if !qemu_img(&place, &convert) {
            return;
        }
        assert_eq!(list("disk"), expected, "{form:?}");
    }
    let overlay = ["create", "-q", "-f", "qcow2", "-b", "disk", "-F", "qcow2", "overlay"];
    assert!(qemu_img(&place, &overlay));
    assert_eq!(list("overlay"), expected);
}

#[test]
fn disk_image_that_grows_is_not_written() {
    let place = GoldenDir::new();
    if !qemu_img(&place, &["convert", "-f", "raw", "-O", "vhdx", "image", "disk"]) {
        return;
    }
    let refused = transcript(&place.run(&["mkdir", "disk:/new"]));
    assert!(refused.contains("disk: is a VHDX disk image, which ferroxfs does not write"));
    assert!(refused.contains("exit 3"), "{refused}");
}

/// Checks that no file is lost when an NBD server is killed: the image must hold each file whose
/// `put` succeeded. The files are written through qemu-nbd, by one command after the other.
#[test]
fn files_written_through_a_killed_nbd_server_are_in_the_image() {
    let place = GoldenDir::new();
    let Some(server) = serve(&place) else { return };
    let image = format!("nbd+unix:///disk?socket={}", place.path().join("socket").display());
    let put = |number: u32| {
        std::fs::write(place.path().join("source"), format!("file {number}")).unwrap();
        place.run(&["cp", "source", &format!("{image}:/file-{number}")])
    };
    let info = transcript(&place.run(&["info", "--sandbox=always", &image]));
    assert!(info.contains("UUID") || info.contains("uuid"), "{info}");
    for number in 0..3 {
        let output = transcript(&put(number));
        assert!(!output.contains("exit"), "{output}");
    }
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        drop(server);
    });
    let mut done = 3;
    while put(done).status.success() {
        done += 1;
    }
    killer.join().unwrap();
    let failed = transcript(&put(done));
    assert!(failed.contains("NBD server"), "{failed}");
    for number in 0..done {
        let output = transcript(&place.run(&["cat", &format!("image:/file-{number}")]));
        assert_eq!(output, format!("file {number}"));
    }
    let check = place.run(&["check", "image"]);
    assert!(check.status.success(), "{}", transcript(&check));
}

/// Checks that `mkfs` makes and fills a volume on an NBD export whose server ends with its first
/// connection. Also checks that old contents are replaced only on request.
#[test]
fn volume_is_made_and_filled_on_an_nbd_export() {
    let place = GoldenDir::new();
    std::fs::create_dir_all(place.path().join("tree/below")).unwrap();
    std::fs::write(place.path().join("tree/below/file"), "contents".repeat(9000)).unwrap();
    std::fs::File::create(place.path().join("new")).unwrap().set_len(320 << 20).unwrap();
    let socket = place.path().join("socket");
    let export = format!("nbd+unix:///disk?socket={}", socket.display());
    let mkfs = |options: &[&str], image: &str| {
        let server = serve_file(&place, image, &[])?;
        let made = transcript(&place.run(&[&["mkfs", "-q"], options, &[&export]].concat()));
        drop(server);
        let _ = std::fs::remove_file(&socket);
        Some(made)
    };
    let Some(made) = mkfs(&["--from", "tree"], "new") else { return };
    assert_eq!(made, "");
    let check = place.run(&["check", "new"]);
    assert!(check.status.success(), "{}", transcript(&check));
    let read = transcript(&place.run(&["cat", "new:/below/file"]));
    assert_eq!(read, "contents".repeat(9000));
    let refused = mkfs(&[], "new").unwrap();
    assert!(refused.contains("holds an XFS volume already"), "{refused}");
    assert!(refused.contains("exit 1"), "{refused}");
    assert_eq!(mkfs(&["-N"], "new").unwrap(), "");
    assert_eq!(transcript(&place.run(&["cat", "new:/below/file"])), read);
    assert_eq!(mkfs(&["-f", "-L", "again"], "new").unwrap(), "");
    assert_eq!(transcript(&place.run(&["label", "new"])).trim(), "again");
    assert!(place.run(&["check", "new"]).status.success());
}

/// A running qemu-nbd, which is killed when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves the golden image as the export "disk", to one client after the other. If qemu-nbd is not
/// installed, prints that the test is skipped and returns `None`.
fn serve(place: &GoldenDir) -> Option<Server> {
    serve_file(place, "image", &["--persistent"])
}

/// Serves the file `image` as the export "disk". Without `--persistent` among the options, the
/// server ends with its first connection.
fn serve_file(place: &GoldenDir, image: &str, options: &[&str]) -> Option<Server> {
    let socket = place.path().join("socket");
    let spawned = Command::new("qemu-nbd")
        .current_dir(place.path())
        .args(["-f", "raw", "-x", "disk"])
        .args(options)
        .arg("-k")
        .arg(&socket)
        .arg(image)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(child) => {
            xfs_testkit::wait_until_listening(&socket);
            Some(Server(child))
        }
        Err(error) => {
            eprintln!("skipped: qemu-nbd cannot be run ({error})");
            None
        }
    }
}
