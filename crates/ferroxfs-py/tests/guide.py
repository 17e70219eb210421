"""Runs the Python blocks of a document in one process, in a fresh folder: `guide.py DOCUMENT`."""

import os
import re
import sys
import tempfile


def main() -> None:
    path = os.path.abspath(sys.argv[1])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    names = {"__name__": "guide"}
    os.chdir(tempfile.mkdtemp())
    count = 0
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        # The line numbers of an error are those of the document.
        code = compile("\n" * line + block.group(1), path, "exec")
        exec(code, names)
        count += 1
    assert count > 3, f"only {count} blocks in {path}"
    print(f"{count} blocks")


main()
