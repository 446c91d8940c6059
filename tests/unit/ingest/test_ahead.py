import threading

import pytest

from ingest.ahead import ahead


def test_results_come_in_order_with_their_items():
    assert list(ahead(range(10), lambda n: n * n, depth=3)) == [(n, n * n) for n in range(10)]
    assert list(ahead([], lambda n: n)) == []


def test_work_runs_ahead_of_the_reader_but_never_further_than_the_depth():
    begun: list[int] = []
    reached = threading.Event()

    def work(n: int) -> int:
        begun.append(n)
        if n == 3:
            reached.set()
        return n

    results = ahead(range(100), work, depth=3)
    assert next(results) == (0, 0)
    assert reached.wait(10)
    assert max(begun) <= 3
    results.close()
    assert max(begun) <= 4


def test_an_error_is_raised_where_its_item_would_have_come():
    results = ahead([1, 0, 2], lambda n: 1 / n)
    assert next(results) == (1, 1.0)
    with pytest.raises(ZeroDivisionError):
        next(results)
