"""The index of the jobs: what `bendybus pipeline --help` lists."""

import typer

from bendybus.spark.commands import fence_commands, file_commands, letter_commands, stream_commands

app = typer.Typer(
    name="pipeline",
    help=(
        "Data pipelines on Spark: capture, export, replay, load, dead letters, sessions, usage, "
        "fences."
    ),
    epilog=(
        "Which bus: --connection-string-file, then BENDYBUS_CONNECTION_STRING; `bendybus pipeline` "
        "sets it for the bus that it is asked for. Exit codes: 0 done, 1 failed, 2 wrong usage."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("capture")(stream_commands.capture)
app.command("export")(file_commands.export)
app.command("replay")(file_commands.replay)
app.command("load")(file_commands.load)
app.command("sessions")(stream_commands.sessions)
app.command("usage")(letter_commands.usage)
app.add_typer(letter_commands.letter_app, name="dlq")
app.add_typer(fence_commands.fence_app, name="fences")
