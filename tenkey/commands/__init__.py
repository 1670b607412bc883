"""The command line: ``python -m tenkey warm`` and ``python -m tenkey doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import doctor, warm

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status: 0 if all is well."""
    parser = argparse.ArgumentParser(prog="python -m tenkey", description="Commands of tenkey.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for module in (doctor, warm):
        name = module.__name__.rpartition(".")[2]
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        module.add_options(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    return int(options.run(options))
