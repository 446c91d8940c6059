"""The `kb` command: assembles the groups and turns errors into messages and exit codes."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import (
    acting,
    ask,
    backup,
    care,
    daemon,
    decisions,
    evaluate,
    explain,
    forget,
    govern,
    ingest,
    init,
    jobs,
    keys,
    lineage,
    mcp,
    memory,
    migrate,
    policies,
    render,
    review,
    rollback,
    search,
    serve,
    session,
    store,
    trace,
)

if TYPE_CHECKING:
    from kb.model import Json

app = typer.Typer(
    name="kb",
    help="Trustworthy memory for RAG and agents: documents in, governed answers out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init.init)
app.command("ingest")(ingest.ingest)
app.command("search")(search.search)
app.command("ask")(ask.ask)
app.command("trace")(trace.trace)
app.command("feedback")(trace.feedback)
app.command("mcp")(mcp.mcp)
app.command("rollback")(rollback.rollback)
app.command("status")(care.status)
app.command("doctor")(care.doctor)
app.command("reindex")(care.reindex)
app.command("reconcile")(care.reconcile)
app.command("serve")(serve.serve)
app.command("export")(backup.export)
app.command("import")(backup.import_)
store.app.command("migrate")(migrate.migrate)
memory.app.command("trace")(lineage.trace_memory)
decisions.register(memory.app)
forget.register(memory.app)
govern.app.command("run")(jobs.run)
govern.app.command("explain")(explain.explain)
govern.app.command("review")(review.review)
govern.app.command("forecast")(policies.forecast)
govern.app.add_typer(policies.app, name="policy")
app.add_typer(memory.app, name="memory")
app.add_typer(govern.app, name="govern")
app.add_typer(evaluate.app, name="eval")
app.add_typer(store.app, name="store")
app.add_typer(daemon.app, name="daemon")
app.add_typer(keys.app, name="key")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        render.say(version("kbwarden"))
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", help="Folder of everything local; default: KB_DATA_DIR.")
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", help="debug, info, warning or error; to stderr.")
    ] = "warning",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command."""
    del version
    session.set_command(context.invoked_subcommand)
    acting.is_agent()  # raises where nobody can tell whose shell it is, before any command does anything
    if data_dir is not None:
        session.set_data_dir(data_dir)
    from kb import log

    if log_level not in log.LEVELS:
        raise typer.BadParameter(f"{log_level!r} is none of {', '.join(log.LEVELS)}", param_hint="--log-level")
    log.configure(log_level)


def main() -> None:
    """Run the command line and exit with a documented code."""
    from kb import telemetry
    from kb.errors import ExitCode, KbError

    as_json = "--json" in sys.argv[1:]
    render.open_closed()
    try:
        code = _run()
    except KbError as error:
        render.fail(error, as_json=as_json)
        code = int(error.exit_code)
    except typer.Exit as stop:
        code = stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = int(ExitCode.INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # so the command-line library ends when the reader of its help has gone
        render.silence("stdout", "stderr")
        code = int(ExitCode.DONE)
    except Exception as error:  # noqa: BLE001 - the one place where the unforeseen ends, with its trace on request
        code = _unforeseen(error, as_json=as_json)
    finally:
        telemetry.shutdown()
    if code == ExitCode.INTERRUPTED:  # the command-line library turns Ctrl-C into this code by itself
        render.tell("interrupted; what was stored stays, the next run goes on from there")
    gc.freeze()  # what is left ends with the process: to look through it for circles would take seconds
    sys.exit(code if isinstance(code, int) else 0)


def _run() -> object:
    """Run the command; its span ends with it, and fails when it does."""
    try:
        code = app(standalone_mode=False)
    except BaseException:
        session.end(*sys.exc_info())
        raise
    session.end()
    return code


def _unforeseen(error: Exception, *, as_json: bool) -> int:
    from kb.errors import ExitCode, KbError

    if (usage := getattr(error, "exit_code", None)) == ExitCode.USAGE and hasattr(error, "show"):
        error.show()  # a usage error of the command-line library
        if as_json:
            hint = "`kb COMMAND --help` shows what it takes"
            said: Json = {"type": "UsageError", "message": _message(error), "hint": hint, "exit_code": int(usage)}
            render.emit_json({"error": said})
        return int(usage)
    from kb.log import get_logger
    from kb.telemetry.redaction import redacted

    get_logger().debug("command_failed", exc_info=error)
    hint = "this is a defect; `kb --log-level debug …` shows where"
    render.fail(KbError(redacted(f"{type(error).__name__}: {error}"), hint=hint), as_json=as_json)
    return int(ExitCode.UNEXPECTED)


def _message(error: Exception) -> str:
    formatted = getattr(error, "format_message", None)  # the whole sentence; only usage errors have it
    return str(formatted() if formatted is not None else error)
