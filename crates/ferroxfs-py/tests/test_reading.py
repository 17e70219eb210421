"""Opening and reading."""

import io
import os
import stat
import subprocess
import sys

import ferroxfs
import pytest


def test_paths_follow_pathlib(volume):
    page = volume / "srv" / "www" / "index.html"
    assert str(page) == "/srv/www/index.html"
    assert (page.name, page.stem, page.suffix) == ("index.html", "index", ".html")
    assert page.parent == volume.path("srv/www")
    assert [str(path) for path in page.parents] == ["/srv/www", "/srv", "/"]
    assert page.parts == ("/", "srv", "www", "index.html")
    assert page.relative_to("/srv") == "www/index.html"
    assert page.with_suffix(".txt").name == "index.txt"
    assert volume.root.parent == volume.root
    assert volume.root.name == ""
    with pytest.raises(ValueError):
        page.relative_to("/etc")


def test_files_are_read(volume):
    hostname = volume / "etc/hostname"
    assert hostname.read_text() == "box\n"
    assert hostname.read_bytes() == b"box\n"
    with hostname.open() as file:
        assert list(file) == ["box\n"]
    with (volume / "srv/www/index.html").open("rb") as file:
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"/h1>"
        file.seek(17)
        assert file.read(4) == b"<h1>"


def test_properties_are_those_of_the_inode(volume):
    found = (volume / "etc/hostname").stat()
    assert stat.S_ISREG(found.st_mode) and found.st_size == 4 and found.st_nlink == 1
    assert volume.paths_of(found.st_ino) == [volume / "etc/hostname"]
    assert (volume / "etc/name").is_symlink()
    assert (volume / "etc/name").readlink() == "hostname"
    assert (volume / "etc/name").stat().st_ino == found.st_ino
    assert (volume / "etc/name").lstat().st_ino != found.st_ino
    assert (volume / "etc").is_dir() and not (volume / "none").exists()
    assert (volume / "etc/name").samefile(volume / "etc/hostname")
    assert found.st_mtime > 1.7e9


def test_trees_are_listed(volume):
    assert sorted(path.name for path in volume.root.iterdir()) == ["etc", "srv"]
    walked = {str(path): (sorted(dirs), sorted(files)) for path, dirs, files in volume.root.walk()}
    assert walked["/etc"] == ([], ["hostname", "name"])
    assert walked["/srv/www"] == (["deep"], ["index.html"])
    below = [str(path) for path, _, _ in volume.root.walk(top_down=False)]
    assert below[-1] == "/" and below.index("/srv/www/deep") < below.index("/srv/www")
    assert [str(path) for path in volume.path("srv").glob("*/*.html")] == ["/srv/www/index.html"]
    found = sorted(str(path) for path in volume.root.rglob("*.html"))
    assert found == ["/srv/www/deep/page.html", "/srv/www/index.html"]
    assert [str(path) for path in volume.root.glob("etc/host[a-z]ame")] == ["/etc/hostname"]


def test_attributes_are_a_mapping(volume):
    attributes = (volume / "etc/hostname").xattrs
    assert dict(attributes) == {"user.origin": b"test"}
    assert "user.none" not in attributes
    with pytest.raises(KeyError):
        attributes["user.none"]


def test_errors_are_those_of_the_system(volume, image, tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        (volume / "none").read_bytes()
    assert missing.value.filename == "/none"
    with pytest.raises(IsADirectoryError):
        (volume / "etc").read_bytes()
    with pytest.raises(NotADirectoryError):
        list((volume / "etc/hostname").iterdir())
    with pytest.raises(OSError) as refused:
        (volume / "new").mkdir()
    assert refused.value.errno == 30
    with pytest.raises(FileNotFoundError):
        ferroxfs.open(tmp_path / "none.img")
    (tmp_path / "empty.img").write_bytes(bytes(65536))
    with pytest.raises(ferroxfs.NotXfsError):
        ferroxfs.open(tmp_path / "empty.img")
    with pytest.raises(OSError) as busy:
        ferroxfs.open(image, write=True)
    assert busy.value.errno == 16


def test_closed_volume_refuses_every_call(image):
    volume = ferroxfs.open(image)
    file = (volume / "etc/hostname").open("rb")
    assert not volume.closed
    volume.close()
    volume.close()
    assert volume.closed
    with pytest.raises(ValueError):
        (volume / "etc").stat()
    with pytest.raises(ValueError):
        file.read()


def test_descriptors_and_file_objects_are_opened(image):
    descriptor = os.open(image, os.O_RDONLY)
    with ferroxfs.open(descriptor) as volume:
        os.close(descriptor)
        assert (volume / "etc/hostname").read_text() == "box\n"
    with open(image, "rb") as file, ferroxfs.open(file) as volume:
        assert (volume / "etc/hostname").read_text() == "box\n"
        assert len(list(volume.root.rglob("*"))) == 8
    with open(image, "rb", buffering=0) as raw, ferroxfs.open(raw) as volume:
        assert (volume / "etc/hostname").read_text() == "box\n"


def test_failing_file_object_gives_its_error(image):
    class Failing(io.FileIO):
        fails = False

        def read(self, size=-1):
            if self.fails:
                raise OSError(5, "on purpose")
            return super().read(size)

    with Failing(image, "rb") as file, ferroxfs.open(file) as volume:
        file.fails = True
        with pytest.raises(OSError) as error:
            (volume / "srv/www/index.html").read_bytes()
        assert error.value.errno == 5


def test_damage_names_the_structure(image):
    with ferroxfs.open(image) as volume:
        number = (volume / "etc/hostname").stat().st_ino
    with open(image, "r+b") as file:
        file.seek(number * 512 + 60)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    with ferroxfs.open(image) as volume:
        with pytest.raises(ferroxfs.CorruptError) as error:
            (volume / "etc/hostname").read_bytes()
        assert error.value.structure == "inode"
        assert error.value.address == f"inode {number}"
        assert "checksum" in error.value.check
        assert error.value.errno == 117
        report = volume.check()
        assert not report
        assert any(finding.inode == number for finding in report.findings)
        seen = []
        list(volume.root.walk(on_error=seen.append))
        assert [path.name for path in (volume / "etc").iterdir()] == ["hostname", "name"]
        scan = volume.scan(["ino"])
        pyarrow = pytest.importorskip("pyarrow")
        with pytest.raises(Exception, match="damaged"):
            pyarrow.table(scan)
        rest = volume.scan(["ino"], strict=False)
        table = pyarrow.table(rest)
        assert number not in table["ino"].to_pylist()
        assert rest.totals.errors > 0 and rest.totals.findings[0]["code"] == "checksum"


def test_sound_volume_is_clean(volume):
    report = volume.check()
    assert report and report.findings == [] and report.inodes > 5
    space = volume.space()
    assert space.block_size == 4096 and 0 < space.available_blocks < space.total_blocks
    assert volume.label == "data" and volume.uuid.version == 4


def test_volume_left_open_is_closed_at_exit(image):
    program = (
        "import ferroxfs, sys\n"
        "volume = ferroxfs.open(sys.argv[1], write=True)\n"
        "(volume / 'late').write_text('kept')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(image)], check=True)
    with ferroxfs.open(image) as volume:
        assert (volume / "late").read_text() == "kept"
