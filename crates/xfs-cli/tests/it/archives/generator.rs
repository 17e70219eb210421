//! A generator of odd archives. Each kind of oddity writes members below a directory of its own
//! name, so that the path of a differing file shows the kind of oddity.

use super::writer::{Head, Writer, binary, octal8, octal12};

/// A kind of oddity: its name, and the function that writes it below a directory of that name.
type Kind = (&'static str, fn(&mut Writer, &str));

/// Kinds of oddities that may be anywhere in an archive.
pub(super) const KINDS: [Kind; 40] = [
    ("plain", plain),
    ("old-format", old_format),
    ("gnu-format", gnu_format),
    ("empty-fields", empty_fields),
    ("odd-fields", odd_fields),
    ("binary-fields", binary_fields),
    ("bad-owner", bad_owner),
    ("bad-mode", bad_mode),
    ("bad-time", bad_time),
    ("far-times", far_times),
    ("sizes", sizes_without_bodies),
    ("link-bodies", link_bodies),
    ("label", label),
    ("continued", continued),
    ("dump", dump_directories),
    ("selinux", selinux),
    ("attributes", attributes),
    ("libarchive-attributes", libarchive_attributes),
    ("bad-attributes", bad_attributes),
    ("flags", flags),
    ("inode-facts", inode_facts),
    ("lists", lists),
    ("unknown-users", unknown_users),
    ("keywords", keywords),
    ("global", global),
    ("bad-records", bad_records),
    ("empty-names", empty_names),
    ("dot-names", dot_names),
    ("dotdot-inside", dotdot_inside),
    ("dotdot-outside", dotdot_outside),
    ("absolute", absolute),
    ("below-links", below_links),
    ("over-links", over_links),
    ("replaced", replaced),
    ("long-names", long_names),
    ("sparse", sparse),
    ("unknown-types", unknown_types),
    ("implied", implied),
    ("hard-links", hard_links),
    ("byte-names", byte_names),
];

/// Kinds of oddities that are possible only at the end of an archive.
pub(super) const ENDINGS: [Kind; 7] = [
    ("no-end", no_end),
    ("lone-zero-last", lone_zero_last),
    ("lone-zero", lone_zero),
    ("second-archive", second_archive),
    ("damaged-header", damaged_header),
    ("cut-header", cut_header),
    ("cut-body", cut_body),
];

/// Writes the first member of each archive. bsdtar rejects an archive whose first header is odd.
pub(super) fn start(to: &mut Writer) {
    file(to, "start/file");
}

/// Returns a header with random metadata that every program accepts.
fn head(to: &mut Writer, name: impl AsRef<[u8]>) -> Head {
    let mode = 0o400 | to.prng.within(0..0o1000) as u64;
    Head {
        mode: octal8(mode),
        uid: octal8(to.prng.within(0..70_000) as u64),
        gid: octal8(to.prng.within(0..70_000) as u64),
        mtime: octal12(to.prng.within(0..1_500_000_000) as u64),
        ..Head::new(name)
    }
}

fn body(to: &mut Writer) -> Vec<u8> {
    let length = to.prng.within(0..1500);
    (0..length).map(|_| to.prng.within(0..256) as u8).collect()
}

fn file(to: &mut Writer, name: impl AsRef<[u8]>) {
    let (head, body) = (head(to, name), body(to));
    to.add(&head, &body);
}

fn directory(to: &mut Writer, name: impl AsRef<[u8]>) {
    let head = Head { kind: b'5', ..head(to, name) };
    to.add(&head, b"");
}

fn plain(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/"));
    file(to, format!("{at}/file"));
    let set_id = Head { mode: octal8(0o6755), ..head(to, format!("{at}/set-id")) };
    to.add(&set_id, b"set-id");
    to.link(&format!("{at}/link"), "file");
    to.hard_link(&format!("{at}/hard"), &format!("{at}/file"));
    for (kind, name) in [(b'3', "character"), (b'4', "block"), (b'6', "fifo")] {
        let device = (octal8(to.prng.within(0..256) as u64), octal8(to.prng.within(0..256) as u64));
        let head = Head { kind, device, ..head(to, format!("{at}/{name}")) };
        to.add(&head, b"");
    }
}

fn old_format(to: &mut Writer, at: &str) {
    let magic = [0; 8];
    let old = Head { magic, kind: 0, ..head(to, format!("{at}/directory/")) };
    to.add(&old, b"");
    let old = Head { magic, kind: 0, ..head(to, format!("{at}/directory/file")) };
    to.add(&old, b"old");
    let old = Head { magic, is_signed: true, ..head(to, format!("{at}/signed-\u{e9}")) };
    to.add(&old, b"signed");
    let old =
        Head { magic, ..Head::link(b'1', &format!("{at}/hard"), &format!("{at}/directory/file")) };
    to.add(&old, b"");
}

fn gnu_format(to: &mut Writer, at: &str) {
    let magic = *b"ustar  \0";
    // Access and change times are where POSIX has the prefix of the name.
    let prefix = [&octal12(1000)[..], &octal12(2000)].concat();
    let gnu = Head { magic, prefix, ..head(to, format!("{at}/file")) };
    to.add(&gnu, b"gnu");
    let gnu = Head { magic, kind: b'7', ..head(to, format!("{at}/contiguous")) };
    to.add(&gnu, b"contiguous");
}

fn empty_fields(to: &mut Writer, at: &str) {
    let empty = Head { uid: [0; 8], gid: [0; 8], mtime: [0; 12], ..head(to, format!("{at}/file")) };
    to.add(&empty, b"empty");
    let empty = Head { mode: [0; 8], size: Some([0; 12]), ..head(to, format!("{at}/mode")) };
    to.add(&empty, b"");
    let empty =
        Head { kind: b'3', device: ([0; 8], octal8(3)), ..head(to, format!("{at}/device")) };
    to.add(&empty, b"");
    let blank = Head { uid: [b' '; 8], gid: [b' '; 8], ..head(to, format!("{at}/blank")) };
    to.add(&blank, b"blank");
    file(to, format!("{at}/after"));
}

fn odd_fields(to: &mut Writer, at: &str) {
    let odd = Head { uid: *b"00000123", gid: *b"    17\0\0", ..head(to, format!("{at}/full")) };
    to.add(&odd, b"full");
    let odd = Head { uid: *b"12\0 junk", gid: *b"  21 \0\0\0", ..head(to, format!("{at}/rest")) };
    to.add(&odd, b"rest");
    let odd =
        Head { mode: *b"100644 \0", mtime: *b"12345670123 ", ..head(to, format!("{at}/type")) };
    to.add(&odd, b"type");
}

fn binary_fields(to: &mut Writer, at: &str) {
    let id = 3_000_000_000 + to.prng.within(0..1_000_000) as i128;
    let odd = Head { uid: binary(id), gid: binary(id + 1), ..head(to, format!("{at}/owner")) };
    to.add(&odd, b"owner");
    let odd = Head { mtime: binary(-315_619_200), ..head(to, format!("{at}/before-1970")) };
    to.add(&odd, b"time");
    let odd = Head { size: Some(binary(5)), ..head(to, format!("{at}/size")) };
    to.add(&odd, b"fives");
    file(to, format!("{at}/after"));
}

fn bad_owner(to: &mut Writer, at: &str) {
    let odd = Head { uid: *b"12x45\0\0\0", ..head(to, format!("{at}/text")) };
    to.add(&odd, b"text");
    let odd = Head { gid: binary(-2), ..head(to, format!("{at}/negative")) };
    to.add(&odd, b"negative");
    to.pax(&[("uid", "5000000000")]);
    file(to, format!("{at}/large"));
    file(to, format!("{at}/after"));
}

fn bad_mode(to: &mut Writer, at: &str) {
    let odd = Head { mode: *b"00009ab\0", ..head(to, format!("{at}/file")) };
    to.add(&odd, b"mode");
    file(to, format!("{at}/after"));
}

fn bad_time(to: &mut Writer, at: &str) {
    to.pax(&[("mtime", "1e9")]);
    file(to, format!("{at}/record"));
    let odd = Head { mtime: *b"99999999999\0", ..head(to, format!("{at}/field")) };
    to.add(&odd, b"field");
}

fn far_times(to: &mut Writer, at: &str) {
    to.pax(&[("mtime", "-1000000.25")]);
    file(to, format!("{at}/fraction"));
    to.pax(&[("mtime", "1000000000.123456789123")]);
    file(to, format!("{at}/fine"));
    let odd = Head { mtime: binary(10_000_000_000), ..head(to, format!("{at}/after-2038")) };
    to.add(&odd, b"far");
}

/// Writes members that have no contents although their size fields are not 0.
fn sizes_without_bodies(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    let size = Some(octal12(5 + to.prng.within(0..2000) as u64));
    let name = format!("{at}/file");
    to.add(&Head { size, ..Head::link(b'1', &format!("{at}/hard"), &name) }, b"");
    to.add(&Head { size, ..Head::link(b'2', &format!("{at}/link"), "file") }, b"");
    for (kind, name) in [(b'5', "directory"), (b'3', "character"), (b'4', "block"), (b'6', "fifo")]
    {
        let device = (octal8(1), octal8(2));
        let odd = Head { kind, size, device, ..head(to, format!("{at}/{name}")) };
        to.add(&odd, b"");
    }
    file(to, format!("{at}/after"));
}

/// Writes a file as an empty member, and a hard link to the file as a member that has the contents,
/// as libarchive does when it converts a cpio archive.
fn link_bodies(to: &mut Writer, at: &str) {
    to.pax(&[("mtime", "1000000000.5")]);
    let first = head(to, format!("{at}/file"));
    to.add(&first, b"");
    to.pax(&[("mtime", "1000000000.5")]);
    let link =
        Head { kind: b'1', name: format!("{at}/hard").into(), link: first.name.clone(), ..first };
    to.add(&link, b"the contents of both");
    file(to, format!("{at}/after"));
}

fn label(to: &mut Writer, at: &str) {
    to.add(&Head { kind: b'V', ..Head::new("backup 2026") }, b"");
    file(to, format!("{at}/file"));
    to.records(b'g', &[("GNU.volume.label", "backup")]);
    file(to, format!("{at}/after"));
}

fn continued(to: &mut Writer, at: &str) {
    let rest = Head { kind: b'M', magic: *b"ustar  \0", ..head(to, format!("{at}/rest")) };
    to.add(&rest, b"the rest of a file");
    file(to, format!("{at}/after"));
}

fn dump_directories(to: &mut Writer, at: &str) {
    let dump = Head { kind: b'D', magic: *b"ustar  \0", ..head(to, format!("{at}/old/")) };
    to.add(&dump, b"Yfile\0\0");
    file(to, format!("{at}/old/file"));
    to.pax(&[("GNU.dumpdir", "Yfile\0\0")]);
    directory(to, format!("{at}/new/"));
    file(to, format!("{at}/new/file"));
}

fn selinux(to: &mut Writer, at: &str) {
    to.pax(&[("RHT.security.selinux", "system_u:object_r:etc_t:s0")]);
    file(to, format!("{at}/file"));
}

fn attributes(to: &mut Writer, at: &str) {
    to.pax(&[("SCHILY.xattr.user.a", "one\ntwo\0three"), ("SCHILY.xattr.trusted.empty", "")]);
    file(to, format!("{at}/values"));
    to.pax(&[("SCHILY.xattr.user.a%3Db%25c", "escaped")]);
    file(to, format!("{at}/names"));
    to.pax(&[("SCHILY.xattr.user.d", "directory")]);
    directory(to, format!("{at}/directory"));
}

fn libarchive_attributes(to: &mut Writer, at: &str) {
    to.pax(&[("LIBARCHIVE.xattr.user.a%20b", "AAH/"), ("LIBARCHIVE.xattr.user.p", "eA")]);
    file(to, format!("{at}/base64"));
    to.pax(&[("LIBARCHIVE.xattr.user.both", "Ym90aA"), ("SCHILY.xattr.user.both", "both")]);
    file(to, format!("{at}/both"));
}

fn bad_attributes(to: &mut Writer, at: &str) {
    to.pax(&[("SCHILY.xattr.odd.namespace", "x"), ("SCHILY.xattr.user.good", "y")]);
    file(to, format!("{at}/namespace"));
    to.pax(&[("LIBARCHIVE.xattr.user.bad", "?!")]);
    file(to, format!("{at}/base64"));
    to.pax(&[("SCHILY.xattr.user.a", "x")]);
    to.link(&format!("{at}/link"), "base64");
}

fn flags(to: &mut Writer, at: &str) {
    to.pax(&[("SCHILY.fflags", "nodump")]);
    file(to, format!("{at}/file"));
}

fn inode_facts(to: &mut Writer, at: &str) {
    to.pax(&[
        ("SCHILY.dev", "64768"),
        ("SCHILY.ino", "1234"),
        ("SCHILY.nlink", "2"),
        ("LIBARCHIVE.creationtime", "1000000000.5"),
        ("ctime", "1000000001"),
        ("uname", "no-such-user"),
    ]);
    file(to, format!("{at}/file"));
    to.pax(&[("SCHILY.devmajor", "300"), ("SCHILY.devminor", "70000")]);
    let device = Head { kind: b'4', ..head(to, format!("{at}/device")) };
    to.add(&device, b"");
}

fn lists(to: &mut Writer, at: &str) {
    let list = "user::rw-,user:77:rwx,group::r--,group:78:r-x,mask::rwx,other::r--";
    to.pax(&[("SCHILY.acl.access", list)]);
    let head = Head { mode: octal8(0o644), ..head(to, format!("{at}/mask")) };
    to.add(&head, b"mask");
    let named = "user::rw-,user:root:r-x:0,group::r--,mask::r-x,other::---";
    to.pax(&[("SCHILY.acl.access", named)]);
    let head = Head { mode: octal8(0o640), ..head };
    to.add(&Head { name: format!("{at}/named").into(), ..head.clone() }, b"named");
    to.pax(&[("SCHILY.acl.default", list)]);
    directory(to, format!("{at}/directory"));
    file(to, format!("{at}/directory/file"));
}

fn unknown_users(to: &mut Writer, at: &str) {
    to.pax(&[(
        "SCHILY.acl.access",
        "user::rw-,user:no-one-here:rwx:77,group::r--,mask::rwx,other::r--",
    )]);
    let head = Head { mode: octal8(0o674), ..head(to, format!("{at}/number")) };
    to.add(&head, b"number");
    to.pax(&[(
        "SCHILY.acl.access",
        "user::rw-,user:no-one-here:rwx,group::r--,mask::rwx,other::r--",
    )]);
    to.add(&Head { name: format!("{at}/none").into(), ..head }, b"none");
}

fn keywords(to: &mut Writer, at: &str) {
    to.pax(&[("VENDOR.odd", "1"), ("comment", "c"), ("hdrcharset", "BINARY")]);
    file(to, format!("{at}/file"));
    to.records(b'X', &[("path", &format!("{at}/solaris"))]);
    file(to, format!("{at}/other"));
}

fn global(to: &mut Writer, at: &str) {
    to.records(b'g', &[("uid", "77"), ("comment", "0123456789abcdef")]);
    file(to, format!("{at}/all"));
    to.pax(&[("uid", "78")]);
    file(to, format!("{at}/own"));
    to.records(b'g', &[("uid", "")]);
    file(to, format!("{at}/header"));
}

fn bad_records(to: &mut Writer, at: &str) {
    to.raw(&Head { kind: b'x', ..Head::new("x") }, b"99 longer than all\n");
    file(to, format!("{at}/long"));
    to.raw(&Head { kind: b'x', ..Head::new("x") }, b"no number\n");
    file(to, format!("{at}/text"));
}

fn empty_names(to: &mut Writer, at: &str) {
    to.file("", b"a file without a name");
    file(to, format!("{at}/after"));
}

fn dot_names(to: &mut Writer, at: &str) {
    directory(to, format!("./{at}/."));
    file(to, format!("././{at}//file"));
    directory(to, format!("{at}/./directory//"));
}

fn dotdot_inside(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/directory"));
    file(to, format!("{at}/directory/../file"));
    file(to, format!("{at}/after"));
}

fn dotdot_outside(to: &mut Writer, at: &str) {
    file(to, "../dotdot-outside-file");
    file(to, format!("{at}/../../dotdot-outside-file"));
    file(to, format!("{at}/after"));
}

fn absolute(to: &mut Writer, at: &str) {
    file(to, format!("/{at}/file"));
    to.hard_link(&format!("/{at}/hard"), &format!("/{at}/file"));
    to.link(&format!("/{at}/link"), &format!("/{at}/file"));
}

fn below_links(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/real"));
    to.link(&format!("{at}/relative"), "real");
    to.link(&format!("{at}/absolute"), &format!("/{at}/real"));
    to.link(&format!("{at}/up"), &format!("../{at}/real"));
    to.link(&format!("{at}/nowhere"), "missing");
    for name in ["relative", "absolute", "up", "nowhere"] {
        file(to, format!("{at}/{name}/below-{name}"));
    }
    file(to, format!("{at}/after"));
}

fn over_links(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/real"));
    to.link(&format!("{at}/link"), "real");
    directory(to, format!("{at}/link"));
    file(to, format!("{at}/link/file"));
}

fn replaced(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file-directory"));
    directory(to, format!("{at}/file-directory"));
    directory(to, format!("{at}/directory-file"));
    file(to, format!("{at}/directory-file"));
    file(to, format!("{at}/first"));
    to.hard_link(&format!("{at}/second"), &format!("{at}/first"));
    file(to, format!("{at}/first"));
    to.link(&format!("{at}/link"), "first");
    file(to, format!("{at}/link"));
    directory(to, format!("{at}/full"));
    file(to, format!("{at}/full/below"));
    file(to, format!("{at}/full"));
}

fn long_names(to: &mut Writer, at: &str) {
    let long = format!("{at}/{}", "long/".repeat(30));
    let of = |kind, text: &str| {
        (Head { kind, ..Head::new("././@LongLink") }, [text.as_bytes(), b"\0"].concat())
    };
    let (gnu, text) = of(b'L', &format!("{long}gnu"));
    to.raw(&gnu, &text);
    file(to, "cut");
    let (gnu, text) = of(b'K', &long);
    to.raw(&gnu, &text);
    to.link(&format!("{at}/link"), "cut");
    to.pax(&[("path", &format!("{long}pax"))]);
    file(to, "cut");
    to.pax(&[("path", &format!("{long}linked")), ("linkpath", &format!("{long}pax"))]);
    to.hard_link("cut", "cut");
    let split = Head { prefix: format!("{at}/prefix").into(), ..head(to, "file") };
    to.add(&split, b"prefix");
    let most = Head { prefix: at.into(), ..head(to, "x".repeat(100)) };
    to.add(&most, b"no zero byte");
    file(to, format!("{at}/{}", "n".repeat(60)));
    to.pax(&[("path", &format!("{at}/{}", "m".repeat(256)))]);
    file(to, "too-long");
}

fn sparse(to: &mut Writer, at: &str) {
    let name = format!("{at}/new");
    to.pax(&[
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", &name),
        ("GNU.sparse.realsize", "9000"),
    ]);
    // Only the last piece may be no multiple of a block: GNU tar starts each at a new one.
    let mut map = b"2\n4096\n512\n8999\n1\n".to_vec();
    map.resize(512, 0);
    map.extend_from_slice(&[b'a'; 513]);
    let head = head(to, "GNUSparseFile.0/new");
    to.add(&head, &map);
    let name = format!("{at}/records");
    to.pax(&[
        ("GNU.sparse.size", "5000"),
        ("GNU.sparse.numblocks", "2"),
        ("GNU.sparse.map", "4000,3,5000,0"),
        ("GNU.sparse.name", &name),
    ]);
    to.add(&head, b"xyz");
    // The map is after the times, at 386: four pairs, whether more follow, and the length.
    let pair = |offset, length| [octal12(offset), octal12(length)].concat();
    let mut rest = vec![0; 41];
    rest.extend([pair(1024, 4), pair(6000, 0), vec![0; 48]].concat());
    rest.extend([&[0][..], &octal12(6000)].concat());
    let old = Head { kind: b'S', magic: *b"ustar  \0", prefix: rest, ..head };
    to.add(&Head { name: format!("{at}/old").into(), ..old }, b"four");
}

fn unknown_types(to: &mut Writer, at: &str) {
    let odd = Head { kind: b'Z', ..head(to, format!("{at}/file")) };
    to.add(&odd, b"of an unknown type");
    file(to, format!("{at}/after"));
}

fn implied(to: &mut Writer, at: &str) {
    file(to, format!("{at}/no/member/makes/these"));
    directory(to, format!("{at}/twice"));
    file(to, format!("{at}/twice/file"));
    directory(to, format!("{at}/twice"));
    // A directory that its owner cannot write comes before its files.
    let odd = Head { mode: octal8(0o555), ..Head::directory(format!("{at}/fixed")) };
    to.add(&odd, b"");
    file(to, format!("{at}/fixed/file"));
}

fn hard_links(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    to.link(&format!("{at}/link"), "nothing");
    to.hard_link(&format!("{at}/to-link"), &format!("{at}/link"));
    to.hard_link(&format!("{at}/file"), &format!("{at}/file"));
    to.hard_link(&format!("{at}/to-nothing"), &format!("{at}/none"));
    directory(to, format!("{at}/directory"));
    to.hard_link(&format!("{at}/to-directory"), &format!("{at}/directory"));
    to.hard_link(&format!("{at}/./again"), &format!("./{at}//file"));
    file(to, format!("{at}/after"));
}

fn byte_names(to: &mut Writer, at: &str) {
    file(to, [at.as_bytes(), b"/\xff\xfe"].concat());
    file(to, [at.as_bytes(), b"/new\nline\x1b[1m"].concat());
    file(to, format!("{at}/ leading and trailing "));
    file(to, format!("{at}/back\\slash"));
}

fn no_end(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
}

fn lone_zero_last(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    to.append(&[0; 512]);
}

fn lone_zero(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    to.append(&[0; 512]);
    file(to, format!("{at}/after"));
    to.end();
}

fn second_archive(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    to.end();
    file(to, format!("{at}/after"));
    to.end();
}

fn damaged_header(to: &mut Writer, at: &str) {
    file(to, format!("{at}/file"));
    let offset = to.length();
    file(to, format!("{at}/damaged"));
    to.damage(offset);
    file(to, format!("{at}/after"));
    to.end();
}

fn cut_header(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/"));
    file(to, format!("{at}/file"));
    to.append(&[b'x'; 100]);
}

fn cut_body(to: &mut Writer, at: &str) {
    directory(to, format!("{at}/"));
    file(to, format!("{at}/file"));
    let head = Head { size: Some(octal12(4000)), ..head(to, format!("{at}/cut")) };
    to.add(&head, &[7; 512]);
}
