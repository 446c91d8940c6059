"""Wires fixtures and gives every test the same bare machine; no fixture is defined here."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

pytest_plugins = [f"tests.{path.stem}" for path in sorted(HERE.glob("fixtures_*.py"))]

# What the developer has set must not steer a test; what a test forgets to place must not land in the developer's home.
# Models that are built once may stay: they are checked by hash.
_home = tempfile.TemporaryDirectory(prefix="kb-tests-", ignore_cleanup_errors=True)
for _name in [n for n in os.environ if n.startswith(("KB_", "OTEL_", "OPENAI_")) and not n.startswith("KB_TEST_")]:
    del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = f"{_home.name}/config"
os.environ["XDG_DATA_HOME"] = f"{_home.name}/data"
os.environ["XDG_CACHE_HOME"] = str(HERE.parent / ".kb" / "cache")
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1"

# Machines are shared and slow at times: no law depends on how long an example takes.
# The suite tries the same examples everywhere, so that it says the same twice; `make soak` looks for new ones.
settings.register_profile(
    "kb", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=True
)
settings.register_profile("explore", settings.get_profile("kb"), derandomize=False)
settings.load_profile("explore" if os.environ.get("KB_TEST_EXPLORE") else "kb")
