"""The file system of fsspec."""

import ferroxfs
import pytest

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def files(image):
    files = fsspec.filesystem("xfs", fo=str(image))
    yield files
    files.close()


def test_protocol_is_registered(files):
    assert type(files).__name__ == "XfsFileSystem"


def test_files_are_listed_and_read(files):
    assert files.ls("/", detail=False) == ["etc", "srv"]
    assert files.find("srv") == ["srv/www/deep/page.html", "srv/www/index.html"]
    assert files.glob("srv/**/*.html") == ["srv/www/deep/page.html", "srv/www/index.html"]
    assert files.cat("etc/hostname") == b"box\n"
    assert files.cat_file("srv/www/index.html", start=4, end=8) == b"It w"
    assert files.info("etc/name")["islink"] and files.isfile("etc/name")
    assert files.isdir("srv") and not files.exists("none")
    with pytest.raises(FileNotFoundError):
        files.info("none")
    assert files.modified("etc/hostname").tzinfo is not None


def test_url_is_chained_over_another_file_system(image):
    with fsspec.open(f"xfs://etc/hostname::{image}", "rt") as file:
        assert file.read() == "box\n"
    memory = fsspec.filesystem("memory")
    memory.pipe("/disk.img", image.read_bytes())
    with fsspec.open("xfs://etc/hostname::memory://disk.img", "rb") as file:
        assert file.read() == b"box\n"
    memory.rm("/disk.img")


def test_files_are_changed(image):
    files = fsspec.filesystem("xfs", fo=str(image), write=True)
    files.makedirs("new/deep")
    files.pipe("new/deep/file", b"contents")
    files.cp_file("new/deep/file", "new/copy")
    files.mv("new/copy", "new/moved")
    files.rm("srv", recursive=True)
    files.close()
    with ferroxfs.open(image) as volume:
        assert (volume / "new/moved").read_bytes() == b"contents"
        assert not (volume / "srv").exists()


def test_pandas_style_reader_gets_a_file(files):
    with files.open("etc/hostname", "r") as file:
        assert file.read() == "box\n"
