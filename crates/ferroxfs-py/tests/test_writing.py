"""Changing and making volumes."""

import io
import os
import signal
import stat
import uuid

import ferroxfs
import pytest


def test_files_are_made_and_changed(writable):
    note = writable / "note"
    assert note.write_text("first") == 5
    with note.open("a") as file:
        file.write(" second")
    assert note.read_text() == "first second"
    with note.open("r+b") as file:
        file.seek(6)
        file.write(b"SECOND")
        file.truncate()
        file.flush()
        file.raw.sync()
    assert note.read_bytes() == b"first SECOND"
    with pytest.raises(FileExistsError):
        note.open("x")
    with (writable / "sparse").open("wb", buffering=0) as raw:
        raw.seek(1 << 20)
        raw.write(b"end")
    assert (writable / "sparse").stat().st_size == (1 << 20) + 3


@pytest.mark.parametrize("mode", ["", "rw", "rr", "q", "rbt", "b"])
def test_invalid_modes_are_refused(writable, mode):
    with pytest.raises(ValueError):
        (writable / "note").open(mode)


def test_names_are_changed(writable):
    etc = writable / "etc"
    moved = (etc / "hostname").rename("/etc/box")
    assert moved.read_text() == "box\n" and not (etc / "hostname").exists()
    with pytest.raises(FileExistsError):
        (writable / "srv/www/index.html").rename(moved)
    (writable / "srv/www/index.html").replace(moved)
    assert moved.read_bytes().startswith(b"<h1>")
    (etc / "other").hardlink_to(moved)
    assert moved.stat().st_nlink == 2
    (etc / "other").unlink()
    (etc / "other").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (etc / "other").unlink()
    with pytest.raises(OSError):
        etc.rmdir()
    (writable / "srv").rmtree()
    assert not (writable / "srv").exists()
    (writable / "a/b/c").mkdir(parents=True)
    (writable / "a/b/c").mkdir(exist_ok=True)
    with pytest.raises(FileExistsError):
        (writable / "a").mkdir()
    (writable / "a/b/c").rmdir()


def test_attributes_are_changed(writable):
    note = writable / "note"
    note.touch(0o600)
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    note.chmod(0o640)
    note.chown(1000, 100)
    note.utime(ns=(1_500_000_000_123_456_789, -1))
    found = note.stat()
    assert stat.S_IMODE(found.st_mode) == 0o640 and (found.st_uid, found.st_gid) == (1000, 100)
    assert (found.st_atime_ns, found.st_mtime_ns) == (1_500_000_000_123_456_789, -1)
    note.chown(gid=7)
    assert (note.stat().st_uid, note.stat().st_gid) == (1000, 7)
    note.xattrs["user.k"] = b"v" * 1000
    note.xattrs["user.k"] = b"w"
    assert dict(note.xattrs) == {"user.k": b"w"}
    del note.xattrs["user.k"]
    with pytest.raises(KeyError):
        del note.xattrs["user.k"]


def test_names_need_not_be_utf8(writable):
    name = os.fsdecode(b"caf\xe9")
    (writable / name).write_bytes(b"x")
    (writable / b"caf\xe9").chmod(0o600)
    assert name in [path.name for path in writable.root.iterdir()]


def test_users_are_refused(writable):
    user = writable.as_user(1000, 1000)
    with pytest.raises(PermissionError):
        (user / "etc/hostname").write_text("mine")
    with pytest.raises(PermissionError):
        (user / "new").mkdir()
    assert (user / "etc/hostname").read_text() == "box\n"
    user.close()


def test_files_left_open_are_closed_with_the_volume(image):
    with ferroxfs.open(image, write=True) as volume:
        raw = (volume / "late").open("wb", buffering=0)
        raw.write(b"kept")
        buffered = (volume / "buffered").open("w")
        buffered.write("kept, too")
        user = volume.as_user(0, 0)
    assert user.closed
    with pytest.raises(ValueError):
        raw.write(b"more")
    with pytest.raises(ValueError):
        buffered.write("more")
    with ferroxfs.open(image) as volume:
        assert (volume / "late").read_bytes() == b"kept"
        assert (volume / "buffered").read_bytes() == b"kept, too"
        assert volume.check()


def test_writable_volume_is_neither_checked_nor_scanned(writable):
    with pytest.raises(OSError) as busy:
        writable.check()
    assert busy.value.errno == 16
    with pytest.raises(ValueError):
        writable.scan()


def test_volumes_are_made(tmp_path):
    image = tmp_path / "new.img"
    wanted = uuid.uuid4()
    options = {"d": "agcount=2", "i": "size=1024"}
    ferroxfs.mkfs(image, size=320 << 20, label="new", uuid=wanted, options=options)
    with ferroxfs.open(image) as volume:
        assert volume.label == "new" and volume.uuid == wanted
        assert volume.check().groups == 2
    with pytest.raises(FileExistsError):
        ferroxfs.mkfs(image, size=320 << 20)
    with pytest.raises(FileExistsError):
        ferroxfs.mkfs(image)
    ferroxfs.mkfs(image, force=True)
    for options in ({"d": "agcount=x"}, {"z": "a=1"}, {"b": "size=3"}):
        with pytest.raises(ValueError):
            ferroxfs.mkfs(tmp_path / "other.img", size=300 << 20, options=options)
        assert not (tmp_path / "other.img").exists()
    with pytest.raises(ValueError):
        ferroxfs.mkfs(image, label="thirteen-byte", force=True)


def test_volume_lives_in_a_file_object(tmp_path):
    memory = io.BytesIO(bytes(300 << 20))
    ferroxfs.mkfs(memory)
    with ferroxfs.open(memory, write=True) as volume:
        (volume / "only").write_text("in memory")
        volume.sync()
    with ferroxfs.open(memory) as volume:
        assert (volume / "only").read_text() == "in memory"
        assert volume.check()


@pytest.fixture
def tree(tmp_path):
    """A directory of the host with every kind of file that needs no root."""
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep/er/page").write_bytes(os.urandom(3_000_000))
    (tree / "deep/empty").touch()
    with (tree / "deep/sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(64 << 20)
        file.write(b"end")
        file.truncate(96 << 20)
    os.link(tree / "deep/er/page", tree / "another name")
    os.symlink("deep/er", tree / "link")
    os.mkfifo(tree / "fifo")
    (tree / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    os.chmod(tree / "deep/er/page", 0o4755)
    os.chmod(tree / "deep/er", 0o1500)
    os.utime(tree / "deep/er/page", ns=(1_500_000_000_000_000_001, 1_400_000_000_123_456_789))
    os.utime(tree / "deep", ns=(-5, 7))
    os.utime(tree / "link", ns=(11, 12), follow_symlinks=False)
    if os.geteuid() == 0:
        os.chown(tree / "deep/er", 1000, 1001)
        os.chown(tree / "link", 1002, 1003, follow_symlinks=False)
        os.mknod(tree / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return tree


def check_copy(tree, copy):
    """Compares a tree of the host with its copy."""
    found = {".": copy.lstat()}
    found.update({path.relative_to(copy): path.lstat() for path in copy.rglob("*")})
    names = {os.path.relpath(os.path.join(at, name), tree)
             for at, directories, files in os.walk(tree) for name in directories + files}
    assert set(found) == names | {"."}
    for name, copied in found.items():
        path = tree / name
        real = path.lstat()
        for key in ("st_mode", "st_uid", "st_gid", "st_mtime_ns"):
            assert getattr(copied, key) == getattr(real, key), f"{name}: {key}"
        if stat.S_ISREG(real.st_mode):
            assert (copied.st_size, copied.st_nlink) == (real.st_size, real.st_nlink), name
            with open(path, "rb") as one, (copy / name).open("rb") as other:
                while block := one.read(1 << 20):
                    assert other.read(1 << 20) == block, name
        if stat.S_ISLNK(real.st_mode):
            assert (copy / name).readlink() == os.readlink(path)
        if stat.S_ISCHR(real.st_mode):
            assert (copied.rdev_major, copied.rdev_minor) == (1, 3)


def test_tree_of_the_host_is_copied(tree, tmp_path):
    image = tmp_path / "new.img"
    ferroxfs.mkfs(image, size=320 << 20, source=tree)
    with ferroxfs.open(image) as volume:
        check_copy(tree, volume.root)
        sparse = (volume / "deep/sparse").stat()
        assert sparse.st_blocks * 512 < 4 << 20, "holes are holes"
        page = volume / "another name"
        assert page.samefile("/deep/er/page")
        assert (page.stat().st_atime_ns, page.stat().st_nlink) == (1_500_000_000_000_000_001, 2)
        assert volume.check()


def test_attributes_of_the_host_are_copied(tree, writable):
    try:
        os.setxattr(tree / "deep", "user.origin", b"v" * 1000)
    except OSError:
        pytest.skip("the host has no attributes here")
    writable.populate(tree, "/copy")
    assert dict((writable / "copy/deep").xattrs)["user.origin"] == b"v" * 1000


def test_trees_are_merged_and_files_are_not_replaced(tree, writable):
    writable.populate(tree, "/srv/copy")
    check_copy(tree, writable / "srv/copy")
    with pytest.raises(FileExistsError) as exists:
        writable.populate(tree, "/srv/copy")
    assert exists.value.filename.startswith(str(tree))
    # Directories alone are merged.
    folders = tree.parent / "folders"
    (folders / "deep" / "new").mkdir(parents=True)
    writable.populate(folders, "srv/copy")
    assert (writable / "srv/copy/deep/new").is_dir()
    assert (writable / "srv/copy/deep/er/page").is_file()
    with pytest.raises(FileNotFoundError):
        writable.populate(tree / "none")
    with pytest.raises(NotADirectoryError):
        writable.populate(tree / "deep/empty")
    with pytest.raises(NotADirectoryError):
        writable.populate(folders, "/etc/hostname")


def test_directory_with_the_image_is_refused(tree):
    image = tree / "deep" / "new.img"
    with pytest.raises(ValueError, match="image that is written to"):
        ferroxfs.mkfs(image, size=320 << 20, source=tree)
    assert not image.exists()


def test_copy_that_does_not_fit_leaves_no_image(tree, tmp_path):
    (tree / "large").write_bytes(bytes(range(256)) * (1 << 20))
    with pytest.raises(OSError) as full:
        ferroxfs.mkfs(tmp_path / "new.img", size=300 << 20, source=tree)
    assert full.value.errno == 28 and full.value.filename == str(tree / "large")
    assert not (tmp_path / "new.img").exists()


def test_signal_ends_a_copy(tree, writable):
    for number in range(400):
        (tree / f"file-{number}").write_bytes(bytes(1 << 20))

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        # Without a look for signals the copy would go on until the volume is full.
        with pytest.raises(KeyboardInterrupt) as ended:
            writable.populate(tree, "/copy")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended.value.__context__ is None
    assert len(list((writable / "copy").iterdir())) < 400
