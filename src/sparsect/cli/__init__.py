"""The command line: parse, call, show progress, exit code. 0 is done, 2 is bad input, 130 is Ctrl-C."""

from __future__ import annotations

import sys
import warnings

import click

from .. import __version__
from ..checks import InputError
from .coding import code
from .experiment import experiment
from .images import denoise, inpaint, learn, reconstruct
from .recovery import recover, tune


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sparsect")
def cli() -> None:
    """Sparse recovery and sparse coding as a search for a point in the intersection of two sets."""


for command in (reconstruct, learn, code, denoise, inpaint, recover, tune, experiment):
    cli.add_command(command)


def main() -> None:
    """Entry point: every error of the user's is one line on standard error and exit code 2."""
    warnings.showwarning = lambda message, *_, **__: click.echo(f"sparsect: warning: {message}", err=True)
    try:
        status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except InputError as error:
        click.echo(f"sparsect: {error}", err=True)
        status = 2
    except (click.Abort, KeyboardInterrupt):
        resumable = "recover with --checkpoint, tune, learn, code and experiment go on when called the same way again"
        click.echo(f"sparsect: stopped ({resumable})", err=True)
        status = 130
    except MemoryError:
        click.echo("sparsect: this does not fit into memory; a smaller batch or problem would", err=True)
        status = 2
    except OSError as error:
        click.echo(f"sparsect: {error.filename or 'output'}: {error.strerror or error}", err=True)
        status = 1
    sys.exit(status or 0)
