"""The command line: commands parse their options, call the library and show progress.

Exit codes are 0 for success, 1 for an error of the operating system, 2 for bad input and 130 for Ctrl-C.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import click

from .. import __version__
from ..backend import interrupts
from ..backend.checks import InputError
from .app import app
from .coding import code
from .dictionaries import atoms, learn
from .experiment import experiment
from .images import reconstruct
from .recovery import recover, tune
from .restoration import denoise, inpaint

# Options that are not called like the argument of the library which they set.
OPTIONS = {"n_atoms": "--atoms", "rng": "--seed"}


class Commands(click.Group):
    """Commands whose errors begin with the option that sets an argument of the library: `--max-iter` for `max_iter`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is asked for.

        Parameters
        ----------
        ctx : click.Context
            The context of the group.

        Returns
        -------
        object
            What the command returns.
        """
        try:
            return super().invoke(ctx)
        except InputError as error:
            command = self.commands[str(ctx.invoked_subcommand)]
            known = {option for parameter in command.params for option in parameter.opts}

            def as_option(name: re.Match[str]) -> str:
                option = OPTIONS.get(name[1], "--" + name[1].replace("_", "-"))
                return f"`{option}`" if option in known else name[0]

            raise InputError(re.sub(r"^`(\w+)`", as_option, str(error))) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sparsect")
def cli() -> None:
    """Sparse recovery and sparse coding as a search for a point in the intersection of two sets."""


for command in (reconstruct, learn, atoms, code, denoise, inpaint, recover, tune, experiment, app):
    cli.add_command(command)


def main() -> None:
    """Run the command line; invalid input ends it with one line on standard error and exit code 2."""
    warnings.showwarning = lambda message, *_, **__: click.echo(f"sparsect: warning: {message}", err=True)
    try:
        interrupts.raise_from_now_on()
        status = cli.main(standalone_mode=False)
        interrupts.ignore_from_now_on()
    except BaseException as error:
        interrupts.ignore_from_now_on()
        status = _exit_code(error)
    sys.exit(status or 0)


def _exit_code(error: BaseException) -> int:
    """Print in one line why the command has ended and return the exit code; unexpected errors are raised again."""
    if interrupts.received or isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo(interrupts.STOPPED, err=True)
        return interrupts.EXIT_CODE
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, InputError):
        click.echo(f"sparsect: {error}", err=True)
        return 2
    if isinstance(error, MemoryError):
        click.echo("sparsect: out of memory; use a smaller batch or problem", err=True)
        return 2
    if isinstance(error, OSError):
        click.echo(f"sparsect: {error.filename or 'output'}: {error.strerror or error}", err=True)
        return 1
    raise error
