"""The command line: one file a verb.

A module of this folder that has a function ``command`` and a line ``EXAMPLE`` is a verb, named
after its file; one that has a Typer ``app`` instead is a verb with verbs of its own. A new verb is
a new file and nothing else; its docstring says what its options mean (`cli._help`). The modules
with neither are what verbs share: their options, their progress bar, what becomes of their results.
Heavy libraries are imported inside ``command``, so that ``--help`` is quick.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from identikit._plugins import modules
from identikit._text import plain
from identikit._version import __version__
from identikit.cli._help import described
from identikit.errors import InputError, MissingExtraError

__all__ = ["app", "main"]

WRONG_INPUT = 2
INTERRUPTED = 130

#: The environment variable that lets an unexpected error through as it is.
TRACEBACK = "IDENTIKIT_TRACEBACK"


class _Verbs(TyperGroup):
    """The verbs, and what becomes of the errors they raise: one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            # Now, while a closed pipe can still be met; at the interpreter's exit it cannot.
            sys.stdout.flush()
            return result
        except (InputError, MissingExtraError) as error:
            _stop(str(error), WRONG_INPUT)
        except KeyboardInterrupt:
            _stop("interrupted; no file was left half written", INTERRUPTED)
        except BrokenPipeError:
            _discard_standard_output()
            _stop("standard output was closed before all was written", WRONG_INPUT)
        except MemoryError:
            _stop("there is not enough memory for views of this size", WRONG_INPUT)
        except OSError as error:
            _stop(str(error), WRONG_INPUT)
        except Exception as error:
            # Typer's own ways to stop have an exit code, or are an abort.
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                if hasattr(error, "message"):
                    error.message = plain(error.message)
                raise
            if os.environ.get(TRACEBACK):
                raise
            # Whatever it is, it is not 1, which says that a limit was exceeded.
            _stop(
                f"this is a fault of identikit, please report it: {type(error).__name__}: {error} "
                f"(set {TRACEBACK}=1 to see where it comes from)",
                WRONG_INPUT,
            )


def _stop(sentence: str, code: int) -> None:
    typer.echo(f"identikit: {plain(sentence)}", err=True)
    raise typer.Exit(code)


def _discard_standard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter's last flush would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Plain help and plain errors: boxes break in logs and in narrow terminals.
app = typer.Typer(
    cls=_Verbs, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"identikit {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True, epilog="Example: identikit demo, then identikit audit A.npy B.npy"
)
def _identikit(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Did my two models learn the same thing, and up to what?"""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(WRONG_INPUT)


def _add_verbs() -> None:
    for module, verb in modules(__name__).items():
        name = module.removeprefix("_")
        if hasattr(verb, "command"):
            app.command(name, epilog=f"Example: {verb.EXAMPLE}")(described(verb.command))
        elif hasattr(verb, "app"):
            app.add_typer(verb.app, name=name)


_add_verbs()


def main() -> None:
    """Run the command line: the console script `identikit`."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        # Before any file is opened: it would take the place of standard output.
        typer.echo("identikit: standard output is closed, so there is no place to print", err=True)
        sys.exit(WRONG_INPUT)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no ≤ must not cost the user the result.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="identikit")
