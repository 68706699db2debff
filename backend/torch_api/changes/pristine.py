"""What Inductor's tables are after a fresh import: digests, of the builds of torch where that was seen.

Where a user imports Inductor before the first graph is keyed, nothing else tells whether its tables were changed since.
On another build they stand in the keys of such a process as they are; so nothing is confused, and a process that leaves
the import to torch.compile shares nothing with it. `python -m warmgraph.backend.torch_api.changes.pristine` prints them
for the torch at hand, for its file in `versions/`.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import versions

PRISTINE: dict[str, Mapping[str, str]] = {
    build: tables for version in versions.KNOWN.values() for build, tables in version.pristine.items()
}


def main() -> None:
    """Print the entry for this process's torch."""
    import json
    import sys

    import torch

    from . import tables

    tables.import_inductor()
    sys.stdout.write(json.dumps({torch.__version__: tables.tables_of_inductor()}, indent=4, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
