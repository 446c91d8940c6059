"""Months of governance through the command line, told by a clock that the stories turn; nothing else is made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.trust import DAY_MS
from tests.clockwork import Story, everything, rows
from tests.shell import Shell
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OLD, NEW = "allows 60 requests a minute", "allows 250 requests a minute"
LIMIT = "How many requests a minute does the Relay API allow?"
TOLL = "the toll of the Dalen ferry is ninety coins"
TOLL_QUESTION = "What is the toll of the Dalen ferry?"
LOOKS = (3, 10, 11, 59, 119)
FADED = ("faded", "retire")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    with Shell(tmp_path_factory.mktemp("months"), model_cache, is_warm=True) as shell:
        yield shell


def page(says: str) -> str:
    """Return a page of the API that says one thing of its limits."""
    return f"# Relay API\n\n## Limits\n\nThe Relay API {says}. Whoever asks for more gets status 429.\n"


def test_a_document_that_is_synced_nightly_never_leaves_the_gate(kb: Shell) -> None:
    synced, left_alone = Story(kb, "nightly"), Story(kb, "alone")
    for story in (synced, left_alone):
        story.ingested(api_md=page(NEW))
    written = 0
    for day in (*range(1, 15), *range(17, 120, 3)):  # seldom is harder than nightly
        synced.day(day)
        (passage,) = synced.json("memory", "list")["memories"]
        assert passage["effective_confidence"] > 0.7, f"before the sync of day {day}"
        assert passage["standing"] == "active"
        if day in LOOKS:
            assert synced.found(NEW) == [passage["id"]]
        done = synced.job("sync")
        assert done["counts"]["documents_unchanged"] == 1
        written += done["counts"].get("memories_renewed", 0)
    for day in LOOKS:
        left_alone.day(day)
        assert bool(left_alone.found(NEW)) is (day <= 10)
    assert written <= 25, "a sync that finds nothing new rewrites nothing until half of its time has gone"


def test_an_unverified_note_halves_at_thirty_days_is_pruned_when_due_restored_and_at_last_erased(kb: Shell) -> None:
    story = Story(kb, "fading")
    note = story.note("The ferry to Dalen leaves from pier nine.")
    made = kb.at or 0
    for at, confidence in ((0, 0.8), (15, 0.565685), (30, 0.4), (60, 0.2)):
        story.at(made + at * DAY_MS - 1)
        assert story.explained(note)["effective_confidence"] == confidence
    story.at(made + 30 * DAY_MS)
    assert story.explained(note)["effective_confidence"] < 0.4000001
    (due,) = [c["at"] for c in story.explained(note)["next"] if c["what"] == "prune"]
    assert due.startswith("2027-03-16")  # sixty days: twice halved

    for week in range(1, 9):
        story.day(7 * week)
        assert story.job("prune")["actions"] == []
    story.at(made + 60 * DAY_MS - 1000)
    assert story.job("prune")["actions"] == []
    story.day(63)
    (action,) = story.job("prune")["actions"]
    assert (action["memory_id"], action["reason"], action["action"]) == (note, *FADED)
    assert not story.found("pier nine", "", "--gate", "0")
    assert story.memory(note)["standing"] == "retired"
    assert [c["what"] for c in story.explained(note)["next"]] == ["erase"]

    story.day(80)
    restored = story.json("memory", "restore", note, "--by", "ada")
    assert (restored["memories"][0]["standing"], restored["refused"]) == ("active", [])
    assert "prune retires it again" in restored["notes"][0]
    assert story.found("pier nine", "", "--gate", "0") == [note]
    story.day(84)
    assert [a["memory_id"] for a in story.job("prune")["actions"]] == [note]

    story.day(113)
    assert story.job("gc")["actions"] == []
    story.day(115)
    assert [a["action"] for a in story.job("gc")["actions"]] == ["erase"]
    assert story.json("memory", "get", note, code=2)["error"]["type"] == "UnknownMemory"


def test_a_verified_note_falls_due_at_180_days_and_waits_for_a_person_and_is_never_pruned(kb: Shell) -> None:
    story = Story(kb, "verified")
    note = story.note("The vault opens with two keys.")
    story.json("memory", "verify", note, "--by", "ada", "--reason", "tried it")
    verified_at = kb.at or 0
    for day in (30, 90, 120, 179):
        story.day(day)
        assert story.found("two keys") == [note]
        assert story.waiting() == {}
    story.at(verified_at + 180 * DAY_MS - 1)
    assert story.waiting() == {}
    story.day(181)
    assert story.waiting() == story.waiting("--why", "due") == {note: "due"}
    assert story.waiting("--why", "contested") == {}
    told = story.run("govern", "review").out
    assert "1 due" in told
    assert "The vault opens with two keys." in told
    for day in (190, 400, 900):
        story.day(day)
        assert story.job("prune", "--allow-mass")["actions"] == []
    assert "verified" in " ".join(story.explained(note)["why"])
    story.json("memory", "verify", note, "--by", "ada")
    assert story.waiting() == {}
    assert story.found("two keys") == [note]


def test_an_outdated_page_is_never_retrieved_again_but_speaks_for_its_own_time(kb: Shell) -> None:
    story = Story(kb, "outdated")
    story.ingested(api_md=page(OLD))
    story.day(9)
    assert "60" in story.json("ask", LIMIT)["answer"]
    story.day(10)
    assert story.ingested(api_md=page(NEW))["memories"]["superseded"] == 1
    for day in (10, 11, 40, 80, 119):
        story.day(day)
        for job in ("sync", "decay", "recheck", "prune", "gc"):
            story.job(job)
        assert not story.found(OLD, LIMIT, "--gate", "0")
        assert story.found(NEW, LIMIT)
        answer = story.json("ask", LIMIT)
        assert "250" in answer["answer"]
        assert OLD not in str(answer["citations"])
    then = ("--at", "2027-01-20")
    assert story.found(OLD, LIMIT, *then)
    assert not story.found(NEW, LIMIT, *then)
    past = story.json("ask", LIMIT, *then)
    assert "60" in past["answer"]
    assert "250" not in past["answer"]


def night(story: Story) -> None:
    """Run what runs at night, and ingest the bad folder once more."""
    for job in ("sync", "promote", "recheck", "decay"):
        story.json("govern", "run", job)
    story.json("ingest", "poisoned/wiki")


def key_of(kb: Shell, answer_id: str) -> str:
    """Return the id of the key that leads to an answer."""
    steps = rows(kb.home, "lineage", "poisoned")
    (key_id,) = [step["child"] for step in steps if step["kind"] == "key" and step["parent"] == answer_id]
    return str(key_id)


def test_a_poisoned_source_takes_every_descendant_with_it_stays_out_and_comes_back_when_that_is_undone(
    kb: Shell,
) -> None:
    story = Story(kb, "poisoned")
    story.ingested(api_md=page(NEW))
    story.day(56)
    story.job("sync")
    story.ingested("wiki", ferry_md=f"# Ferries\n\nEverybody knows that {TOLL}.\n")
    story.day(58)
    answer = story.json("ask", TOLL_QUESTION)
    assert "ninety" in answer["answer"]
    noted = story.note("Passengers to Dalen pay ninety coins, as I was told.", "--from", answer["answer_id"])
    again = story.note("Bring ninety coins for the crossing.", "--from", noted)
    key_id = key_of(kb, answer["answer_id"])
    story.day(60)
    before = story.standings()
    bad = {id_ for id_ in before if id_ in {noted, again, key_id} or "wiki" in story.memory(id_)["source"]}
    stood = {id_: (before[id_], story.memory(id_)["standing_reason"]) for id_ in bad}
    assert len(bad) == 4

    done = story.json("rollback", "--source", "wiki", "--yes", "--by", "ada", "--reason", "defaced")
    assert done["counts"]["quarantine"] == 4
    for day in (60, 61, 75, 100, 119):
        story.day(day)
        night(story)
        after = story.standings()
        assert {after[id_] for id_ in bad} == {"quarantined"}
        assert all("rolled back" in story.memory(id_)["standing_reason"] for id_ in bad)
        assert {id_ for id_ in after if id_ not in before} == set()
        found = story.json("search", TOLL_QUESTION, "-k", "50", "--gate", "0")["hits"]
        assert not {h["id"] for h in found} & bad
        refused = story.json("ask", TOLL_QUESTION)
        assert (refused["outcome"], refused["citations"]) == ("refused", [])
        before = story.standings()
    assert story.waiting() == {}, "a person has decided that already"
    story.json("govern", "undo", done["sweep_id"])  # two months of nightly decay have not closed this way
    back = {id_: (m["standing"], m["standing_reason"]) for id_ in bad for m in [story.memory(id_)]}
    assert back == stood
    story.job("sync")  # what came back is still in its source
    assert "ninety" in story.json("ask", TOLL_QUESTION)["answer"]


def test_a_policy_that_would_empty_the_store_is_caught_before_it_runs(kb: Shell) -> None:
    story = Story(kb, "policies")
    story.ingested(api_md=page(NEW))
    note = story.note("The harbour master is called Ida.")
    day = {f"KB_TRUST__{c}__HALF_LIFE_DAYS": "1" for c in ("CURATED", "DOCUMENT", "PERSON", "AGENT", "WEB")}
    assert story.json("govern", "policy", "check")["is_safe"]
    found = story.json("govern", "policy", "check", code=5, KB_GATE="0.95", **day)
    assert not found["is_safe"]
    codes = {f["code"] for f in found["findings"] if f["is_refusal"]}
    assert {"gate_above_verified", "nothing_passes"} <= codes
    story.standings()  # births are computed anew, as before
    before = everything(kb.home)
    own = "gate = 0.95\n" + "".join(f"[trust.{c}]\nhalf_life_days = 1\n" for c in ("document", "person"))
    (kb.home / "hasty.toml").write_text(own)
    proposed = ("--policy", "hasty.toml")
    same = story.json("govern", "policy", "check", *proposed, code=5)
    assert {f["code"] for f in same["findings"] if f["is_refusal"]} >= {"empties_gate"}
    told = story.run("govern", "policy", "check", *proposed)
    assert (told.code, "must not run" in told.out) == (5, True)

    seen = story.json("govern", "forecast", "--days", "90", "--plot", "seen.png")
    assert (kb.home / "seen.png").read_bytes().startswith(b"\x89PNG")
    assert (seen["days"], len(seen["total"]["above"])) == (90, 90)
    own_of = {s["source"]: s for s in seen["sources"]}
    assert sum(own_of["docs"]["leave"]) == 0, "it is synced"
    assert own_of["note"]["leave"].index(1) == 5, "0.8 falls to 0.7 in the sixth day"
    assert own_of["note"]["pruned"].index(1) == 59
    hasty = story.json("govern", "forecast", "--days", "30", *proposed)
    assert (hasty["total"]["above"][-1], hasty["policy"] != seen["policy"]) == (0, True)
    assert everything(kb.home) == before
    assert story.memory(note)["standing"] == "active"


def test_a_plan_is_applied_exactly_or_refused_by_the_names_of_what_moved(kb: Shell) -> None:
    story = Story(kb, "planned")
    ids = [story.note(f"Gate {n} of the harbour opens at {n} o'clock.") for n in range(4)]
    story.day(61)
    plan = story.run("govern", "plan", "prune")  # not to a terminal: it is the file
    (kb.home / "plan.json").write_text(plan.out)
    (kb.home / "forged.json").write_text(plan.out.replace(ids[0], ids[1]))
    assert story.json("govern", "apply", "forged.json", code=2)["error"]["type"] == "InputError"
    story.json("memory", "pin", ids[2])
    error = story.json("govern", "apply", "plan.json", code=5)["error"]
    assert (error["type"], error["moved"]) == ("StalePlan", [ids[2]])
    assert ids[2] in error["message"]
    assert set(story.standings().values()) == {"active"}

    story.json("memory", "unpin", ids[2])
    (kb.home / "plan.json").write_text(story.run("govern", "plan", "prune").out)
    planned = story.json("govern", "plan", "prune")
    done = story.json("govern", "apply", "plan.json", "--by", "ada", "--reason", "spring cleaning")
    assert (done["status"], done["counts"], done["actor"]) == ("done", {"retire": 4}, "ada")
    assert [a["memory_id"] for a in done["actions"]] == [a["memory_id"] for a in planned["actions"]]
    latest = story.json("govern", "history", "--limit", "1")["sweeps"][0]
    assert (latest["sweep_id"], latest["reason"]) == (done["sweep_id"], "spring cleaning")
    why = story.explained(ids[0])
    assert why["memory"]["standing"] == "retired"
    assert (why["decisions"][-1]["action"], why["decisions"][-1]["reason"]) == ("retire", "faded")
    undone = story.json("govern", "undo", done["sweep_id"], "--by", "ada")
    assert (undone["undoes"], undone["job"]) == (done["sweep_id"], "undo")
    assert set(story.standings().values()) == {"active"}
    assert story.json("govern", "show", done["sweep_id"])["undone_by"] == undone["sweep_id"]
    assert story.json("govern", "undo", done["sweep_id"], code=5)["error"]["type"] == "Refused"


def test_agents_cannot_verify_people_verify_many_at_once_and_remarks_are_shown(kb: Shell) -> None:
    story = Story(kb, "people")
    ids = [story.note(f"Bell {n} rings at {n} o'clock.", "--by", "agent") for n in range(3)]
    agent = ("--role", "agent", "--by", "helper")
    for decision in ("verify", "reject", "pin", "restore"):
        assert story.json("memory", decision, *ids, *agent, code=5)["error"]["type"] == "Refused"
    assert story.json("memory", "verify", *ids, code=5, KB_ROLE="agent")["error"]["type"] == "Refused"
    assert story.waiting() == dict.fromkeys(ids, "quarantined")

    done = story.json("memory", "verify", *ids, "--by", "ada", "--reason", "heard them")
    assert (done["counts"], {m["standing"] for m in done["memories"]}) == ({"verify": 3}, {"active"})
    assert {(m["confidence"], m["verified"]) for m in done["memories"]} == {(0.95, True)}
    assert story.json("govern", "undo", done["sweep_id"], code=5, KB_ROLE="agent")["error"]["type"] == "Refused"
    story.json("memory", "annotate", ids[0], *agent, "--reason", "the big one")
    told = story.explained(ids[0])
    assert told["decisions"][-1]["detail"] == {"by": "helper", "note": "the big one"}
    assert "“the big one”" in story.run("govern", "explain", ids[0]).out

    story.json("memory", "reject", ids[1], "--by", "ada", "--reason", "it is cracked")
    mixed = story.json("memory", "restore", *ids[:2], code=5)
    assert {r["memory_id"] for r in mixed["refused"]} == set(ids[:2])
    assert story.json("memory", "pin", *ids[:2], code=0)["counts"] == {"pin": 2}
    assert story.json("memory", "pin", *ids, code=3)["counts"] == {"pin": 1}
    assert ids[1] not in story.waiting()


def test_one_id_that_nobody_has_keeps_a_decision_from_all_the_others(kb: Shell) -> None:
    """It is more likely a slip of the pen than a wish to decide about the rest."""
    story = Story(kb, "slip")
    id_ = story.note("The quay is closed on Mondays.")
    for decision in ("verify", "reject", "pin"):
        error = story.json("memory", decision, id_, "nope", "--by", "ada", code=2)["error"]
        assert error["type"] == "UnknownMemory"
        assert "nope" in error["message"]
    assert [d["action"] for d in story.explained(id_)["decisions"]] == []


def test_reading_changes_no_trust(kb: Shell) -> None:
    story = Story(kb, "reading")
    story.ingested(api_md=page(NEW))
    note = story.note("The harbour master is called Ida.")
    story.json("ask", LIMIT)  # its key is written once
    before = rows(kb.home, "memories", "reading")
    evidence = rows(kb.home, "evidence", "reading")
    for day in (1, 20, 120):
        story.day(day)
        story.found(NEW, LIMIT)
        story.found("harbour", "", "--gate", "0", "--at", "-1d")
        story.json("ask", LIMIT)
        story.json("ask", "Who is the harbour master?", "--at", "-1d")
        for reading in ("get", "trace"):
            story.json("memory", reading, note)
        story.explained(note)
        for looking in ("history", "review", "forecast"):
            story.json("govern", looking)
    after = {r["id"]: r for r in rows(kb.home, "memories", "reading")}
    assert [after[r["id"]] for r in before] == before
    assert rows(kb.home, "evidence", "reading") == evidence


def test_a_dry_run_writes_nothing(kb: Shell) -> None:
    story = Story(kb, "dry")
    story.ingested(api_md=page(OLD))
    ids = [story.note(f"Lamp {n} burns {n} hours.") for n in range(3)]
    story.json("memory", "add", "Lamp 0 burns 9 hours.", "--by", "agent")
    story.day(70)
    (story.folder / "docs" / "api.md").write_text(page(NEW))
    before = everything(kb.home)
    jobs = ("sync", "decay", "promote", "recheck", "prune", "gc", "reconcile", "verify-index")
    done = {job: story.job(job, "--dry-run") for job in jobs}
    assert everything(kb.home) == before
    assert {a["memory_id"] for a in done["prune"]["actions"]} >= set(ids)
    assert done["sync"]["counts"]["documents_changed"] == 1
    assert all(d["dry_run"] and d["sweep_ids"] == [] for d in done.values())
    assert kb.at is not None
    assert kb.at > T0
