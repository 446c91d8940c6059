"""One process that sweeps, to be killed from outside: `python -m tests.crash.sweeper DATA_DIR URL TENANT NOW`.

Real ledger, real Milvus Lite. It begins, always at the same instant, or goes on NOW with what was interrupted. Prints
a line when it is ready, one after each batch, and `done`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from governance.sweep import apply, resume
from kb import log
from kb.index.milvus import open_server
from kb.settings import Settings
from tests.crash.killing import say
from tests.stores import T0, FakeClock, open_store
from tests.swept import a_plan, policy

BATCH = 8


def main(data_dir: str, url: str, tenant: str, now: str) -> None:
    """Apply the tenant's plan, or what is left of it."""
    log.configure("error")
    server = open_server(Settings(data_dir=Path(data_dir), index_idle_seconds=30))
    clock, rules = FakeClock(T0), policy(tenant, batch=BATCH)
    with open_store(Path(data_dir), server=server, clock=clock, ledger_url=url or None) as memories:
        with memories.ledger.read() as tx:
            has_begun = bool(tx.sweeps.list(1, tenant=tenant))
            of = tx.memories.page("", 1_000, tenant=tenant)
        say("ready")
        if has_begun:
            clock.instant = int(now)
            resume(memories, tenant, rules, advance=lambda _: say("batch"))
        else:
            plan = a_plan(of, seed=len(of))
            apply(memories, plan, policy=rules, actor="sweeper", advance=lambda _: say("batch"))
    server.close()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
