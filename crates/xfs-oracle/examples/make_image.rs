//! Makes an image of each given geometry, or of all geometries if none is given. Fills each image
//! through a mount in the kernel.
//!
//! `cargo run -p xfs-oracle --example make_image -- FOLDER [GEOMETRY…]`, as root.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use xfs_oracle::{Geometry, Tree, ready};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: make_image FOLDER [GEOMETRY…]")?;
    let names: Vec<_> = arguments.collect();
    ready()?;
    let named = |geometry: &Geometry| names.is_empty() || names.iter().any(|n| n == geometry.name);
    for geometry in Geometry::ALL.into_iter().filter(named) {
        match make(&geometry, Path::new(&folder)) {
            Ok(()) => {}
            Err(error) => println!("{}: {error}", geometry.name),
        }
    }
    Ok(())
}

fn make(geometry: &Geometry, folder: &Path) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let image = geometry.make_and_fill(folder)?;
    let filled = start.elapsed();
    let mount = image.mount(&["ro"])?;
    let tree = Tree::walk(mount.path())?;
    mount.unmount()?;
    let name = geometry.name;
    println!(
        "{name}: {} inodes, {filled:?}, walk {:?}",
        tree.nodes.len(),
        start.elapsed() - filled
    );
    Ok(())
}
