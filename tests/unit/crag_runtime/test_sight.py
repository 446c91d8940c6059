"""An id is no key: whoever names one sees what is behind it only if the question may."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crag_runtime.store import Lookup, Store
from kb.model import Scope
from tests.agents import remember

if TYPE_CHECKING:
    from kb.memories import Memories

OWN = Lookup(tenant="one", k=5, gate=0.7)


def test_the_id_of_another_tenants_memory_shows_nothing(store: Memories) -> None:
    mine, theirs = remember(store, "Mine.", tenant="one"), remember(store, "Theirs.", tenant="two")
    sight = Store(store)
    ids = {mine: 0.5, theirs: 0.5}
    assert set(sight.usable(ids, {}, OWN)) == {mine}
    assert set(sight.evidence(ids, {}, tenant="one", now=store.clock.now())) == {mine}
    assert sight.screened(ids, OWN).stored == {mine}


def test_nor_does_one_of_another_user_source_instant_or_trust(store: Memories) -> None:
    scoped = remember(store, "For Ann.", tenant="one", scope=Scope(user="ann"))
    doubtful = remember(store, "Perhaps.", tenant="one", confidence=0.7)
    plain = remember(store, "Plain.", tenant="one")
    sight, ids = Store(store), {scoped: 0.5, doubtful: 0.5, plain: 0.5}
    assert set(sight.usable(ids, {}, OWN)) == {plain}
    assert set(sight.usable(ids, {}, replace(OWN, scope=Scope(user="ann")))) == {plain, scoped}
    assert sight.usable(ids, {}, replace(OWN, scope=Scope(user="bob"), sources=("file://elsewhere",))) == {}
    assert sight.usable(ids, {}, replace(OWN, at=store.clock.now() - 1)) == {}
