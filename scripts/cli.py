"""Commands, their options and exit statuses. What they print comes from the files beside this one.

Exit status: 0 done; 1 the command ran and found something wrong; 2 the command line or a setting is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from warmgraph.cache import ConfigError, StoreUnavailable

from . import journal, store
from .demo import demo


def _version() -> str:
    from importlib.metadata import version

    return version("warmgraph")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: warmgraph demo, then warmgraph stats",
)
@click.version_option(package_name="warmgraph", message="%(prog)s %(version)s")
def cli() -> None:
    """A shared, persistent compilation cache for torch.compile.

    Use it with torch.compile(model, backend="warmgraph"); these commands look at what it keeps. Which store:
    WARMGRAPH_DIR, WARMGRAPH_NAMESPACE (see `warmgraph config`).
    """


for command in (
    demo,
    store.stats,
    store.ls,
    store.show,
    store.verify,
    store.prune,
    store.config,
    journal.journal,
):
    cli.add_command(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. Data goes to stdout, talk to stderr."""
    try:
        result = cli.main(args=None if argv is None else list(argv), prog_name="warmgraph", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except ConfigError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except StoreUnavailable as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # `warmgraph journal | head`: the reader has seen enough
        return 0
    return result if isinstance(result, int) else 0
