//! The container image: one layer with the program and its licences, as an archive of the OCI image
//! layout.
//!
//! ```text
//! oci-layout               the version of the layout
//! index.json               the digest of the manifest, and the name of the image
//! blobs/sha256/DIGEST      the manifest, the configuration, the layer (tar, gzip)
//! ```
//!
//! Owns: these files, and a trial: the program makes a volume from the image and finds itself in
//! it. The layer holds nothing else, because the program is static.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::archive::{Archive, gzip, sha256};
use super::materials::Materials;
use super::{ARCHITECTURE, Dist, VERSION, licences};
use crate::command;
use crate::error::Error;

const PROGRAM: &str = "usr/bin/ferroxfs";
const DOCUMENTS: &str = "usr/share/doc/ferroxfs";
/// The folders of the layer, each after the one that holds it.
const FOLDERS: [&str; 5] = ["usr", "usr/bin", "usr/share", "usr/share/doc", DOCUMENTS];

/// The digest and the size of a blob, as other blobs name it.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        Ok(Self { digest: sha256(&bytes)?, bytes })
    }

    fn json(value: &Value) -> Result<Self, Error> {
        Self::new(serde_json::to_vec(value)?)
    }

    /// Returns the descriptor of this blob: an object that refers to it.
    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": format!("application/vnd.oci.image.{media_type}"),
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes.len(),
        })
    }
}

/// Makes the image at `dist.image`.
pub(super) fn build(root: &Path, dist: &Dist, materials: &Materials) -> Result<(), Error> {
    let time = dist.seconds()?;
    let layer = layer(root, dist, materials)?;
    let diff = sha256(&layer)?;
    let layer = Blob::new(gzip(&layer)?)?;
    let configuration = Blob::json(&configuration(&diff, materials.time()))?;
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip")],
        "annotations": annotations(materials.time()),
    }))?;
    let mut index = manifest.descriptor("manifest.v1+json");
    if let Some(fields) = index.as_object_mut() {
        let platform = json!({ "architecture": ARCHITECTURE, "os": "linux" });
        fields.insert("platform".to_owned(), platform);
        let name = json!({ "org.opencontainers.image.ref.name": VERSION });
        fields.insert("annotations".to_owned(), name);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [index],
    });
    let mut archive = Archive::new(time);
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.file("index.json", 0o644, &serde_json::to_vec(&index)?)?;
    archive.folder("blobs")?;
    archive.folder("blobs/sha256")?;
    for blob in [manifest, configuration, layer] {
        archive.file(&format!("blobs/sha256/{}", blob.digest), 0o644, &blob.bytes)?;
    }
    fs::write(&dist.image, archive.bytes()?).map_err(Error::file(&dist.image))
}

/// Returns the layer before its compression.
fn layer(root: &Path, dist: &Dist, materials: &Materials) -> Result<Vec<u8>, Error> {
    let program = fs::read(&dist.program).map_err(Error::file(&dist.program))?;
    let mut archive = Archive::new(dist.seconds()?);
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    archive.file(PROGRAM, 0o755, &program)?;
    let documents =
        [("copyright", licences::ours(root)?), ("licences", licences::texts(materials)?)];
    for (name, text) in documents {
        archive.file(&format!("{DOCUMENTS}/{name}"), 0o644, text.as_bytes())?;
    }
    archive.bytes()
}

/// Returns the configuration of containers of this image. `diff` is the digest of the layer before
/// its compression.
fn configuration(diff: &str, time: &str) -> Value {
    json!({
        "created": time,
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/{PROGRAM}")],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/",
            "Labels": annotations(time),
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
        "history": [{ "created": time, "created_by": "cargo xtask dist" }],
    })
}

/// Returns the facts that the image states about itself.
fn annotations(time: &str) -> Value {
    json!({
        "org.opencontainers.image.created": time,
        "org.opencontainers.image.title": "ferroxfs",
        "org.opencontainers.image.description":
            "XFS in user space: make, read, change and mount XFS volumes",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        "org.opencontainers.image.vendor": env!("CARGO_PKG_AUTHORS"),
    })
}

/// Makes a volume from the image with the program of the image. The program in the volume must have
/// the same bytes. Then lets skopeo inspect the image, if it is installed.
pub(super) fn check(dist: &Dist) -> Result<(), Error> {
    let volume = dist.folder.join("image.xfs");
    let source = format!("oci-archive:{}", dist.image.display());
    let mut mkfs = Command::new(&dist.program);
    mkfs.args(["mkfs", "-q", "-d", "size=auto", "--from", &source]).arg(&volume);
    command::run(&mut mkfs)?;
    let copy = dist.folder.join("ferroxfs.copy");
    let mut get = Command::new(&dist.program);
    let inside = format!("{}:/{PROGRAM}", volume.display());
    command::run(get.args(["cp", "-q", &inside]).arg(&copy))?;
    command::run(Command::new("cmp").args([&dist.program, &copy]))?;
    for path in [&volume, &copy] {
        fs::remove_file(path).map_err(Error::file(path))?;
    }
    if !command::is_in_path("skopeo") {
        println!("left out: the inspection of the image: skopeo is not installed");
        return Ok(());
    }
    // skopeo checks the digest of every blob that it copies.
    let copy = dist.folder.join("image.copy");
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["--insecure-policy", "copy", "--quiet", &source]);
    command::run(skopeo.arg(format!("dir:{}", copy.display())))?;
    fs::remove_dir_all(&copy).map_err(Error::file(&copy))?;
    let inspected = command::output(Command::new("skopeo").args(["inspect", &source]))?;
    let inspected: Value = serde_json::from_str(&inspected)?;
    let labels = inspected.get("Labels");
    let version = labels.and_then(|labels| labels.get("org.opencontainers.image.version"));
    let architecture = inspected.get("Architecture");
    if architecture == Some(&json!(ARCHITECTURE)) && version == Some(&json!(VERSION)) {
        return Ok(());
    }
    Err(Error::Dist(format!("skopeo sees another image: {inspected}")))
}
