"""The trial of datasets and reports: `trial.py FERROXFS FERROXFS-QUERY FOLDER [SEED]`.

Makes 40 volumes, changes them over three days, and scans them into one dataset by workers that are
killed at random and run again. Then checks that no partition is missing, doubled or half, and that
each report has the same rows in DataFusion, DuckDB, ClickHouse and Spark.
"""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pyarrow.parquet as parquet

VOLUMES = int(os.environ.get("VOLUMES", 40))
DAYS = ["2026-11-29", "2026-11-30", "2026-12-01"]
WORKERS = 4
# Parameters that let each report have rows on such small volumes.
PARAMETERS = {
    "duplicates": ["--minimum", "1"],
    "oldest": ["--minimum", "1"],
    "usage-by-directory": ["--depth", "3", "--limit", "5000"],
    "small-files": ["--depth", "1", "--small", "8k"],
    "changes": ["--since", DAYS[0], "--limit", "100000"],
    "change-totals": ["--since", DAYS[0], "--limit", "100000"],
    "largest": ["--limit", "500"],
    "volumes": ["--limit", "1000"],
}
ENGINES = ["duckdb", "clickhouse", "spark"]


def run(*command, **options):
    return subprocess.run([str(it) for it in command], check=True, **options)


def answer(*command):
    return run(*command, stdout=subprocess.PIPE, text=True).stdout


class Volumes:
    """Images with random trees, each of which changes from day to day."""

    def __init__(self, ferroxfs, folder, chance):
        self.ferroxfs, self.folder, self.chance = ferroxfs, folder, chance
        self.images = [folder / f"volume-{number:02}.img" for number in range(VOLUMES)]
        self.files = {}

    def make(self):
        for image in self.images:
            tree = self.folder / "tree"
            tree.mkdir()
            files = []
            for number in range(self.chance.randrange(5, 60)):
                depth = self.chance.randrange(0, 5)
                parts = [self.chance.choice(["home", "srv", "öl & wasser", "x'y"]) for _ in range(depth)]
                place = tree.joinpath(*parts)
                place.mkdir(parents=True, exist_ok=True)
                file = place / f"file {number}.dat"
                file.write_bytes(b"x" * self.chance.choice([0, 1, 700, 4096, 8192, 70_000, 1 << 20]))
                os.chown(file, *[self.chance.choice([0, 1000, 1001, 65534])] * 2)
                age = self.chance.choice([0, 1, 400, 4000, 15000])
                moment = 1_796_000_000 - 86400 * age
                os.utime(file, (moment, moment))
                files.append("/" + str(file.relative_to(tree)))
            label = image.stem.replace("volume-", "vol")
            run(self.ferroxfs, "mkfs", "-q", "-L", label, "-d", "size=300m", "--from", tree, image)
            shutil.rmtree(tree)
            self.files[image] = files

    def change(self):
        """Creates, replaces, renames and removes files of half of the volumes."""
        for image in self.chance.sample(self.images, VOLUMES // 2):
            files = self.files[image]
            contents = b"y" * self.chance.randrange(1, 100_000)
            name = f"/new {len(files)}"
            run(self.ferroxfs, "put", f"{image}:{name}", input=contents)
            old = files.pop(self.chance.randrange(len(files)))
            run(self.ferroxfs, "rm", f"{image}:{old}")
            moved = files[self.chance.randrange(len(files))]
            run(self.ferroxfs, "mv", f"{image}:{moved}", f"{image}:{moved}-moved")
            files[files.index(moved)] = moved + "-moved"
            other = self.chance.choice(files)
            run(self.ferroxfs, "chmod", "600", f"{image}:{other}")
            files.append(name)


def scan_with_kills(ferroxfs, dataset, day, images, chance):
    """Scans all images by workers, kills some of them, and runs those again. Returns the kills."""
    batches = collections.deque(images[at : at + 5] for at in range(0, len(images), 5))
    killed = 0
    running = {}
    while batches or running:
        while batches and len(running) < WORKERS:
            batch = batches.popleft()
            command = [ferroxfs, "scan", "--dataset", dataset, "--scan-date", day, *batch]
            # Files of one table differ in their columns: half of the batches have hashes.
            command += ["--hash", "head"] if images.index(batch[0]) % 10 else []
            worker = subprocess.Popen([str(it) for it in command], stdout=subprocess.DEVNULL)
            dies = time.monotonic() + chance.uniform(0.0, 0.5) if chance.random() < 0.5 else None
            running[worker] = (batch, dies)
        for worker, (batch, dies) in list(running.items()):
            if worker.poll() is not None:
                assert worker.returncode in (0, -signal.SIGKILL), worker.returncode
                del running[worker]
                if worker.returncode:
                    killed += 1
                    batches.append(batch)
            elif dies is not None and time.monotonic() > dies:
                worker.kill()
        check_partitions(dataset)
        # The kills are at random times: this only paces the looks at the workers.
        time.sleep(0.01)
    return killed


def check_partitions(dataset):
    """Checks that each file that has its name is complete, and has no second one beside it."""
    for table in ("inodes", "scans"):
        for place in dataset.glob(f"{table}/scan_date=*/volume_uuid=*"):
            names = sorted(os.listdir(place))
            assert names in ([], ["part-00000.parquet"]), (place, names)
    for scan in dataset.glob("scans/*/*/part-00000.parquet"):
        rows = dataset / "inodes" / scan.relative_to(dataset / "scans")
        assert rows.exists(), f"{scan}: a row about a scan without its inodes"


def check_complete(dataset, images, ferroxfs):
    """Checks that there is one partition for each volume and day, with the rows of its scan."""
    for table in ("inodes", "scans"):
        for day in DAYS:
            found = list(dataset.glob(f"{table}/scan_date={day}/volume_uuid=*/*"))
            assert len(found) == len(images), (table, day, len(found))
    for scan in dataset.glob("scans/*/*/part-00000.parquet"):
        wanted = parquet.ParquetFile(scan).read().column("inodes").to_pylist()
        rows = parquet.ParquetFile(dataset / "inodes" / scan.relative_to(dataset / "scans")).read()
        assert wanted == [rows.num_rows], (scan, wanted, rows.num_rows)
        numbers = rows.column("ino").to_pylist()
        assert numbers == sorted(set(numbers)), f"{scan}: rows out of order or doubled"
    for image in images:
        lines = answer(ferroxfs, "scan", "--format", "ndjson", image).splitlines()
        uuid = json.loads(lines[1])["volume_uuid"]
        path = f"inodes/scan_date={DAYS[-1]}/volume_uuid={uuid}/part-00000.parquet"
        there = parquet.ParquetFile(dataset / path).read(["ino", "generation", "size"]).to_pylist()
        rows = [json.loads(line) for line in lines]
        here = [row for row in rows if row["row"] == "inode"]
        here = [{key: row[key] for key in ("ino", "generation", "size")} for row in here]
        assert here == there, f"{image}: the dataset differs from a scan"
    # A run removes what killed ones have left.
    run(ferroxfs, "scan", "--quiet", "--dataset", dataset, "--scan-date", DAYS[-1], images[0])
    assert os.listdir(dataset / ".staging") == []


def compare(query, dataset, folder):
    """Runs each report in each engine. Returns the number of rows of each report."""
    names = [line.split()[0] for line in answer(query, "--list").splitlines() if line[0] != " "]
    names.remove("overview")
    ours = {}
    for name in names:
        command = [query, dataset, "--report", name, *PARAMETERS.get(name, [])]
        lines = answer(*command, "--format", "ndjson").splitlines()
        ours[name] = [list(json.loads(line).values()) for line in lines]
        assert ours[name], f"{name}: no rows, so that nothing is compared"
        (folder / f"{name}.sql").write_text(answer(*command, "--print-sql"))
    for engine in ENGINES:
        (folder / f"{engine}.setup.sql").write_text(answer(query, dataset, "--setup", engine))
        program = pathlib.Path(__file__).with_name("engine.py")
        lines = answer(sys.executable, program, engine, folder, *names).splitlines()
        answers = [json.loads(line) for line in lines if line.startswith("{")]
        assert [it["name"] for it in answers] == names, engine
        for it in answers:
            compare_rows(f"{it['name']}: {engine}", it["rows"], ours[it["name"]])
        print(f"{engine}: {len(names)} reports have the rows of DataFusion", flush=True)
    return {name: len(rows) for name, rows in ours.items()}


def guide(ferroxfs, query, folder, documents):
    """Runs the blocks of documents that `cargo test` leaves out, in one folder with a dataset."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "ferroxfs").symlink_to(ferroxfs)
    (programs / "ferroxfs-query").symlink_to(query)
    path = [str(programs), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    place = folder / "guide"
    place.mkdir()
    (place / "data").symlink_to(folder / "dataset")
    environment = {**os.environ, "PATH": ":".join(path)}
    for document in documents:
        text = document.read_text()
        blocks = re.findall(r"^```(sh query|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert len(blocks) > 1, f"{document}: {len(blocks)} blocks"
        for kind, block in blocks:
            command = [sys.executable, "-c"] if kind == "python" else ["bash", "-euxc"]
            run(*command, block, cwd=place, env=environment, stdout=subprocess.DEVNULL)
        print(f"{document.name}: {len(blocks)} blocks run", flush=True)


def compare_rows(what, theirs, ours):
    assert len(theirs) == len(ours), f"{what}: {len(theirs)} rows, not {len(ours)}"
    for number, (one, other) in enumerate(zip(theirs, ours)):
        assert one == other, f"{what}: row {number} is {one}, not {other}"


def main(ferroxfs, query, folder, seed="0"):
    ferroxfs, query = pathlib.Path(ferroxfs).absolute(), pathlib.Path(query).absolute()
    folder = pathlib.Path(folder).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"seed {seed}", flush=True)
    chance = random.Random(int(seed))
    dataset = folder / "dataset"
    volumes = Volumes(ferroxfs, folder, chance)
    volumes.make()
    kills = 0
    for day in DAYS:
        kills += scan_with_kills(ferroxfs, dataset, day, volumes.images, chance)
        volumes.change() if day != DAYS[-1] else None
    assert kills > 0, "no worker was killed, so that nothing was tried"
    check_complete(dataset, volumes.images, ferroxfs)
    print(f"{VOLUMES} volumes, {len(DAYS)} days, {kills} kills: each partition is complete", flush=True)
    print(compare(query, dataset, folder))
    documents = pathlib.Path(__file__).parents[4] / "docs/guide"
    guide(ferroxfs, query, folder, [documents / "queries.md", documents / "outgrown.md"])
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
