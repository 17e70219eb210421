//! Container images as sources of an import: the layout of the Open Container Initiative, and the
//! archives of `docker save`.
//!
//! ```text
//!   index.json ── index ── manifest ─┬─ configuration: platform, digests of the unpacked layers
//!                                    └─ layers: archives of tar, applied in order
//!   manifest.json (docker-archive) ──┘
//! ```
//!
//! Owns: finding the manifest of one image, and its layers. Does **not** own: the files of the
//! container image ([`BlobStore`]), or the effect of a layer
//! ([`Unpacker`](crate::import::unpack::Unpacker)).
//!
//! # Invariants
//!
//! - **I1** Everything that a digest names is compared with it before it is used. The blobs of
//!   layers are compared before anything is written.
//! - **I2** A layer whose unpacked contents do not have the digest in the configuration is an error
//!   at its end, in place of the end of the file.
//! - **I3** Documents are at most [`MAX_DOCUMENT_BYTES`] long, indexes refer to each other at most
//!   [`MAX_INDEX_DEPTH`] deep, at most [`MAX_REFERENCES`] references are followed, and an image has
//!   at most [`MAX_LAYERS`] layers.

mod address;
mod blobs;
mod choice;
mod digest;
mod docker;

use std::io::{Cursor, Read};
use std::sync::Arc;

use serde_json::Value;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::archive::ArchiveReader;
use crate::import::archive::block;
use crate::import::decompress::{Compression, Decompressed, Input};
use crate::input::Spool;
use crate::terminal::names;
use crate::terminal::tally::Gauge;
pub(crate) use address::{ContainerAddress, ContainerForm};
use blobs::BlobStore;
pub(crate) use choice::Platform;
use choice::{Choice, ChosenManifest};
use digest::{Digest, VerifyingReader};

/// The longest document that is read, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 16 << 20;
/// The depth to which indexes may refer to each other.
const MAX_INDEX_DEPTH: usize = 4;
/// The largest number of manifests and indexes that indexes may refer to.
const MAX_REFERENCES: usize = 10_000;
/// The largest number of layers of one image.
const MAX_LAYERS: usize = 1000;
/// The number of bytes that are read to find out whether a layer is compressed: one block of tar.
const HEAD_BYTES: u64 = 512;

/// A container image, of which one manifest is chosen.
pub(crate) struct ContainerImage {
    store: Arc<BlobStore>,
    layers: Vec<ImageLayer>,
    /// How much of all layers has been read.
    gauge: Gauge,
    /// The name in messages.
    name: String,
}

/// One layer of an image.
struct ImageLayer {
    /// The path of its archive in the container image.
    path: String,
    /// The digest of the unpacked archive.
    unpacked: Digest,
}

/// The reference to a blob, as manifests have it.
struct Descriptor {
    media_type: String,
    digest: Digest,
    size: u64,
}

impl ContainerImage {
    /// Opens the container image at `address`, and chooses the manifest of `platform`. Compares all
    /// layers with their digests (I1). `standard_input` is given if it has been read already.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, a digest that does not match, an image without this platform, or
    /// layers in a form that is not supported, which the message names.
    pub(crate) fn open(
        address: &ContainerAddress,
        platform: Option<&Platform>,
        standard_input: Option<&Arc<Spool>>,
    ) -> Result<Self, Failure> {
        let name = names::in_message(address.shown()).into_owned();
        let store = match (standard_input, address.is_standard_input()) {
            (Some(spool), true) => BlobStore::of_archive(Arc::clone(spool), &name)?,
            _ => BlobStore::open(&address.path, address.form.is_archive())?,
        };
        let choice = Choice { reference: address.reference.as_deref(), platform };
        let layers = match address.form {
            ContainerForm::DockerArchive => docker::layers(&store, &choice),
            ContainerForm::OciDirectory | ContainerForm::OciArchive => oci_layers(&store, &choice),
        };
        let layers = layers.map_err(|failure| failure.about(&name))?;
        let lengths = layers.iter().map(|layer| store.length(&layer.path));
        let length = lengths.sum::<Result<_, _>>().map_err(|failure| failure.about(&name))?;
        let gauge = Gauge::new(length);
        Ok(Self { store: Arc::new(store), layers, gauge, name })
    }

    /// Returns how much of all layers has been read, as they are stored.
    pub(crate) fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    /// Returns the number of layers.
    pub(crate) fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Opens the archive of the layer `number`, counted from the lowest.
    ///
    /// # Errors
    ///
    /// A layer that cannot be read, or that is not an archive of tar.
    pub(crate) fn open_layer(&self, number: usize) -> Result<ArchiveReader, Failure> {
        let Some(ImageLayer { path, unpacked }) = self.layers.get(number) else {
            return Err(refused(format!("has no layer {number}")).about(&self.name));
        };
        let name = format!("{}: layer {} of {}", self.name, number + 1, self.layers.len());
        let failed = |failure: Failure| failure.about(&name);
        let input = self.store.reader(path).map_err(failed)?;
        let input = unpacked_layer(Box::new(self.gauge.follow(input)))
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()).about(&name).placed())?;
        // I2: the reader fails at the end of other contents.
        let input = VerifyingReader::new(input, unpacked.clone());
        ArchiveReader::open_layer(Box::new(input), name)
    }
}

/// Returns a reader of the unpacked contents of a layer. The first bytes of the layer show whether
/// and how it is compressed.
fn unpacked_layer(mut input: Input) -> std::io::Result<Input> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let compression = Compression::of(&head).filter(|_| !block::is_header(&head));
    let input: Input = Box::new(Cursor::new(head).chain(input));
    Ok(match compression {
        Some(_) => Decompressed::boxed(input, 0)?,
        None => input,
    })
}

/// Returns the layers of an image in the layout of the OCI.
fn oci_layers(store: &BlobStore, choice: &Choice<'_>) -> Result<Vec<ImageLayer>, Failure> {
    let marker = read_document(store, "oci-layout", None)?;
    let version = text(&marker, "imageLayoutVersion").unwrap_or_default();
    if version != "1.0.0" {
        let shown = names::printable(version).into_owned();
        return Err(refused(format!("layout version {shown:?} is not supported, only 1.0.0")));
    }
    let index = read_document(store, "index.json", None)?;
    let ChosenManifest { manifest, configuration } = choice.choose(store, &index)?;
    let layers = list(&manifest, "layers").iter().map(Descriptor::parse);
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    check_media_types(&layers)?;
    let unpacked = unpacked_digests(&configuration, layers.len())?;
    for layer in &layers {
        // I1: nothing is written yet.
        store.verify(layer)?;
    }
    let layers = layers.into_iter().zip(unpacked);
    Ok(layers.map(|(layer, unpacked)| ImageLayer { path: layer.path(), unpacked }).collect())
}

/// Fails if a layer is not an archive of tar, compressed or not. The message names the media type
/// of the layer.
fn check_media_types(layers: &[Descriptor]) -> Result<(), Failure> {
    const KNOWN: [&str; 4] = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ];
    for Descriptor { media_type, .. } in layers {
        let is_known = KNOWN.iter().any(|known| {
            let end = media_type.strip_prefix(known);
            end.is_some_and(|end| matches!(end, "" | "+gzip" | "+zstd" | ".gzip" | ".zstd"))
        });
        if !is_known {
            let shown = names::printable(media_type).into_owned();
            return Err(refused(format!("layers of the type {shown} are not supported")));
        }
    }
    Ok(())
}

/// Returns the digests of the unpacked layers, from the configuration of an image with this number
/// of layers.
fn unpacked_digests(configuration: &Value, layers: usize) -> Result<Vec<Digest>, Failure> {
    let found = configuration.get("rootfs").map(|rootfs| list(rootfs, "diff_ids"));
    let found = found.unwrap_or_default();
    if layers > MAX_LAYERS {
        // I3: the number of layers is bounded.
        return Err(invalid(format!("has {layers} layers, more than {MAX_LAYERS}")));
    }
    if found.len() != layers {
        let digests = found.len();
        return Err(invalid(format!(
            "has {layers} layers, and its configuration has digests of {digests}"
        )));
    }
    found.iter().map(|digest| Digest::parse(digest.as_str().unwrap_or_default())).collect()
}

impl Descriptor {
    fn parse(value: &Value) -> Result<Self, Failure> {
        let digest = Digest::parse(text(value, "digest").unwrap_or_default())?;
        let size = value.get("size").and_then(Value::as_u64);
        let size = size.ok_or_else(|| invalid(format!("the reference to {digest} has no size")))?;
        let media_type = text(value, "mediaType").unwrap_or_default().to_owned();
        Ok(Self { media_type, digest, size })
    }

    /// Returns the path of the blob in the layout.
    fn path(&self) -> String {
        self.digest.blob_path()
    }
}

/// Reads a document of JSON (I3). With `expected`, its bytes must have this digest and length (I1).
fn read_document(
    store: &BlobStore,
    path: &str,
    expected: Option<&Descriptor>,
) -> Result<Value, Failure> {
    // I3: the length of a document is bounded.
    let bytes = store.read(path, MAX_DOCUMENT_BYTES)?;
    if let Some(Descriptor { digest, size, .. }) = expected
        && (bytes.len() as u64 != *size || !digest.is_of(&bytes))
    {
        // I1: a document with another digest is not used.
        return Err(differs(digest));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let path = names::printable(path).into_owned();
        invalid(format!("{path} is not a document of JSON: line {}", error.line()))
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the failure for contents that do not have the digest `digest`.
fn differs(digest: &Digest) -> Failure {
    invalid(format!("the contents of {digest} differ from their digest"))
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, message)
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Refused, message)
}

#[cfg(test)]
mod tests;
