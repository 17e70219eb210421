//! The choice of one manifest among those of a container image.
//!
//! Owns: comparing manifests with the platform and the name that the user gave. Does **not** own:
//! the layers of the manifest.

use std::fmt;

use serde_json::Value;

use super::blobs::BlobStore;
use super::{
    Descriptor, MAX_INDEX_DEPTH, MAX_REFERENCES, invalid, list, read_document, refused, text,
};
use crate::failure::Failure;
use crate::terminal::names;

const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
const CONFIGURATIONS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// The annotations that name an image.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
/// The annotation of a manifest that only describes another one, such as an attestation.
const ABOUT: &str = "vnd.docker.reference.type";

/// A platform: `linux/amd64`, `linux/arm/v7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

/// The manifest that the user means.
pub(super) struct Choice<'a> {
    /// The name or digest of the image; `None` if there is only one.
    pub(super) reference: Option<&'a str>,
    /// The platform; `None` for that of this machine, if there are several.
    pub(super) platform: Option<&'a Platform>,
}

/// A manifest, and the configuration that belongs to it.
pub(super) struct ChosenManifest {
    pub(super) manifest: Value,
    pub(super) configuration: Value,
}

/// A manifest that could be chosen.
struct Candidate {
    descriptor: Descriptor,
    /// The platform in the reference to the manifest.
    platform: Option<Platform>,
    /// The name in the outermost index.
    name: Option<String>,
}

/// A reference to an index that is still to be read.
struct IndexReference {
    descriptor: Descriptor,
    /// The number of indexes above it.
    depth: usize,
    /// The name in the outermost index.
    name: Option<String>,
}

/// The references of an index and of the indexes below it, as far as these have been read.
#[derive(Default)]
struct References {
    indexes: Vec<IndexReference>,
    manifests: Vec<Candidate>,
    /// The number of references so far.
    count: usize,
}

impl References {
    /// Adds the references in `index` that `takes` accepts. `above` is the reference that led to
    /// the index; `None` for the outermost one.
    ///
    /// # Errors
    ///
    /// An invalid reference, and more references or a greater depth than are followed.
    fn add(
        &mut self,
        index: &Value,
        above: Option<&IndexReference>,
        takes: impl Fn(&Value, &Descriptor) -> bool,
    ) -> Result<(), Failure> {
        let depth = above.map_or(1, |above| above.depth + 1);
        for reference in list(index, "manifests") {
            let descriptor = Descriptor::parse(reference)?;
            if !takes(reference, &descriptor) {
                continue;
            }
            self.count += 1;
            if self.count > MAX_REFERENCES {
                // I3 of `container`: the number of references is bounded.
                return Err(invalid(format!("has more than {MAX_REFERENCES} manifests")));
            }
            let own = names_in(reference).next().map(str::to_owned);
            let name = above.and_then(|above| above.name.clone()).or(own);
            if INDEXES.contains(&descriptor.media_type.as_str()) {
                if depth == MAX_INDEX_DEPTH {
                    // I3 of `container`: the depth of indexes is bounded.
                    return Err(invalid("has indexes that refer to each other too deeply"));
                }
                self.indexes.push(IndexReference { descriptor, depth, name });
            } else if MANIFESTS.contains(&descriptor.media_type.as_str())
                && !is_about_another(reference)
            {
                let platform = reference.get("platform").and_then(Platform::of);
                self.manifests.push(Candidate { descriptor, platform, name });
            }
        }
        Ok(())
    }
}

impl Platform {
    /// Parses `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let parts: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match parts.as_slice() {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some((*variant).to_owned())),
            _ => return Err(Self::invalid(text)),
        };
        match parts.contains(&"") {
            false => {
                let (os, architecture) = ((*os).to_owned(), (*architecture).to_owned());
                Ok(Self { os, architecture, variant })
            }
            true => Err(Self::invalid(text)),
        }
    }

    fn invalid(text: &str) -> Failure {
        let shown = names::printable(text).into_owned();
        Failure::usage(format!("--platform: {shown} is not a platform, such as linux/amd64"))
    }

    /// Returns the platform of this machine, in the words of container images.
    fn of_host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// Returns the platform in a reference or a configuration; `None` if it has none.
    fn of(value: &Value) -> Option<Self> {
        let variant = text(value, "variant").filter(|variant| !variant.is_empty());
        Some(Self {
            os: text(value, "os")?.to_owned(),
            architecture: text(value, "architecture")?.to_owned(),
            variant: variant.map(str::to_owned),
        })
    }

    /// Returns whether a manifest for `found` is one for this platform.
    fn accepts(&self, found: &Self) -> bool {
        self.os == found.os
            && self.architecture == found.architecture
            && (self.variant.is_none() || self.variant == found.variant)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = self.variant.as_ref().map(|variant| format!("/{variant}"));
        let whole = format!("{}/{}{}", self.os, self.architecture, variant.unwrap_or_default());
        f.write_str(&names::printable(&whole))
    }
}

impl Choice<'_> {
    /// Chooses one manifest of an index, and reads it with its configuration.
    ///
    /// # Errors
    ///
    /// If no manifest fits the choice, or if several do; if a document differs from its digest.
    pub(super) fn choose(
        &self,
        store: &BlobStore,
        index: &Value,
    ) -> Result<ChosenManifest, Failure> {
        let mut candidates = self.candidates(store, index)?;
        candidates.sort_by_key(|candidate| candidate.descriptor.path());
        candidates.dedup_by(|one, other| one.descriptor.digest == other.descriptor.digest);
        if candidates.is_empty() {
            return Err(self.unnamed(index));
        }
        // Without a choice, the platform of this machine does not matter.
        let takes_any = candidates.len() == 1 && self.platform.is_none();
        let wanted = self.wanted();
        let is_other = |platform: &Platform| !takes_any && !wanted.accepts(platform);
        let mut fitting = Vec::new();
        let mut first = None;
        let mut others = Vec::new();
        for candidate in candidates {
            // A layout may lack the blobs of other platforms, so they are not read.
            if let Some(platform) = candidate.platform.as_ref().filter(|found| is_other(found)) {
                others.push(platform.to_string());
                continue;
            }
            let chosen = read_manifest(store, &candidate.descriptor)?;
            let own = Platform::of(&chosen.configuration);
            match own.filter(|found| candidate.platform.is_none() && is_other(found)) {
                Some(platform) => others.push(platform.to_string()),
                None => {
                    fitting.push(candidate);
                    first = first.or(Some(chosen));
                }
            }
        }
        if fitting.len() > 1 {
            return Err(ambiguous(&fitting));
        }
        let Some(chosen) = first else {
            others.sort();
            others.dedup();
            return Err(invalid(format!("has no image for {wanted}"))
                .hint(format!("--platform chooses one of: {}", others.join(", "))));
        };
        Ok(chosen)
    }

    /// Fails if the configuration of the only image is for another platform than the requested one.
    pub(super) fn check_platform(&self, configuration: &Value) -> Result<(), Failure> {
        match (self.platform, Platform::of(configuration)) {
            (Some(wanted), Some(found)) if !wanted.accepts(&found) => {
                Err(invalid(format!("has no image for {wanted}"))
                    .hint(format!("its platform is {found}")))
            }
            _ => Ok(()),
        }
    }

    fn wanted(&self) -> Platform {
        self.platform.cloned().unwrap_or_else(Platform::of_host)
    }

    /// Returns the manifests in an index and in the indexes below it.
    fn candidates(&self, store: &BlobStore, index: &Value) -> Result<Vec<Candidate>, Failure> {
        let mut references = References::default();
        references.add(index, None, |reference, descriptor| self.names(reference, descriptor))?;
        while let Some(reference) = references.indexes.pop() {
            let path = reference.descriptor.path();
            // The index is read only now, so that one index at a time is in memory.
            let below = read_document(store, &path, Some(&reference.descriptor))?;
            references.add(&below, Some(&reference), |_, _| true)?;
        }
        Ok(references.manifests)
    }

    /// Returns whether a reference in the outermost index has the name or digest that the user
    /// gave. Without a name, every reference is accepted.
    fn names(&self, reference: &Value, descriptor: &Descriptor) -> bool {
        self.reference.is_none_or(|wanted| {
            names_in(reference).any(|name| name == wanted)
                || descriptor.digest.to_string() == wanted
        })
    }

    /// Returns the failure for a name that no manifest has.
    fn unnamed(&self, index: &Value) -> Failure {
        let known: Vec<String> = list(index, "manifests")
            .iter()
            .flat_map(names_in)
            .map(|name| names::printable(name).into_owned())
            .collect();
        match self.reference {
            Some(wanted) => {
                let shown = names::printable(wanted).into_owned();
                let failure = invalid(format!("has no image {shown}"));
                match known.is_empty() {
                    true => failure,
                    false => failure.hint(format!("it has: {}", known.join(", "))),
                }
            }
            None => refused("has no image of a container"),
        }
    }
}

/// Returns the failure for a choice that several manifests fit.
fn ambiguous(fitting: &[Candidate]) -> Failure {
    let shown = |candidate: &Candidate| match &candidate.name {
        Some(name) => names::printable(name).into_owned(),
        None => candidate.descriptor.digest.to_string(),
    };
    let names: Vec<String> = fitting.iter().map(shown).collect();
    invalid(format!("has {} images", fitting.len())).hint(format!(
        "name one after the path, as in oci:DIRECTORY:NAME, or its platform: {}",
        names.join(", ")
    ))
}

/// Reads a manifest and its configuration.
fn read_manifest(store: &BlobStore, descriptor: &Descriptor) -> Result<ChosenManifest, Failure> {
    let manifest = read_document(store, &descriptor.path(), Some(descriptor))?;
    let reference = manifest.get("config").unwrap_or(&Value::Null);
    let reference = Descriptor::parse(reference)?;
    if !CONFIGURATIONS.contains(&reference.media_type.as_str()) {
        let shown = names::printable(&reference.media_type).into_owned();
        return Err(refused(format!("is no image of a container: its configuration is {shown}")));
    }
    let configuration = read_document(store, &reference.path(), Some(&reference))?;
    Ok(ChosenManifest { manifest, configuration })
}

/// Returns the names of the image that a reference in an index gives.
fn names_in(reference: &Value) -> impl Iterator<Item = &str> {
    let annotations = reference.get("annotations");
    NAMES.iter().filter_map(move |name| text(annotations?, name))
}

/// Returns whether a manifest only describes another one.
fn is_about_another(reference: &Value) -> bool {
    let annotations = reference.get("annotations");
    annotations.and_then(|annotations| annotations.get(ABOUT)).is_some()
        || reference.get("platform").and_then(|platform| text(platform, "os")) == Some("unknown")
}
