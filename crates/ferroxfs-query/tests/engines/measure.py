"""Measures each report in each engine: `measure.py FERROXFS-QUERY DATASET FOLDER [REPORT...]`.

Each pair runs in a process of its own, with the same bounds on memory and threads. Prints a table
in Markdown: seconds of wall time, seconds of processors, and the peak of resident memory. On a
machine that does other work, compare the seconds of processors.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

ENGINES = ["datafusion", "duckdb", "clickhouse", "spark"]
# DataFusion is that of the program, unless WHEEL is set: then it is that of its Python package.
IS_WHEEL = bool(os.environ.get("WHEEL"))
MEMORY = int(os.environ.get("MEMORY_BYTES", 4 << 30))
THREADS = int(os.environ.get("THREADS", os.cpu_count() or 1))


def tree(root):
    """Returns the processes below one, with itself, as far as they still exist."""
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting.extend(parents.get(found[-1], []))
    return found


def usage(pid):
    """Returns the seconds of processors and the peak of memory in MiB of one process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")]
    return seconds, (peak or [0])[0]


def measured(command):
    """Runs a command. Returns its wall time, its time of processors, its memory and whether it
    succeeded. Spark has its engine in a second process, so all below it are counted."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        command = [str(it) for it in command]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        seen = {}
        while child.poll() is None:
            for pid in tree(child.pid):
                try:
                    seconds, peak = usage(pid)
                except (OSError, IndexError):
                    continue
                # A process that is ending has no memory any more.
                seen[pid] = (seconds, max(peak, seen.get(pid, (0, 0))[1]))
            time.sleep(0.05)
        wall = time.monotonic() - began
        if child.returncode:
            errors.seek(0)
            print(errors.read().decode(errors="replace")[-600:], file=sys.stderr)
    seconds, peaks = zip(*seen.values())
    return wall, sum(seconds), sum(peaks), child.returncode == 0


def main(query, dataset, folder, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = subprocess.run([query, "--list"], check=True, capture_output=True, text=True).stdout
    names = names or [line.split()[0] for line in text.splitlines() if line[0] != " "][:-1]
    engines = os.environ.get("ENGINES", " ".join(ENGINES)).split()
    (folder / "datafusion.setup.sql").write_text(str(pathlib.Path(dataset).absolute()))
    for engine in engines:
        if engine != "datafusion":
            setup = subprocess.run([query, dataset, "--setup", engine], check=True, capture_output=True)
            (folder / f"{engine}.setup.sql").write_bytes(setup.stdout)
    program = pathlib.Path(__file__).with_name("engine.py")
    print("| report | engine | wall s | processor s | MiB |\n|---|---|---|---|---|", flush=True)
    for name in names:
        sql = subprocess.run(
            [query, dataset, "--report", name, "--print-sql"], check=True, capture_output=True
        )
        (folder / f"{name}.sql").write_bytes(sql.stdout)
        for engine in engines:
            command = [sys.executable, program, engine, folder, name]
            if engine == "datafusion" and not IS_WHEEL:
                command = [query, dataset, "--report", name, "--format", "csv"]
                command += ["--memory", MEMORY, "--threads", THREADS, "--scratch", folder]
            wall, processor, memory, is_fine = measured(command)
            figures = f"{wall:.1f} | {processor:.1f} | {memory:.0f}" if is_fine else "failed | |"
            print(f"| `{name}` | {engine} | {figures} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
