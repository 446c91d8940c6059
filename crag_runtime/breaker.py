"""A circuit breaker: stops asking a service that keeps failing, and lets one call probe whether it is back.

    closed ──N failures in a row──▶ open ──cooldown──▶ half-open ──success──▶ closed
                                      ▲                    │ one probe at a time
                                      └──────failure───────┘

The state machine is pure; `Breaker` holds one state for all threads and tasks. Time is an argument.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.model import Instant


class CircuitState(StrEnum):
    """What a circuit lets pass."""

    CLOSED = "closed"  # every call
    OPEN = "open"  # none
    HALF_OPEN = "half_open"  # one, as a probe


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a circuit opens, and for how long.

    Args:
        failures: in a row that open it; at least 1.
        cooldown: milliseconds without a call once it is open, and the longest wait for a probe's outcome.
    """

    failures: int = 3
    cooldown: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What happened so far: failures in a row, when it opened, and when the probe that is under way began."""

    failures: int = 0
    opened: Instant | None = None
    probe: Instant | None = None


def state_of(circuit: Circuit, policy: BreakerPolicy, now: Instant) -> CircuitState:
    """Return the state at `now`."""
    if circuit.opened is None:
        return CircuitState.CLOSED
    return CircuitState.OPEN if now < circuit.opened + policy.cooldown else CircuitState.HALF_OPEN


def admitted(circuit: Circuit, policy: BreakerPolicy, now: Instant) -> Circuit | None:
    """Return the circuit after a call begins at `now`; None when the call must not be made.

    A probe that never reports (its task was lost) is given up after another cooldown.
    """
    match state_of(circuit, policy, now):
        case CircuitState.CLOSED:
            return circuit
        case CircuitState.OPEN:
            return None
        case CircuitState.HALF_OPEN:
            is_probed = circuit.probe is not None and now < circuit.probe + policy.cooldown
            return None if is_probed else replace(circuit, probe=now)


def succeeded(circuit: Circuit) -> Circuit:
    """Return the circuit after a call succeeded. While it is open, a straggler's success proves nothing."""
    return circuit if circuit.opened is not None and circuit.probe is None else Circuit()


def failed(circuit: Circuit, policy: BreakerPolicy, now: Instant) -> Circuit:
    """Return the circuit after a call failed. A failed probe opens it anew; a straggler's failure changes nothing."""
    if circuit.opened is not None:
        return circuit if circuit.probe is None else Circuit(failures=circuit.failures + 1, opened=now)
    failures = circuit.failures + 1
    return Circuit(failures=failures, opened=now if failures >= policy.failures else None)


def abandoned(circuit: Circuit) -> Circuit:
    """Return the circuit after a call ended without an outcome, as a cancelled one does: the next may probe."""
    return replace(circuit, probe=None)


class Breaker:
    """One circuit, shared by threads and tasks. Every `True` of `allows` is followed by one of the other three."""

    def __init__(self, policy: BreakerPolicy | None = None) -> None:
        self._policy = policy or BreakerPolicy()
        self._circuit = Circuit()
        self._lock = threading.Lock()

    def state(self, now: Instant) -> CircuitState:
        """Return the state at `now`."""
        return state_of(self._circuit, self._policy, now)

    def allows(self, now: Instant) -> bool:
        """Return whether a call may be made now; in the half-open state only one may."""
        with self._lock:
            after = admitted(self._circuit, self._policy, now)
            if after is not None:
                self._circuit = after
        return after is not None

    def succeeded(self) -> None:
        """Report a success."""
        with self._lock:
            self._circuit = succeeded(self._circuit)

    def failed(self, now: Instant) -> None:
        """Report a failure."""
        with self._lock:
            self._circuit = failed(self._circuit, self._policy, now)

    def abandoned(self) -> None:
        """Report that a call ended without an outcome."""
        with self._lock:
            self._circuit = abandoned(self._circuit)
