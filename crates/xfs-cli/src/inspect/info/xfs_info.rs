//! The output of xfs_info(8), in the form of xfsprogs 7. Older versions omit features that they do
//! not know.

use std::io::{self, Write};

use ferroxfs::raw::Superblock;
use ferroxfs::raw::format::features::{Features2, VersionFlags};
use ferroxfs::raw::format::{IncompatFeatures, RoCompatFeatures};

/// Prints the geometry of a volume in the form of xfs_info(8). `name` is the name of the image in
/// the output.
///
/// `log` is the name of the log device; `None` if the log is in the volume.
pub(crate) fn print(
    out: &mut impl Write,
    name: &[u8],
    log: Option<&[u8]>,
    superblock: &Superblock,
) -> io::Result<()> {
    let geometry = &superblock.geometry;
    let incompat = |feature| u8::from(superblock.has_incompat(feature));
    let ro_compat = |feature| u8::from(superblock.has_ro_compat(feature));
    let nothing = format!("         ={:22}", "");
    out.write_all(b"meta-data=")?;
    write_padded(out, name)?;
    writeln!(
        out,
        " isize={:<6} agcount={}, agsize={} blks",
        geometry.inode_size, geometry.ag_count, geometry.ag_blocks
    )?;
    let features2 = |feature| u8::from(superblock.features2.contains(feature));
    let attr2 = if features2(Features2::ATTR2) == 1 { 2 } else { 1 };
    let projid32 = features2(Features2::PROJID32);
    writeln!(
        out,
        "{nothing} sectsz={:<5} attr={attr2}, projid32bit={projid32}",
        geometry.sector_size
    )?;
    writeln!(
        out,
        "{nothing} crc=1        finobt={}, sparse={}, rmapbt={}",
        ro_compat(RoCompatFeatures::FINOBT),
        incompat(IncompatFeatures::SPARSE_INODES),
        ro_compat(RoCompatFeatures::RMAPBT)
    )?;
    writeln!(
        out,
        "{nothing} reflink={:<4} bigtime={} inobtcount={} nrext64={}",
        ro_compat(RoCompatFeatures::REFLINK),
        incompat(IncompatFeatures::BIGTIME),
        ro_compat(RoCompatFeatures::INOBTCNT),
        incompat(IncompatFeatures::NREXT64)
    )?;
    writeln!(
        out,
        "{nothing} exchange={:<3} metadir={}",
        incompat(IncompatFeatures::EXCHRANGE),
        incompat(IncompatFeatures::METADIR)
    )?;
    print_data(out, superblock, &nothing)?;
    let log = match log {
        _ if !superblock.has_external_log() => b"internal log",
        Some(log) => log,
        None => b"external".as_slice(),
    };
    print_log(out, superblock, &nothing, log)?;
    print_realtime(out, superblock, &nothing)
}

/// Writes a name, padded to the width of the column of names.
fn write_padded(out: &mut impl Write, name: &[u8]) -> io::Result<()> {
    out.write_all(name)?;
    write!(out, "{:1$}", "", 22usize.saturating_sub(name.len()))
}

fn print_data(out: &mut impl Write, superblock: &Superblock, nothing: &str) -> io::Result<()> {
    let geometry = &superblock.geometry;
    let incompat = |feature| u8::from(superblock.has_incompat(feature));
    writeln!(
        out,
        "data     ={:22} bsize={:<6} blocks={}, imaxpct={}",
        "", geometry.block_size, geometry.data_blocks, superblock.inode_max_percent
    )?;
    writeln!(
        out,
        "{nothing} sunit={:<6} swidth={} blks",
        superblock.stripe_unit_blocks, superblock.stripe_width_blocks
    )?;
    writeln!(
        out,
        "naming   =version {:<14} bsize={:<6} ascii-ci={}, ftype={}, parent={}",
        2,
        geometry.directory_block_size(),
        u8::from(superblock.version_flags.contains(VersionFlags::BORG)),
        incompat(IncompatFeatures::FTYPE),
        incompat(IncompatFeatures::PARENT)
    )
}

fn print_log(
    out: &mut impl Write,
    superblock: &Superblock,
    nothing: &str,
    log: &[u8],
) -> io::Result<()> {
    let block_size = superblock.geometry.block_size;
    let sector_size = match superblock.log_sector_size {
        0 => 512,
        size => size,
    };
    out.write_all(b"log      =")?;
    write_padded(out, log)?;
    writeln!(out, " bsize={block_size:<6} blocks={}, version=2", superblock.log_blocks)?;
    writeln!(
        out,
        "{nothing} sectsz={sector_size:<5} sunit={} blks, lazy-count={}",
        superblock.log_stripe_unit_bytes / block_size,
        u8::from(superblock.features2.contains(Features2::LAZYSBCOUNT))
    )
}

fn print_realtime(out: &mut impl Write, superblock: &Superblock, nothing: &str) -> io::Result<()> {
    let place = match (superblock.has_realtime(), superblock.realtime_start) {
        (false, _) => "none",
        (true, 0) => "external",
        (true, _) => "internal",
    };
    let block_size = u64::from(superblock.geometry.block_size);
    writeln!(
        out,
        "realtime ={place:<22} extsz={:<6} blocks={}, rtextents={}",
        u64::from(superblock.geometry.realtime_extent_blocks) * block_size,
        superblock.realtime_blocks,
        superblock.realtime_extents
    )?;
    writeln!(
        out,
        "{nothing} rgcount={:<4} rgsize={} extents",
        superblock.realtime_group_count, superblock.realtime_group_extents
    )?;
    writeln!(
        out,
        "{nothing} zoned={:<6} start={} reserved={}",
        u8::from(superblock.has_incompat(IncompatFeatures::ZONED)),
        superblock.realtime_start,
        superblock.realtime_reserved
    )
}
