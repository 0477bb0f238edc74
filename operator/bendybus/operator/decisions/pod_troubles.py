"""What keeps the pods of a bus from running, as one sentence each. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

TEXT_CHARS_MAX: Final = 300
# What every container waits for when it starts.
_USUAL: Final = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """Why a pod does not run. `stuck`: its container does not start, or does not stay."""

    text: str
    stuck: bool


def of_pods(pods: Iterable[Mapping[str, Any]]) -> list[PodTrouble]:
    """Return the troubles of pods, the stuck ones first."""
    found = [trouble for trouble in map(_trouble, pods) if trouble is not None]
    return sorted(found, key=lambda trouble: (not trouble.stuck, trouble.text))


def _trouble(pod: Mapping[str, Any]) -> PodTrouble | None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        if container.get("ready"):
            continue
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if reason not in _USUAL:
            why = _last_error(ended) if ended else _text(waiting.get("message"))
            return PodTrouble(f"pod {name}: {_text(reason)}" + (f", {why}" if why else ""), True)
        if ended:
            return PodTrouble(f"pod {name}: restarted, {_last_error(ended)}", False)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            what = f"{_text(condition.get('reason'))}: {_text(condition.get('message'))}"
            return PodTrouble(f"pod {name}: {what}", False)
    return None


def _last_error(ended: Mapping[str, Any]) -> str:
    what = _text(ended.get("reason")) or "Error"
    message = _text(ended.get("message"))
    return f"last error: {message}" if message else f"{what} with {ended.get('exitCode')}"


def _text(text: Any) -> str:
    """Return a text of a pod as a status may carry it."""
    line = " ".join(str(text or "").split())
    shown = "".join(each if each.isprintable() else "?" for each in line[:TEXT_CHARS_MAX])
    return shown if len(line) <= TEXT_CHARS_MAX else f"{shown}…"
