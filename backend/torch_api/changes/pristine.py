"""What Inductor's tables are after a fresh import: digests, of the releases of torch where that was seen.

Where a user imports Inductor before the first graph is keyed, nothing else tells whether its tables were changed since.
2.13.0+cpu and 2.13.0+cu130 have the same, on Python 3.10 to 3.13. Where a build or release has others, they stand in
the keys of such a process as they are; so nothing is confused, and a process that leaves the import to torch.compile
shares nothing with it. `python -m warmgraph.backend.torch_api.changes.pristine` prints them
for the torch at hand, for its file in `versions/`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import versions

PRISTINE: dict[str, Mapping[str, str]] = {
    name: tables for version in versions.KNOWN.values() for name, tables in version.pristine.items()
}


def release() -> str:
    """This torch's, without its build: what is registered in tables is the same for CPUs and GPUs."""
    return str(torch.__version__).partition("+")[0]


def main() -> None:
    """Print the entry for this process's torch."""
    import json
    import sys

    from . import tables

    tables.import_inductor()
    sys.stdout.write(json.dumps({release(): tables.tables_of_inductor()}, indent=4, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
