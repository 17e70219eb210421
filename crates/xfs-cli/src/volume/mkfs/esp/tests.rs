//! Tests of the files that an EFI system partition can hold, and of its size.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::fat::FatGeometry;
use super::{Esp, MIB};

fn survey(place: &TempDir, asked: Option<u64>) -> Result<Esp, String> {
    let surveyed = Esp::survey(place.path(), asked, None);
    surveyed.map_err(|failure| failure.message().to_owned())
}

#[test]
fn size_fits_the_files_and_chooses_the_clusters() {
    let place = TempDir::new().unwrap();
    fs::create_dir_all(place.path().join("EFI/BOOT")).unwrap();
    fs::write(place.path().join("EFI/BOOT/BOOTX64.EFI"), vec![1; 5000]).unwrap();
    let esp = survey(&place, None).unwrap();
    assert_eq!(
        (esp.length_bytes(), FatGeometry::of(esp.length_bytes()).cluster_bytes),
        (64 * MIB, 512)
    );
    let names: Vec<_> = esp.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["EFI", "BOOT", "BOOTX64.EFI"]);
    let parents: Vec<_> = esp.entries.iter().map(|entry| entry.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1)]);
    for (mib, cluster) in
        [(34, 512), (127, 512), (128, 1024), (256, 2048), (512, 4096), (4096, 4096)]
    {
        let esp = survey(&place, Some(mib * MIB)).unwrap();
        assert_eq!(
            (esp.length_bytes(), FatGeometry::of(esp.length_bytes()).cluster_bytes),
            (mib * MIB, cluster)
        );
    }
    assert!(survey(&place, Some(33 * MIB)).err().unwrap().contains("34.0 MiB"));
    let large = fs::File::create(place.path().join("large")).unwrap();
    large.set_len(100 * MIB).unwrap();
    let chosen = survey(&place, None).unwrap().length_bytes();
    assert!((110 * MIB..170 * MIB).contains(&chosen), "{chosen}");
    assert!(survey(&place, Some(90 * MIB)).err().unwrap().contains("need about"));
}

#[test]
fn files_that_fat_cannot_hold_are_refused() {
    let check = |make: &dyn Fn(&TempDir), message: &str| {
        let place = TempDir::new().unwrap();
        make(&place);
        let said = survey(&place, None).err().unwrap_or_default();
        assert!(said.contains(message), "{message}: {said}");
    };
    let file =
        |name: &'static str| move |place: &TempDir| fs::write(place.path().join(name), "").unwrap();
    check(&|place| symlink("x", place.path().join("l")).unwrap(), "only files and directories");
    check(&file("a:b"), "does not allow this name");
    check(&file("end."), "does not allow this name");
    check(&file("\u{1f600}"), "does not allow this name");
    check(
        &|place| {
            file("Name")(place);
            file("nAME")(place);
        },
        "ignores case",
    );
    check(
        &|place| {
            let large = fs::File::create(place.path().join("large")).unwrap();
            large.set_len(1 << 32).unwrap();
        },
        "at most 4 GiB",
    );
}
