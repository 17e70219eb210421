"""Changing and making volumes."""

import io
import os
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
