//! A container image of 12 layers in the layout of OCI.
//!
//! The first layer is the archive of a root filesystem. Each further layer adds files, replaces
//! files of the layer before it and hides others by whiteouts. Some layers make a directory opaque,
//! and the last one hides the documentation of the first layer.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::Extent;
use crate::builders::outcome::sha256;
use crate::error::BenchError;

const LAYERS: u32 = 12;
/// Number of files that a layer adds.
const FILES: u32 = 400;
/// Number of files of the layer before that a layer replaces, and of those that it hides.
const CHANGED: u32 = 100;
/// Every such layer makes a directory of an earlier one opaque.
const OPAQUE_STEP: u32 = 4;
const FILE_BYTES: u32 = 2000;
const TIME: u64 = 1_700_000_000;

/// The layers of an image in order, and all their names and contents.
pub(super) struct LayeredImage {
    pub(super) layers: Vec<PathBuf>,
    pub(super) extent: Extent,
}

/// Counts the members of a tar archive.
pub(super) fn extent_of_archive(archive: &Path) -> Result<Extent, BenchError> {
    let file = File::open(archive).map_err(BenchError::file(archive))?;
    let mut extent = Extent::default();
    let mut reader = tar::Archive::new(BufReader::with_capacity(1 << 20, file));
    for member in reader.entries().map_err(BenchError::file(archive))? {
        let member = member.map_err(BenchError::file(archive))?;
        extent.names += 1;
        extent.bytes += member.size().next_multiple_of(super::BLOCK_BYTES);
    }
    Ok(extent)
}

/// Makes the image in an empty directory.
pub(super) fn make(layout: &Path, archive: &Path) -> Result<LayeredImage, BenchError> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(BenchError::file(&blobs))?;
    let (mut descriptors, mut plain) = (Vec::new(), Vec::new());
    for number in 1..=LAYERS {
        let own = layout.join("layer.tar");
        let tar = if number == 1 { archive } else { &own };
        if number > 1 {
            write_layer(&own, number).map_err(BenchError::file(&own))?;
        }
        plain.push(Value::from(format!("sha256:{}", digest(tar)?)));
        let packed = layout.join("layer.tar.gz");
        compress(tar, &packed).map_err(BenchError::file(&packed))?;
        let media = "application/vnd.oci.image.layer.v1.tar+gzip";
        descriptors.push(store(&blobs, &packed, media)?);
    }
    crate::populate::clear(&layout.join("layer.tar"))?;
    name_layers(layout, &descriptors)?;
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": plain },
    });
    let config = store_json(&blobs, &config, "application/vnd.oci.image.config.v1+json")?;
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let described = json!({
        "schemaVersion": 2, "mediaType": manifest, "config": config, "layers": descriptors,
    });
    let described = store_json(&blobs, &described, manifest)?;
    write_json(
        &layout.join("index.json"),
        &json!({ "schemaVersion": 2, "manifests": [described] }),
    )?;
    write_json(&layout.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }))?;
    read(layout)
}

/// Reads an image that [`make`] has made.
pub(super) fn read(layout: &Path) -> Result<LayeredImage, BenchError> {
    let index = read_json(&layout.join("index.json"))?;
    let manifest = read_json(&blob(layout, index.pointer("/manifests/0"))?)?;
    let listed = manifest.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
    let layers: Vec<PathBuf> = (0..listed.len()).map(|index| named(layout, index)).collect();
    let mut extent = Extent::default();
    for layer in &layers {
        let file = File::open(layer).map_err(BenchError::file(layer))?;
        let plain = flate2::read::GzDecoder::new(BufReader::new(file));
        let mut reader = tar::Archive::new(plain);
        for member in reader.entries().map_err(BenchError::file(layer))? {
            let member = member.map_err(BenchError::file(layer))?;
            extent.names += 1;
            extent.bytes += member.size().next_multiple_of(super::BLOCK_BYTES);
        }
    }
    Ok(LayeredImage { layers, extent })
}

/// Returns the path of a layer with the ending of an archive. fstool knows layers by it.
fn named(layout: &Path, index: usize) -> PathBuf {
    layout.join("layers").join(format!("{index:02}.tar.gz"))
}

/// Gives each layer a further name.
fn name_layers(layout: &Path, descriptors: &[Value]) -> Result<(), BenchError> {
    let folder = layout.join("layers");
    fs::create_dir(&folder).map_err(BenchError::file(&folder))?;
    for (index, descriptor) in descriptors.iter().enumerate() {
        let (blob, name) = (blob(layout, Some(descriptor))?, named(layout, index));
        fs::hard_link(&blob, &name).map_err(BenchError::file(&name))?;
    }
    Ok(())
}

fn blob(layout: &Path, descriptor: Option<&Value>) -> Result<PathBuf, BenchError> {
    let digest = descriptor.and_then(|descriptor| descriptor.get("digest")?.as_str());
    let digest = digest.and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.ok_or_else(|| BenchError::Unsuitable {
        path: layout.to_owned(),
        why: "a descriptor has no digest; remove the folder".to_owned(),
    })?;
    Ok(layout.join("blobs/sha256").join(digest))
}

fn write_layer(path: &Path, number: u32) -> std::io::Result<()> {
    let mut tar = tar::Builder::new(BufWriter::new(File::create(path)?));
    let own = format!("srv/layer-{number:02}");
    for directory in ["srv", &own] {
        add(&mut tar, directory, tar::EntryType::Directory, &[])?;
    }
    for file in 0..FILES {
        let name = format!("{own}/file-{file:03}");
        add(&mut tar, &name, tar::EntryType::Regular, &contents(number, file))?;
    }
    if number > 2 {
        let before = format!("srv/layer-{:02}", number - 1);
        for file in 0..CHANGED {
            let name = format!("{before}/file-{file:03}");
            add(&mut tar, &name, tar::EntryType::Regular, &contents(number, file))?;
            let hidden = format!("{before}/.wh.file-{:03}", file + CHANGED);
            add(&mut tar, &hidden, tar::EntryType::Regular, &[])?;
        }
    }
    if number.is_multiple_of(OPAQUE_STEP) {
        let opaque = format!("srv/layer-{:02}", number - 2);
        add(&mut tar, &format!("{opaque}/.wh..wh..opq"), tar::EntryType::Regular, &[])?;
        add(&mut tar, &format!("{opaque}/only"), tar::EntryType::Regular, b"only\n")?;
    }
    if number == LAYERS {
        for hidden in ["usr/share/.wh.doc", "usr/share/.wh.man"] {
            add(&mut tar, hidden, tar::EntryType::Regular, &[])?;
        }
    }
    tar.into_inner()?.into_inner()?.sync_data()
}

fn contents(layer: u32, file: u32) -> Vec<u8> {
    let line = format!("layer {layer}, file {file}\n");
    let length = usize::try_from(FILE_BYTES + file * 20).unwrap_or_default();
    line.bytes().cycle().take(length).collect()
}

fn add(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    kind: tar::EntryType,
    contents: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind.is_dir() { 0o755 } else { 0o644 });
    header.set_mtime(TIME);
    header.set_size(u64::try_from(contents.len()).unwrap_or_default());
    tar.append_data(&mut header, name, contents)
}

fn compress(tar: &Path, packed: &Path) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(File::create(packed)?, Compression::default());
    std::io::copy(&mut BufReader::with_capacity(1 << 20, File::open(tar)?), &mut encoder)?;
    encoder.finish()?.sync_data()
}

fn digest(path: &Path) -> Result<String, BenchError> {
    let file = File::open(path).map_err(BenchError::file(path))?;
    sha256(file.take(u64::MAX)).map_err(BenchError::file(path))
}

/// Moves a file among the blobs. Returns its descriptor.
fn store(blobs: &Path, file: &Path, media: &str) -> Result<Value, BenchError> {
    let digest = digest(file)?;
    let size = file.metadata().map_err(BenchError::file(file))?.len();
    fs::rename(file, blobs.join(&digest)).map_err(BenchError::file(file))?;
    Ok(json!({ "mediaType": media, "digest": format!("sha256:{digest}"), "size": size }))
}

fn store_json(blobs: &Path, value: &Value, media: &str) -> Result<Value, BenchError> {
    let path = blobs.join("new");
    write_json(&path, value)?;
    store(blobs, &path, media)
}

fn write_json(path: &Path, value: &Value) -> Result<(), BenchError> {
    fs::write(path, value.to_string()).map_err(BenchError::file(path))
}

fn read_json(path: &Path) -> Result<Value, BenchError> {
    let text = fs::read_to_string(path).map_err(BenchError::file(path))?;
    serde_json::from_str(&text).map_err(|error| BenchError::Unsuitable {
        path: path.to_owned(),
        why: format!("{error}; remove the folder"),
    })
}
