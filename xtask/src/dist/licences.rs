//! Licence texts of the crates in the binary. The crates' authors require that these texts
//! accompany the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::materials::{Material, Materials};
use crate::error::Error;

/// Beginnings of the names of files that hold a crate's licence.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns every licence text once, each below the names of the crates that use it.
pub(super) fn texts(materials: &Materials) -> Result<String, Error> {
    let mut carriers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for material in materials.crates.values().filter(|material| material.is_foreign()) {
        let carrier = format!("{} {}", material.name, material.version);
        for text in of_crate(&material.folder)? {
            carriers.entry(text).or_default().push(carrier.clone());
        }
    }
    let mut texts = String::from("Licences of the crates that are linked into ferroxfs.\n");
    for (text, carriers) in carriers {
        texts.push_str(&format!("\n{}\n{}:\n\n{text}\n", "=".repeat(78), carriers.join(", ")));
    }
    texts.push_str(&format!(
        "\n{}\nEvery crate, and the licence that it states:\n\n",
        "=".repeat(78)
    ));
    for Material { name, version, licence, .. } in materials.crates.values() {
        let licence = licence.as_deref().unwrap_or("in a file of its own");
        texts.push_str(&format!("{name} {version}: {licence}\n"));
    }
    Ok(texts)
}

/// Returns both licences of this project in full, and the name of the file with the other licences.
/// Debian requires this file of packages.
pub(super) fn ours(root: &Path) -> Result<String, Error> {
    let mut text = format!(
        "ferroxfs is licensed under {}, at your choice.\n\
         The licences of the crates that are linked in are in the file licences, or licences.gz.\n",
        env!("CARGO_PKG_LICENSE")
    );
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = root.join(name);
        let licence = fs::read_to_string(&path).map_err(Error::file(&path))?;
        text.push_str(&format!("\n{}\n\n{licence}", "=".repeat(78)));
    }
    Ok(text)
}

/// Returns the licence texts of the crate in `folder`, in the order of their names.
fn of_crate(folder: &Path) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path| fs::read_to_string(&path).map_err(Error::file(path));
    paths.into_iter().map(read).collect()
}
