//! Archives of `docker save`: a list of images in `manifest.json`, each with its configuration and
//! its layers.
//!
//! The file name of a configuration holds its digest. Layers have no digests of their own: the
//! configuration has those of the unpacked layers.

use serde_json::Value;

use super::blobs::BlobStore;
use super::choice::Choice;
use super::digest::Digest;
use super::{
    ImageLayer, MAX_DOCUMENT_BYTES, differs, invalid, list, read_document, text, unpacked_digests,
};
use crate::failure::Failure;
use crate::terminal::names;

/// Returns the layers of the image that the user chose.
pub(super) fn layers(store: &BlobStore, choice: &Choice<'_>) -> Result<Vec<ImageLayer>, Failure> {
    let images = read_document(store, "manifest.json", None)?;
    let images = images.as_array().map_or(&[][..], Vec::as_slice);
    let fitting: Vec<&Value> = images.iter().filter(|image| is_named(image, choice)).collect();
    let known = || {
        let tags = images.iter().flat_map(|image| list(image, "RepoTags"));
        let tags = tags.filter_map(Value::as_str);
        tags.map(|tag| names::printable(tag).into_owned()).collect::<Vec<_>>().join(", ")
    };
    let image = match fitting.as_slice() {
        [image] => *image,
        [] => {
            let Some(wanted) = choice.reference else {
                return Err(invalid("manifest.json lists no image"));
            };
            let shown = names::printable(wanted).into_owned();
            return Err(
                invalid(format!("has no image {shown}")).hint(format!("it has: {}", known()))
            );
        }
        several => {
            return Err(invalid(format!("has {} images", several.len())).hint(format!(
                "name one after the path, as in docker-archive:FILE:NAME: {}",
                known()
            )));
        }
    };
    let path = text(image, "Config").unwrap_or_default();
    check_name(store, path)?;
    let configuration = read_document(store, path, None)?;
    choice.check_platform(&configuration)?;
    let layers = list(image, "Layers");
    let unpacked = unpacked_digests(&configuration, layers.len())?;
    let layers = layers.iter().zip(unpacked).map(|(path, unpacked)| {
        let path = path.as_str().unwrap_or_default().to_owned();
        // A layer that cannot be read is found before anything is written.
        store.reader(&path)?;
        Ok(ImageLayer { path, unpacked })
    });
    layers.collect()
}

/// Compares a configuration with the digest in its file name. A name without a digest is accepted.
fn check_name(store: &BlobStore, path: &str) -> Result<(), Failure> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".json").unwrap_or(name);
    let Ok(digest) = Digest::parse(&format!("sha256:{name}")) else { return Ok(()) };
    match digest.is_of(&store.read(path, MAX_DOCUMENT_BYTES)?) {
        true => Ok(()),
        // I1 of `container`: a document with another digest is not used.
        false => Err(differs(&digest)),
    }
}

/// Returns whether `image` has the name that the user gave. A name without a tag means the tag
/// `latest`. If the user gave no name, every image is accepted.
fn is_named(image: &Value, choice: &Choice<'_>) -> bool {
    let Some(wanted) = choice.reference else { return true };
    let latest = format!("{wanted}:latest");
    list(image, "RepoTags")
        .iter()
        .filter_map(Value::as_str)
        .any(|tag| tag == wanted || tag == latest)
}
