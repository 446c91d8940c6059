"""Why a question got no answer, or only part of one."""

from __future__ import annotations

from enum import StrEnum


class RefusalReason(StrEnum):
    """One reason each; several may hold at once, the primary one first."""

    NOTHING_FOUND = "nothing_found"  # no evidence, and nothing else went wrong
    ONLY_SUPPRESSED = "only_suppressed"  # what matched is faded, quarantined or otherwise below the gate
    PERIOD_NOT_COVERED = "period_not_covered"  # evidence exists, of another period than was asked for
    NOT_SUPPORTED = "not_supported"  # evidence exists, but no draft was borne out by it
    SEARCH_NOT_CONFIGURED = "search_not_configured"
    SEARCH_DECLINED = "search_declined"
    SEARCH_FAILED = "search_failed"
    SEARCH_NOT_TIMELY = "search_not_timely"  # the web is for questions of time only, and this is none
    EVALUATOR_UNAVAILABLE = "evaluator_unavailable"
    INDEX_UNAVAILABLE = "index_unavailable"
    EMBEDDER_UNAVAILABLE = "embedder_unavailable"
    LEDGER_UNAVAILABLE = "ledger_unavailable"
    MODEL_UNAVAILABLE = "model_unavailable"
    BUDGET_SPENT = "budget_spent"
    PERSON_NEEDED = "person_needed"  # a person should decide with what was found, and nothing is kept to wait
    PERSON_DECLINED = "person_declined"  # a person did not let what was found be used
