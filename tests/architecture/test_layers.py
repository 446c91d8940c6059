"""Imports go one way, and every package is inside the rules."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.architecture.tree import ROOT, imported, name, packages, project, python_files


def contract(title: str) -> dict[str, list[str]]:
    found: list[dict[str, list[str]]] = [
        c for c in project()["tool"]["importlinter"]["contracts"] if c["name"] == title
    ]
    return found[0]


def test_every_import_contract_is_kept() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    command = [str(lint), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_stands_in_every_list_of_packages() -> None:
    tool = project()["tool"]
    layers = {part.strip(" ()") for layer in contract("data flows one way")["layers"] for part in layer.split("|")}
    own = set(packages())
    assert own <= layers
    assert own == set(tool["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert own == set(tool["mypy"]["packages"])
    assert own == set(tool["importlinter"]["root_packages"])
    assert own <= set(tool["vulture"]["paths"])


def test_every_package_has_a_contract_of_its_own_that_no_module_escapes() -> None:
    held = {
        container
        for c in project()["tool"]["importlinter"]["contracts"]
        if c["type"] == "layers" and c.get("exhaustive")
        for container in c["containers"]
    }
    assert set(packages()) <= held


def test_all_packages_have_one_home() -> None:
    homes = {name: Path(str(import_module(name).__file__)).parent.parent for name in packages()}
    assert set(homes.values()) == {ROOT}


def test_every_vendor_has_a_home_in_the_table() -> None:
    table = set(contract("vendors live in the adapter named for them")["forbidden_modules"])
    known = table | set(sys.stdlib_module_names) | set(packages())
    homeless = [
        f"{name(path)}:{line} {module}"
        for path in python_files(*packages())
        for module, line in imported(path)
        if module not in known
    ]
    assert homeless == []


def test_the_product_never_imports_its_tests_or_tools() -> None:
    support = {"bench", "docs", "sample", "tests", "pytest", "hypothesis"}
    used = [name(p) for p in python_files(*packages()) for module, _ in imported(p) if module in support]
    assert used == []


def test_every_vendor_is_a_dependency_of_our_own() -> None:
    declared = {re.split(r"[\[<>=~;! ]", d)[0].lower() for d in project()["project"]["dependencies"]}
    providers = packages_distributions()
    used = {module for p in python_files(*packages()) for module, _ in imported(p)} & set(providers)
    borrowed = {m: providers[m] for m in used - set(packages()) if not {d.lower() for d in providers[m]} & declared}
    assert borrowed == {}
