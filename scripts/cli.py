"""The commands put together, and exit statuses. What commands do is in the files beside this one."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click
from warmgraph.cache import ConfigError, StoreUnavailable

from .output import talk

# In the order in which they are met in use. Where each is: only the one that is run is imported (and all for --help).
COMMANDS = {
    "demo": "demo.command:demo",
    "run": "run.command:run",
    "warm": "run.warm:warm",
    "stats": "store.command:stats",
    "audit": "audit.command:audit",
    "top": "audit.top:top",
    "serve": "page.command:serve",
    "ls": "store.entries:ls",
    "show": "store.entries:show",
    "verify": "store.command:verify",
    "prune": "store.command:prune",
    "export": "transfer.command:export_command",
    "import": "transfer.command:import_command",
    "push": "transfer.command:push",
    "pull": "transfer.command:pull",
    "ping": "transfer.remote:ping",
    "keygen": "trust.keys:keygen",
    "revoke": "trust.revoking:revoke",
    "revocations": "trust.revoking:revocations",
    "install-scripts": "transfer.remote:install_scripts",
    "config": "store.command:config",
    "doctor": "doctor.command:doctor",
    "journal": "journal:journal",
    "explain": "explain.command:explain",
    "diff": "explain.command:diff",
    "lint": "explain.lint:lint",
}


class _Lazily(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f".{module}", __package__), name)
        return command


@click.group(
    cls=_Lazily,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Example:
  warmgraph demo
  warmgraph stats --json

\b
Exit status:
  0    done
  1    something is wrong with the store, or it cannot be used
  2    the command line or a setting is wrong
  130  stopped with Ctrl-C
  141  whoever read the output went away (as with any command before `| head`)""",
)
@click.version_option(package_name="warmgraph", message="%(prog)s %(version)s")
def cli() -> None:
    """A shared, persistent compilation cache for torch.compile.

    Use it with torch.compile(model, backend="warmgraph"); these commands look at what it keeps.

    Which store: WARMGRAPH_DIR, WARMGRAPH_URL and WARMGRAPH_NAMESPACE (see `warmgraph config`).
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status, and never raises SystemExit. Data goes to stdout, talk to stderr."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this (`>&-`); not inherited by what `run` starts
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 (for as long as this process lives)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a Latin-1 terminal must not end in a traceback
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _refuse(error.format_message(), error.exit_code)
    except ConfigError as error:
        return _refuse(str(error), 2)
    except StoreUnavailable as error:
        return _refuse(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        talk("stopped")
        return 130
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:  # the store's own errors were translated; what is left is a full disk under stdout
        _discard_output()
        return _refuse(str(error), 1)


def _run(arguments: list[str]) -> int:
    # Not cli.main(): it ends the process itself when the reader of a pipe is gone.
    try:
        with cli.make_context("warmgraph", arguments) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:  # --help, --version
        return done.exit_code
    return status if isinstance(status, int) else 0


def _refuse(message: str, status: int) -> int:
    for line in f"Error: {message}".splitlines():
        talk(line)
    return status


def _discard_output() -> None:
    """What is still buffered goes nowhere, or the interpreter would complain of it on its way out."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
