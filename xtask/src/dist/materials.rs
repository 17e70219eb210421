//! A bill of materials: every crate that is linked into a program or library, as CycloneDX 1.5.
//!
//! Cargo resolves the crates; their checksums are those of Cargo.lock. Crates that only help to
//! build other crates (build scripts, procedural macros) are not in the binary and not listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Dist, TARGET, VERSION};
use crate::command;
use crate::error::Error;

/// A program or library that is handed out.
pub(super) struct Product<'a> {
    /// Its name in the bill.
    pub(super) name: &'static str,
    /// The file.
    pub(super) file: &'a Path,
    /// The folder with the Cargo.lock of its workspace.
    pub(super) workspace: PathBuf,
    /// The package whose dependencies are linked into it.
    pub(super) package: &'static str,
    pub(super) target: &'static str,
}

impl Product<'_> {
    /// Returns its type in the terms of CycloneDX.
    fn kind(&self) -> &'static str {
        if self.target == TARGET { "application" } else { "library" }
    }
}

/// A crate whose code is in the product.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Material {
    pub(super) name: String,
    pub(super) version: String,
    /// The licence as an SPDX expression, if the crate declares one.
    pub(super) licence: Option<String>,
    /// SHA-256 of the package. `None` for a crate of this workspace.
    checksum: Option<String>,
    /// The folder of the crate's sources.
    pub(super) folder: PathBuf,
    /// Package IDs of the crates on which this crate depends.
    uses: BTreeSet<String>,
}

impl Material {
    /// Returns whether the crate comes from a registry and so from other authors.
    pub(super) fn is_foreign(&self) -> bool {
        self.checksum.is_some()
    }
}

/// All crates in a product, by their identity (the package ID of cargo), and the facts about the
/// product that the bill states.
pub(super) struct Materials {
    name: &'static str,
    kind: &'static str,
    pub(super) crates: BTreeMap<String, Material>,
    /// The time that the bill states, in the format of ISO 8601.
    time: String,
    /// SHA-256 of the product.
    digest: String,
    /// Version of the Rust standard library.
    rust: String,
}

/// Lists the crates of a product and computes the facts that its bill states.
pub(super) fn of(product: &Product<'_>, dist: &Dist) -> Result<Materials, Error> {
    let mut cargo = command::cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", product.target]);
    let metadata = command::output(cargo.current_dir(&product.workspace))?;
    let lock = product.workspace.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(Error::file(&lock))?;
    let metadata = serde_json::from_str(&metadata)?;
    let crates = linked(&metadata, &checksums(&lock), product.package)
        .ok_or_else(|| Error::Dist("cargo metadata has an unknown form".to_owned()))?;
    let date = format!("--date=@{}", dist.epoch);
    let time = command::output(Command::new("date").args(["-u", &date, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let sum = command::output(Command::new("sha256sum").arg(product.file))?;
    let rust = command::output(Command::new("rustc").arg("--version"))?;
    let word = |text: &str, nth| text.split_whitespace().nth(nth).unwrap_or_default().to_owned();
    let (time, digest, rust) = (word(&time, 0), word(&sum, 0), word(&rust, 1));
    Ok(Materials { name: product.name, kind: product.kind(), crates, time, digest, rust })
}

/// Returns the crate `first` and the crates on which it depends through normal dependencies,
/// directly or through other crates, by package ID. Returns `None` if `metadata` lacks a field.
fn linked(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    first: &str,
) -> Option<BTreeMap<String, Material>> {
    let packages = metadata["packages"].as_array()?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = metadata.pointer("/resolve/nodes")?.as_array()?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let first = packages.iter().find(|(_, package)| package["name"] == first)?.0;
    let mut found = BTreeMap::new();
    let mut waiting = vec![*first];
    while let Some(id) = waiting.pop() {
        if found.contains_key(id) {
            continue;
        }
        let uses: BTreeSet<&str> = nodes.get(id)?["deps"]
            .as_array()?
            .iter()
            .filter(|dependency| is_linked(dependency, &packages))
            .filter_map(|dependency| dependency["pkg"].as_str())
            .collect();
        waiting.extend(&uses);
        let material = material(packages.get(id)?, checksums, &uses, &packages)?;
        found.insert(id.to_owned(), material);
    }
    Some(found)
}

/// Returns whether the code of this dependency is linked in: it is a normal
/// dependency, and no procedural macro.
fn is_linked(dependency: &Value, packages: &BTreeMap<&str, &Value>) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    let is_normal = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
    let package = dependency["pkg"].as_str().and_then(|id| packages.get(id));
    let targets = package.and_then(|package| package["targets"].as_array());
    let has_kind = |target: &Value, kind: &str| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|known| known == kind))
    };
    let is_macro =
        targets.is_some_and(|targets| targets.iter().any(|target| has_kind(target, "proc-macro")));
    is_normal && !is_macro
}

fn material(
    package: &Value,
    checksums: &BTreeMap<(String, String), String>,
    uses: &BTreeSet<&str>,
    packages: &BTreeMap<&str, &Value>,
) -> Option<Material> {
    let name = package["name"].as_str()?.to_owned();
    let version = package["version"].as_str()?.to_owned();
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let purls = uses.iter().filter_map(|id| {
        let package = packages.get(id)?;
        Some(purl(package["name"].as_str()?, package["version"].as_str()?))
    });
    Some(Material {
        checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
        licence: package["license"].as_str().map(str::to_owned),
        uses: purls.collect(),
        name,
        version,
        folder,
    })
}

/// Returns the checksums of Cargo.lock, by name and version of the crate.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]");
    blocks
        .filter_map(|block| {
            let name = (value(block, "name")?, value(block, "version")?);
            Some((name, value(block, "checksum")?))
        })
        .collect()
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

impl Materials {
    /// Returns the time of the files, in the format of ISO 8601.
    pub(super) fn time(&self) -> &str {
        &self.time
    }

    /// Returns the bill as CycloneDX JSON.
    pub(super) fn text(&self) -> Result<String, Error> {
        let mut components: Vec<Value> = self.crates.values().map(component).collect();
        // They are linked in and come with the toolchain. A library for programs in C has no musl.
        let toolchain = [("std", Some(&self.rust), "MIT OR Apache-2.0"), ("musl", None, "MIT")];
        let linked = if self.kind == "application" { 2 } else { 1 };
        for (name, version, licence) in toolchain.into_iter().take(linked) {
            let licences = json!([{ "expression": licence }]);
            let mut library = json!({ "type": "library", "name": name, "licenses": licences });
            if let (Some(version), Some(fields)) = (version, library.as_object_mut()) {
                fields.insert("version".to_owned(), json!(version));
            }
            components.push(library);
        }
        let uses = self.crates.values().map(|material| {
            json!({ "ref": purl(&material.name, &material.version), "dependsOn": material.uses })
        });
        let program = json!({
            "type": self.kind,
            "bom-ref": self.name,
            "name": self.name,
            "version": VERSION,
            "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            "hashes": [{ "alg": "SHA-256", "content": self.digest }],
        });
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "timestamp": self.time, "component": program },
            "components": components,
            "dependencies": uses.collect::<Vec<_>>(),
        });
        Ok(serde_json::to_string_pretty(&bill)? + "\n")
    }
}

fn component(material: &Material) -> Value {
    let purl = purl(&material.name, &material.version);
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": material.name,
        "version": material.version,
    });
    if let Some(fields) = component.as_object_mut() {
        if let Some(licence) = &material.licence {
            // Old manifests separate alternatives with a slash.
            let expression = licence.replace('/', " OR ");
            fields.insert("licenses".to_owned(), json!([{ "expression": expression }]));
        }
        if let Some(checksum) = &material.checksum {
            let hashes = json!([{ "alg": "SHA-256", "content": checksum }]);
            fields.insert("hashes".to_owned(), hashes);
            fields.insert("purl".to_owned(), json!(purl));
        }
    }
    component
}

#[cfg(test)]
mod tests;
