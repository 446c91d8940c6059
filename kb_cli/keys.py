"""`kb key`: who may call `kb serve`: make a key, list them, make one void."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents
from kb_cli.session import AsJson, Tenant, clock, ledger_of, log_by_default, settings_of

if TYPE_CHECKING:
    from kb.keys import ApiKey
    from kb.model import Instant, Json

app = typer.Typer(help="API keys of `kb serve`: make one, list them, make one void.", no_args_is_help=True)


class ScopeOption(StrEnum):
    """What a key may do."""

    QUERY = "query"
    WRITE = "write"
    GOVERN = "govern"


Scopes = Annotated[
    list[ScopeOption] | None,
    typer.Option("--scope", help="query, write or govern; repeatable; default: query."),
]
Expires = Annotated[str, typer.Option("--expires", help="When it becomes void: 90d, 12h, or a date; default: never.")]
KEYS = ("make or revoke keys", "a person decides who may do what")
DAYS = re.compile(r"\d+[dhm]")


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Whom it is for; stands in the journal as the actor.")],
    scope: Scopes = None,
    agent: Annotated[bool, typer.Option("--agent", help="An agent holds it: it never vouches for anything.")] = False,
    expires: Expires = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it: this once, for only its hash is kept."""
    from kb.keys import Holder, KeyScope, minted
    from kb.log import get_logger
    from kb_cli.values import readable

    readable(name, expires)
    refuse_agents(*KEYS)
    log_by_default(context)
    settings = settings_of(tenant=tenant)
    now = clock().now()
    key, text = minted(
        name,
        settings.tenant,
        [KeyScope(s.value) for s in scope or [ScopeOption.QUERY]],
        Holder.AGENT if agent else Holder.PERSON,
        now,
        expires_at=_end(expires, now),
    )
    with ledger_of(settings) as ledger, ledger.write() as tx:
        tx.keys.add(key)
    get_logger().info("key_created", **_audit(key))
    if as_json:
        render.emit_json({"key": text, **as_object(key, now)})
    else:
        render.say(text)
        render.tell(f"{key.id}: {', '.join(sorted(key.scopes))} for {key.name}; the key is not shown again")


@app.command("list")
def list_(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List the tenant's keys, without their secrets."""
    settings = settings_of(tenant=tenant)
    now = clock().now()
    with ledger_of(settings) as ledger, ledger.read() as tx:
        keys = [as_object(key, now) for key in tx.keys.list(settings.tenant)]
    if as_json:
        render.emit_json({"keys": list(keys)})
        return
    head = ("id", "name", "holder", "scopes", "state", "last used", "expires")
    rows = [
        (
            k["id"],
            k["name"],
            k["holder"],
            ",".join(map(str, _listed(k["scopes"]))),
            k["state"],
            k["used_at"] or "never",
            k["expires_at"] or "never",
        )
        for k in keys
    ]
    render.say(*render.table(head, rows) if rows else ["there is no key; `kb key create NAME` makes one"])


@app.command("revoke")
def revoke(
    context: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="The key's id: the first part of the key, after kb_.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a key void, at once and for good."""
    from kb.errors import InputError
    from kb.log import get_logger
    from kb_cli.values import readable

    readable(id_)
    refuse_agents(*KEYS)
    log_by_default(context)
    settings = settings_of(tenant=tenant)
    now = clock().now()
    with ledger_of(settings) as ledger, ledger.write() as tx:
        was_valid = tx.keys.revoke(id_, settings.tenant, now)
        key = tx.keys.get(id_)
    if key is None or key.tenant != settings.tenant:
        raise InputError(f"the tenant has no key {id_!r}", hint="`kb key list` shows ids")
    if was_valid:
        get_logger().info("key_revoked", **_audit(key))
    if as_json:
        render.emit_json({**as_object(key, now), "was_valid": was_valid})
    else:
        render.say(f"{key.id}  {key.name}: {'void from now on' if was_valid else 'was void before'}")


def as_object(key: ApiKey, now: Instant) -> dict[str, Json]:
    """Return a key under the stable keys of docs/reference/json.md; never its secret, nor what is kept of that."""
    from kb.clock import iso

    is_expired = key.expires_at is not None and key.expires_at <= now
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": [s.value for s in sorted(key.scopes)],
        "holder": key.holder.value,
        "state": "revoked" if key.revoked_at is not None else "expired" if is_expired else "valid",
        "created_at": iso(key.created_at),
        "expires_at": iso(key.expires_at),
        "revoked_at": iso(key.revoked_at),
        "used_at": iso(key.used_at),
    }


def _end(text: str, now: Instant) -> Instant | None:
    from kb.clock import instant

    if not text.strip():
        return None
    return instant(f"+{text.strip()}" if DAYS.fullmatch(text.strip()) else text, now)


def _listed(scopes: Json) -> list[Json]:
    return scopes if isinstance(scopes, list) else []


def _audit(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "holder": key.holder.value,
        "scopes": sorted(key.scopes),
    }
