//! A writer of container images in the layout of the OCI.

use std::fs;
use std::io::Write;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// How a layer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "application/vnd.oci.image.layer.v1.tar",
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }

    fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => bytes.to_vec(),
            Self::Gzip => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Self::Zstd => zstd::encode_all(bytes, 1).unwrap(),
        }
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let found = digest(&SHA256, bytes);
    found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A layout that is being written into a directory.
pub(crate) struct Layout<'a> {
    pub(crate) directory: &'a Path,
    manifests: Vec<Value>,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(directory: &'a Path) -> Self {
        fs::create_dir_all(directory.join("blobs/sha256")).unwrap();
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { directory, manifests: Vec::new() }
    }

    /// Writes a blob and returns a reference to it.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        fs::write(self.directory.join("blobs/sha256").join(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    }

    /// Writes an image with these layers and returns the reference to its manifest.
    pub(crate) fn image(&self, platform: (&str, &str), layers: &[(Packing, Vec<u8>)]) -> Value {
        let unpacked = layers.iter().map(|(_, bytes)| format!("sha256:{}", sha256(bytes)));
        let configuration = json!({
            "os": platform.0, "architecture": platform.1,
            "rootfs": {"type": "layers", "diff_ids": unpacked.collect::<Vec<_>>()},
        });
        let configuration = configuration.to_string();
        let configuration =
            self.blob("application/vnd.oci.image.config.v1+json", configuration.as_bytes());
        let blobs = layers
            .iter()
            .map(|(packing, bytes)| self.blob(packing.media_type(), &packing.pack(bytes)));
        let manifest = json!({
            "schemaVersion": 2, "config": configuration, "layers": blobs.collect::<Vec<_>>(),
        });
        self.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// Adds a reference to the index.
    pub(crate) fn add(&mut self, reference: Value) {
        self.manifests.push(reference);
    }

    /// Writes the index.
    pub(crate) fn finish(self) {
        let index = json!({"schemaVersion": 2, "manifests": self.manifests});
        fs::write(self.directory.join("index.json"), index.to_string()).unwrap();
    }
}
