"""`up`, `ps`, `partition stop|start`: the processes of a bus on this machine."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bendybus.cli import endpoint
from bendybus.cli.bus import bus_choice, emulator_configs, imports, management, manifests
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.management import Management
from bendybus.cli.bus.manifests import Change, ManifestEntities, Outcome
from bendybus.cli.errors import SERVER_MODULES, UsageError, need_extra
from bendybus.cli.local import control, data_directory, supervisor
from bendybus.cli.local.programs import HOST as LOOPBACK
from bendybus.cli.local.programs import Programs
from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output, OutputOption
from bendybus.cli.output.tables import Column
from bendybus.crds.bundle import LOCAL_BUS, Bundle, NamespaceSettings
from bendybus.crds.imports.asked import Asked
from bendybus.domain import subscription_name
from bendybus.domain.limits import Tier
from bendybus.v1 import management_pb2 as pb

partition_app = typer.Typer(help="Stop and start a partition, to see what an outage does.")

Files = Annotated[
    list[Path],
    typer.Option("--file", "-f", help="Manifests: a YAML file, a folder of them, or - for stdin."),
]
UpFiles = Annotated[
    list[Path],
    typer.Option(
        "--file",
        "-f",
        help="Manifests: a YAML file, a folder of them, or - for stdin; none: an empty bus.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Instead of manifests: a file of another program, as bendybus convert reads it: "
        "Config.json of the official emulator, a template, a plan; - for stdin.",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        parser=bus_choice.data_folder,
        metavar="PATH",
        help="Folder of the data; kept between runs.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        metavar="IP",
        help="Address to listen at. At any but 127.0.0.1, such as 0.0.0.0 (all), other machines "
        "have access: any key is accepted.",
    ),
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many processes of each role; `partition_servers` None: one per core."""

    partition_servers: int | None = None
    front_ends: int = 1


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the first front end listens; the others at the ports after these. 0: any free port."""

    port: int = endpoint.PORT_DEFAULT
    # None: the usual one, or any.
    amqp_port: int | None = None
    # None: nowhere.
    http_port: int | None = None
    host: str = LOOPBACK
    # Only once the entities of the manifests are there.
    late: bool = False


# Says that a bus is ready: its facts, what it is of, and what became of the manifests.
SayReady = Callable[[dict[str, Any], Bundle, Sequence[Outcome]], None]


def up(
    context: typer.Context,
    files: UpFiles = [],  # noqa: B006
    queue: Annotated[
        list[str], typer.Option(help="Without manifests: a queue of the bus; repeatable.")
    ] = [],  # noqa: B006
    config: Config = None,
    settings: imports.Settings = None,
    parameters: imports.Parameters = None,
    only: imports.Only = "",
    premium: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Without a BusNamespace: a Premium bus of 1, 2, 4, 8 or 16 partitions; "
            "default with a Config.json: 1.",
        ),
    ] = None,
    data: DataFolder = None,
    host: Host = LOOPBACK,
    port: Annotated[int, typer.Option(help="Front-end port (0: any free port).")] = 7480,
    amqp_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port for official SDKs, AMQP and administration (0: any free one); default: "
            "5672, or any if taken.",
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Another port for official SDKs, and for health (0: any free one); default: none.",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Number of partition servers; default: one per core.")
    ] = None,
    front_ends: Annotated[
        int, typer.Option(help="Number of front ends, at --port and the following ports.")
    ] = 1,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a bus on this machine until Ctrl-C: that of the manifests, or a small one."""
    choice: Choice = context.obj
    bus_choice.refuse_cluster(choice, "up", "helm install, then kubectl apply -f FILE.")
    serve(
        _wanted(files, queue, config, premium, _asked(config, settings, parameters, only)),
        choice,
        data=data,
        listening=Listening(port, amqp_port, http_port, host),
        sizes=Sizes(processes, front_ends),
        say_ready=in_form(output, host),
    )


def _asked(
    config: Path | None, settings: list[str] | None, parameters: Path | None, only: str
) -> Asked:
    """Return the options for the file of another program. Raises UsageError without a file."""
    if config is None and (settings or parameters or only):
        option = "--set" if settings else "--parameters" if parameters else "--only"
        raise UsageError(f"{option} is for the file of --config. Leave it out.")
    return Asked(imports.values(settings or (), parameters), only)


def _wanted(
    files: Sequence[Path],
    queues: Sequence[str],
    config: Path | None,
    premium: int | None,
    asked: Asked,
) -> Bundle:
    """Return the bus that the options of `up` ask for."""
    if files and queues:
        raise UsageError("--queue: is for a bus without manifests; add a Queue to those instead.")
    if config is not None and (files or queues):
        other = "--file" if files else "--queue"
        raise UsageError(
            f"--config: cannot be combined with {other}. bendybus convert makes manifests of it, "
            "to which you can add others."
        )
    if premium is not None:
        emulator_configs.check_premium(premium)
    if config is not None:
        asked = replace(asked, premium=premium)
        conversion = imports.read(config, None, asked, instead="bendybus up -f")
        emulator_configs.say_report(conversion)
        imports.say_policies(conversion)
        return conversion.bundle
    implied = None
    if premium is not None:
        implied = NamespaceSettings(LOCAL_BUS, Tier.PREMIUM, premium)
    with manifests.readable(files) as paths:
        if not paths:
            return manifests.of_queues(queues, running=implied)
        bundle = manifests.load(paths, running=implied)
    if implied is not None and not bundle.implicit:
        raise UsageError(
            f"--premium: the manifest of BusNamespace {bundle.namespace.name!r} says how many "
            "partitions it has. Leave --premium out."
        )
    return bundle


def serve(
    bundle: Bundle,
    choice: Choice,
    *,
    data: Path | None,
    listening: Listening,
    sizes: Sizes,
    say_ready: SayReady,
    programs: Programs | None = None,
) -> None:
    """Run a bus in the foreground until SIGTERM or Ctrl-C; tests pass other programs."""
    need_extra("server", SERVER_MODULES, "bendybus up")
    namespace = bundle.namespace
    root = data_directory.root(choice.environment)
    directory = (data or choice.data or root / namespace.name).absolute()
    wanted = sizes.partition_servers
    count = min(_cores(), namespace.partition_count) if wanted is None else wanted
    if not 1 <= count <= namespace.partition_count:
        raise UsageError(f"--processes: {count} is outside 1 to {namespace.partition_count}.")
    with data_directory.held(directory):
        # Behind the folder's lock: the bus that runs on it is a better reason than its port.
        ports = {
            "--port": listening.port,
            "--amqp-port": listening.amqp_port,
            "--http-port": listening.http_port,
        }
        supervisor.check_listeners(ports, sizes.front_ends, listening.host)
        identity = data_directory.identify(directory, namespace)
        settings = supervisor.Settings(
            directory,
            count,
            port=listening.port,
            front_ends=sizes.front_ends,
            amqp_port=listening.amqp_port,
            http_port=listening.http_port,
            host=listening.host,
            publish_late=listening.late,
            host_names=_host_names(choice.environment),
            programs=programs or Programs(),
        )
        asyncio.run(_supervise(supervisor.Supervisor(settings, identity), bundle, say_ready))


def _host_names(environment: Mapping[str, str]) -> list[str]:
    """Return the names that clients use beside those of this machine; see `certificate`."""
    given = environment.get("BENDYBUS_HOST_NAMES", "").split(",")
    return [name.strip().lower() for name in given if name.strip()]


def _cores() -> int:
    """Return how many cores this process may use."""
    # macOS cannot say which ones are its own.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


async def _supervise(boss: supervisor.Supervisor, bundle: Bundle, say_ready: SayReady) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, boss.stop)

    async def when_ready(ready: supervisor.Supervisor) -> None:
        where = ready.facts()["connection_string"]
        outcomes, partitions = await asyncio.to_thread(_apply, where, bundle)
        await ready.publish()
        for sentence in management.say_unavailable(partitions, ready.logs()):
            printing.note(sentence)
        say_ready(ready.facts(), bundle, outcomes)

    await boss.run(when_ready)


def _apply(
    connection_string: str, bundle: Bundle
) -> tuple[list[Outcome], list[pb.NamespacePartition]]:
    """Return what became of the manifests, and how the partitions are then."""
    with Management(connection_string) as bus:
        entities = ManifestEntities(bus)
        outcomes = manifests.apply(entities, bundle, manifests.Patience(30))
        return outcomes, list(bus.namespace().partitions)


def say_kept(outcomes: Sequence[Outcome]) -> None:
    """Name, on stderr, what an earlier run had manifests for and this one has not."""
    for outcome in outcomes:
        if outcome.step.drops_rules:
            printing.note(
                f"{outcome.step.kind} {outcome.step.name!r} has no declared rules any more; it "
                "takes every message from now on."
            )
        if outcome.step.change is Change.KEPT:
            kind, name = outcome.step.kind, outcome.step.name
            parts = subscription_name.split(name) or (name,)
            printing.note(
                f"{kind} {name!r} is not declared any more; it is kept. Remove it with "
                f"bendybus delete {kind} {' '.join(parts)}"
            )


def in_form(output: Output, host: str) -> SayReady:
    """Return what says that a bus which listens at `host` is ready, on stdout."""

    def say_ready(facts: dict[str, Any], bundle: Bundle, outcomes: Sequence[Outcome]) -> None:
        say_kept(outcomes)
        _say_ready(facts, bundle, output, host)

    return say_ready


def _say_ready(facts: dict[str, Any], bundle: Bundle, output: Output, host: str) -> None:
    if output.structured:
        keys = (
            "connection_string", "amqp_connection_string", "endpoint", "endpoints",
            "amqp_endpoints", "http_endpoints", "ca_file", "data", "processes", "metrics",
        )  # fmt: skip
        printing.structured({key: facts[key] for key in keys}, output)
        return
    printing.note(f"Connection string: {facts['connection_string']}")
    printing.note(f"For official SDKs (AMQP): {facts['amqp_connection_string']}")
    printing.note(f"CA certificate for their administration clients: {facts['ca_file']}")
    for address in facts["endpoints"][1:]:
        printing.note(f"The same bus: {endpoint.local(address)}")
    for address in facts["http_endpoints"]:
        printing.note(f"Health: http://{address}/health")
    printing.note(f"Metrics: {_metrics_told(facts['metrics'])}")
    printing.line(f"{ready_sentence(facts, bundle, host)} Ctrl-C ends it.")


def ready_sentence(facts: dict[str, Any], bundle: Bundle, host: str) -> str:
    """Return what is ready, where, and who has access."""
    namespace = bundle.namespace
    implicit = ", implied: no BusNamespace was given" if bundle.implicit else ""
    count = namespace.partition_count
    partitions = f"{count} partition" + ("" if count == 1 else "s")
    access = "This machine only, any key is accepted."
    if host != LOOPBACK:
        access = (
            f"It listens at {host}: every client that can reach it has access; any key is accepted."
        )
    return (
        f"Ready: bus {namespace.name!r} ({namespace.tier}{implicit}) with {partitions} at "
        f"{facts['endpoint']}, data in {facts['data']}. {access}"
    )


def _metrics_told(metrics: dict[str, str]) -> str:
    """Return where metrics are; of many processes, those of the first."""
    told = [f"{url} ({name})" for name, url in metrics.items()]
    more = f", and {len(told) - 3} more: bendybus ps -o wide" if len(told) > 3 else ""
    return ", ".join(told[:3]) + more


def ps(
    context: typer.Context,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the processes of the bus on this machine, live."""
    bus_choice.refuse_cluster(context.obj, "ps", "kubectl get pods -l bendybus.io/bus=NAME")
    run = bus_choice.local_bus(context.obj)
    processes = control.ask(run["control"], {"action": "ps"})["processes"]
    if output.structured:
        for process in processes:
            printing.structured(process, output)
        return
    wide = output is Output.WIDE
    columns: list[str | Column] = [
        Column("NAME", text=True),
        "PID",
        Column("PARTITIONS", wrap=10),
        "STATE",
    ]
    columns += ["RESTARTS", "UPTIME", "RSS", "CPU"]
    columns += ["ADDRESS", "METRICS"] if wide else []
    printing.table(columns, [_process_row(process, wide) for process in processes])


def _process_row(process: dict[str, Any], wide: bool) -> list[object]:
    # Where the system does not tell, as on macOS, there is nothing to show.
    known = bool(process["rss_bytes"])
    row = [
        process["name"],
        process["pid"] or None,
        _ranges(process["partitions"]) or None,
        process["state"],
        process["restarts"],
        _duration(process["uptime_s"]),
        printing.size(process["rss_bytes"]) if known else None,
        f"{process['cpu_percent']:.1f} %" if known else None,
    ]
    return row + ([process["address"], process.get("metrics") or None] if wide else [])


def _ranges(partitions: Sequence[int]) -> str:
    """Return indexes as `0-3,8`."""
    told: list[str] = []
    for partition in sorted(partitions):
        if told and int(told[-1].rpartition("-")[2]) == partition - 1:
            told[-1] = f"{told[-1].partition('-')[0]}-{partition}"
        else:
            told.append(str(partition))
    return ",".join(told)


def _duration(seconds: float) -> str:
    """Return how long, in the two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


@partition_app.command("stop")
def partition_stop(
    context: typer.Context,
    partition: Annotated[int, typer.Argument(help="Index of the partition, from 0.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Kill the process that hosts a partition (SIGKILL) and hold it down."""
    answer = _ask_about(context, "stop", partition)
    if output.structured:
        printing.structured(answer, output)
        return
    # 0: it was down before.
    killed = f" (pid {answer['pid']} killed)" if answer["pid"] else ""
    printing.line(
        f"Partition {partition} is down{killed}{_others(answer, partition)}. "
        f"bendybus partition start {partition} brings it back."
    )


@partition_app.command("start")
def partition_start(
    context: typer.Context,
    partition: Annotated[int, typer.Argument(help="Index of the partition, from 0.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Start the process of a partition again and wait until it serves."""
    answer = _ask_about(context, "start", partition)
    if output.structured:
        printing.structured(answer, output)
        return
    others = _others(answer, partition)
    printing.line(f"Partition {partition} serves again (pid {answer['pid']}){others}.")


def _ask_about(context: typer.Context, action: str, partition: int) -> dict[str, Any]:
    instead = f"kubectl delete pod NAME-partition-{partition}; it is recreated automatically."
    bus_choice.refuse_cluster(context.obj, f"partition {action}", instead)
    run = bus_choice.local_bus(context.obj)
    return control.ask(run["control"], {"action": action, "partition": partition})


def _others(answer: dict[str, Any], partition: int) -> str:
    others = [str(other) for other in answer["partitions"] if other != partition]
    return f", and with it {', '.join(others)} of the same process" if others else ""
