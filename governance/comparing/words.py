"""Words that decide whether a differing date, version or denial contradicts: pure tables, English and Chinese."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.dates.almanac import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.comparing.sayings import Saying, Value
    from kb.words.polarity import Polarity

A_YEAR_APART = 300 * DAY_MS  # from here on, two dates may be two times of a yearly event


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


DENIALS = _words(
    """not never no cannot without neither nor none can't don't doesn't didn't isn't aren't wasn't weren't won't
    不 不要 不会 不能 不可 不得 不是 不应 不再 不必 不需 不需要 不准 不许 不予 不用 没有 没 未 未经 尚未 从未 并未
    无 无法 无需 无须 并非 非 会 能 可 需要 需"""
)
LIGHT = _words(  # one says "cost", the other "price"; what is said stays the same
    """cost price charg amount total reach hit stand set report say said reveal show accord about around approxim now
    current offici still also only up equal 达 达到 为 共 共有 约 大约 约为 总计 合计 一共 目前 现在 仍 据 显示 报道
    表示 近 超 超过 左右"""
)
_ONCE = _words(  # happens to a thing once
    """found establish releas launch born die death kill creat built build complet incorpor acquir premier debut open
    publish introduc sign enact ratifi abolish discov invent
    成立 创立 创建 创办 建立 发布 上映 上市 出生 生于 诞生 去世 逝世 推出 首播 首映 发售 发行 建成 落成 竣工
    通车 收购 签署 颁布 开业 开馆 开通 出版 创刊 问世 定档 公映 发射 爆发 发生"""
)
_AGAIN = _words(  # comes back; the sentence must say which time it means
    """start begin began end expir due deadlin effect schedul held hold take place close final elect vote resign arriv
    retir 开始 结束 截止 到期 生效 举行 举办 召开 开幕 闭幕 开赛 开工 投票 选举 退役 实施 施行 起"""
)
_VERSIONED = _words(
    """latest current newest minimum requir need least default introduc sinc deprec remov start use stabl recommend
    support 最新 当前 要求 需要 最低 至少 默认 引入 起 开始 自 废弃 移除 弃用 使用 稳定 推荐 支持"""
)


def are_denied(one: Polarity, other: Polarity) -> bool:
    """Return whether one sentence denies what the other, which denies nothing, says."""
    denying, plain = (one, other) if one.denied else (other, one)
    if not denying.denied or plain.denied:
        return False
    return any(scope[0] in plain.said for scope in denying.denied)


def is_dated_event(a: Saying, b: Saying, x: Value, y: Value, others: Sequence[Value]) -> bool:
    """Return whether the date of a sentence is what it states: when something that has one date happened.

    Args:
        a: one sentence.
        b: the other.
        x: date of the one.
        y: date of the other.
        others: values that both give alike.
    """
    words = a.content & b.content
    if words & _ONCE:
        return True
    if not words & _AGAIN or x.period is None or y.period is None:
        return False
    is_near = abs(x.period.start - y.period.start) < A_YEAR_APART
    return bool(others) or is_near or any(c.isdigit() for word in words for c in word)


def is_versioned(saying: Saying) -> bool:
    """Return whether a sentence states a version, rather than speaking of one among others."""
    return bool(saying.polarity.said & _VERSIONED)
