"""Volumes for the tests."""

import os
import pathlib
import shutil

import ferroxfs
import pytest

SIZE = 300 << 20


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    image = tmp_path_factory.mktemp("template") / "disk.img"
    ferroxfs.mkfs(image, size=SIZE, label="data")
    with ferroxfs.open(image, write=True) as volume:
        (volume / "etc").mkdir()
        (volume / "etc" / "hostname").write_text("box\n")
        (volume / "etc" / "name").symlink_to("hostname")
        (volume / "srv" / "www" / "deep").mkdir(parents=True)
        (volume / "srv" / "www" / "index.html").write_bytes(b"<h1>It works</h1>" * 1000)
        (volume / "srv" / "www" / "deep" / "page.html").write_text("page")
        (volume / "etc" / "hostname").xattrs["user.origin"] = b"test"
    return image


@pytest.fixture
def image(_template: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of a volume with some files. It is sparse."""
    copy = tmp_path / "disk.img"
    with open(_template, "rb") as source, open(copy, "wb") as target:
        target.truncate(SIZE)
        at = 0
        while True:
            try:
                at = os.lseek(source.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(source.fileno(), at, os.SEEK_HOLE)
            source.seek(at)
            target.seek(at)
            shutil.copyfileobj(_Limited(source, end - at), target)
            at = end
    return copy


class _Limited:
    def __init__(self, file, left):
        self.file, self.left = file, left

    def read(self, size=-1):
        data = self.file.read(min(size if size >= 0 else self.left, self.left))
        self.left -= len(data)
        return data


@pytest.fixture
def volume(image: pathlib.Path):
    """The volume of `image`, open for reading."""
    with ferroxfs.open(image) as volume:
        yield volume


@pytest.fixture
def writable(image: pathlib.Path):
    """The volume of `image`, open for writing."""
    with ferroxfs.open(image, write=True) as volume:
        yield volume
