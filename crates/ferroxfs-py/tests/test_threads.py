"""Threads, the GIL and references."""

import gc
import resource
import sys
import threading
import time
import tracemalloc

import ferroxfs
import pytest

THREADS = 16


def test_16_threads_read_one_volume(volume):
    expected = (volume / "srv/www/index.html").read_bytes()
    errors, start = [], threading.Barrier(THREADS)

    def work():
        try:
            start.wait()
            for _ in range(50):
                assert (volume / "srv/www/index.html").read_bytes() == expected
                assert len(list((volume / "etc").iterdir())) == 2
                assert (volume / "etc/name").stat().st_size == 4
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_change_one_volume(writable):
    errors = []

    def work(number):
        try:
            own = writable / f"thread-{number}"
            own.mkdir()
            for index in range(20):
                (own / str(index)).write_text(str(index))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(writable.root.rglob("[0-9]*"))) == THREADS * 20


class SlowDevice:
    """A device whose reads wait, without the GIL, until another thread has run."""

    def __init__(self, file):
        self.file, self.gate, self.waits = file, threading.Event(), False

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def read(self, size):
        if self.waits:
            assert self.gate.wait(30), "the other thread never ran"
        return self.file.read(size)


def test_other_threads_run_while_a_call_reads(image):
    with open(image, "rb") as file:
        device = SlowDevice(file)
        with ferroxfs.open(device) as volume:
            device.waits = True
            thread = threading.Thread(target=device.gate.set)
            timer = threading.Timer(0.1, thread.start)
            timer.start()
            assert (volume / "srv/www/index.html").stat().st_size == 17000
            timer.join()
            thread.join()


def test_closing_waits_for_calls_of_other_threads(image):
    volume = ferroxfs.open(image)
    stopped = threading.Event()

    def work():
        while not stopped.is_set():
            try:
                (volume / "etc/hostname").read_bytes()
            except ValueError:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    volume.close()
    stopped.set()
    for thread in threads:
        thread.join()
    assert volume.closed


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("calls", [1_000_000])
def test_a_million_calls_leave_no_references(volume, calls):
    """Counts the objects and the memory of Python, and the memory of the process."""
    native, path = volume._native, b"/etc/hostname"
    missing = b"/etc/none"
    file = native.open(
        path, read=True, write=False, create=False, exclusive=False, truncate=False, mode=0
    )

    def work(count):
        for _ in range(count // 5):
            native.stat(path, True)
            native.getxattr(path, True, b"user.origin")
            file.pread(4, 0)
            native.listdir(b"/etc")
            try:
                native.readlink(missing)
            except FileNotFoundError:
                pass

    work(10_000)
    gc.collect()
    tracemalloc.start()
    before, blocks, resident = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks(), _resident()
    work(20_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 64 << 10, f"{grown} bytes of Python objects"
    work(calls)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 5000
    assert _resident() - resident < 48 << 20
    file.close()
