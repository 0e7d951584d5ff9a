"""The header of a step, as edges carry it: a fixed struct, then int32 tables, little-endian.

The payload is described by the header and travels behind it. Which run, step, width and dtype are due is the
stage's to check; here a header is checked against itself, its length and the limits.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import cached_property, partial
from itertools import chain, starmap
from operator import gt
from typing import NamedTuple

import attrs

from truecluster.api import DType, EdgeBroken

from . import limits


class Kind(IntEnum):
    """What a step's message is: tokens or hidden rows on their way through the stages, or the last stage's answer."""

    RUN_PREFILL = 1
    RUN_DECODE = 2
    HIDDEN_STATE = 3
    TOKEN = 4


class Row(NamedTuple):
    """One sequence of a step: ``n_tokens`` from ``position`` on; logits are wanted of the last ``n_logits``.

    ``sample`` numbers the SAMPLE message that the head must have applied first, 0 for none.
    """

    sequence: int
    position: int
    n_tokens: int
    n_logits: int
    sample: int = 0


class Opened(NamedTuple):
    """A new sequence, whose first pages already hold ``cached`` tokens."""

    sequence: int
    cached: int = 0


class Page(NamedTuple):
    """The next page of a sequence."""

    sequence: int
    page: int


@attrs.define  # not frozen: that would set each field by a call, which costs a step 15 µs where caches are cold
class StepHeader:
    """One step of a run; ``step`` grows by one. Not changed once it is made.

    ``count`` is the rows of the payload: ids ``[count]`` int32 where ``width`` is 0, else hidden rows
    ``[count, width]`` in ``dtype``. RUN_* carries every token of ``rows``. An answer (HIDDEN_STATE, TOKEN) carries
    those whose logits were wanted, and may leave ``rows`` out. A TOKEN with ``logprobs`` has a second tensor
    ``[count, 1 + width]`` fp32, each token's own and those of the ``width`` likeliest, and, unless ``width`` is 0, the
    ids of these, ``[count, width]`` int32.
    """

    kind: Kind
    run: int
    step: int
    count: int
    width: int = 0
    dtype: DType = DType.INT32
    logprobs: bool = False
    rows: tuple[Row, ...] = ()
    opened: tuple[Opened, ...] = ()
    pages: tuple[Page, ...] = ()
    released: tuple[int, ...] = ()

    def payload(self) -> tuple[tuple[DType, tuple[int, ...]], ...]:
        """Dtype and shape of each tensor that follows."""
        ids = (DType.INT32, (self.count,))
        rows = (self.dtype, (self.count, self.width))
        if self.logprobs:
            own = (DType.FP32, (self.count, 1 + self.width))
            return (ids, own, rows) if self.width else (ids, own)
        return (rows,) if self.width else (ids,)


@attrs.frozen(kw_only=True)
class StepLimits:
    """The most that a header may claim; no row may reach beyond ``context``."""

    rows: int = limits.MAX_ROWS
    tokens: int = limits.MAX_TOKENS
    pages: int = limits.MAX_PAGES
    width: int = limits.MAX_WIDTH
    context: int = limits.MAX_INT32

    @cached_property
    def most(self) -> tuple[int, ...]:
        """All of them, in the order of a header's claims."""
        return self.tokens, self.width, self.rows, self.rows, self.pages, self.rows


DEFAULT_LIMITS = StepLimits()

_FIXED, _FRONT = struct.Struct("<BBHIQQIIIII"), struct.Struct("<BBHIQQI")
"""All of it, and what stands before the sizes of the tables, which differs from stage to stage.

The flags take two bytes, of which the second is zero: no two headers mean the same.
"""
_ROW, _OPENED, _PAGE, _RELEASED = (struct.Struct(f"<{width}i") for width in (5, 2, 2, 1))
"""What the tables hold: each a `Row`, `Opened`, `Page`, or the number of a sequence."""
_NO_CHANGES: tuple[tuple[Opened, ...], tuple[Page, ...], tuple[int, ...]] = ((), (), ())
_DTYPES = (DType.FP32, DType.FP16, DType.BF16, DType.INT32)
_DTYPE_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_KINDS = {int(kind): kind for kind in Kind}
_CLAIMS = ("payload rows", "width", "rows", "opened sequences", "pages", "released sequences")
_INT32, _HIDDEN_STATE, _TOKEN = DType.INT32, Kind.HIDDEN_STATE, Kind.TOKEN
"""What every step compares with: Python before 3.12 searches for a member each time that its enum is asked for it."""
_ANSWERS = (_HIDDEN_STATE, _TOKEN)
_row = partial(tuple.__new__, Row)
"""Of a tuple, without the Python function that a named tuple is otherwise made by."""


def encode(header: StepHeader) -> bytes:
    """The bytes of a header. Raises `struct.error` for a number outside of its field, which is a bug of the sender."""
    rows, opened, pages, released = header.rows, header.opened, header.pages, header.released
    fixed = _FIXED.pack(
        header.kind,
        _DTYPE_CODES[header.dtype],
        header.logprobs,
        header.width,
        header.run,
        header.step,
        header.count,
        len(rows),
        len(opened),
        len(pages),
        len(released),
    )
    tables = starmap(_ROW.pack, rows), starmap(_OPENED.pack, opened), starmap(_PAGE.pack, pages)
    return b"".join([fixed, *chain(*tables), *map(_RELEASED.pack, released)])


def relabel(
    data: bytes,
    header: StepHeader,
    *,
    kind: Kind,
    count: int,
    width: int = 0,
    dtype: DType = DType.INT32,
    logprobs: bool = False,
) -> bytes:
    """``data``, which was decoded to ``header``, for another payload; its tables go on as they are."""
    front = _FRONT.pack(kind, _DTYPE_CODES[dtype], logprobs, width, header.run, header.step, count)
    return front + data[_FRONT.size :]


def decode(data: bytes, limits: StepLimits = DEFAULT_LIMITS) -> StepHeader:
    """The header that ``data`` is, exactly. Raises `EdgeBroken` saying which rule it breaks."""
    if len(data) < _FIXED.size:
        raise EdgeBroken(f"a step header of {len(data)} bytes, at least {_FIXED.size} are needed")
    code, dtype, flags, width, run, step, count, n_rows, n_opened, n_pages, n_released = _FIXED.unpack_from(data)
    if code not in _KINDS or dtype >= len(_DTYPES) or flags > 1:
        raise EdgeBroken(f"a step header of unknown kind {code}, dtype {dtype} or flags {flags}")
    claims = (count, width, n_rows, n_opened, n_pages, n_released)
    if any(map(gt, claims, limits.most)):
        raise _claims_too_much(claims, limits)
    changes_at = _FIXED.size + n_rows * _ROW.size
    end = changes_at + n_opened * _OPENED.size + n_pages * _PAGE.size + n_released * _RELEASED.size
    if len(data) != end:
        raise EdgeBroken(f"a step header of {len(data)} bytes whose tables make {end}")
    rows = tuple(map(_row, _ROW.iter_unpack(data[_FIXED.size : changes_at])))
    changes = _changes(data[changes_at:], n_opened, n_pages) if end > changes_at else _NO_CHANGES
    header = StepHeader(_KINDS[code], run, step, count, width, _DTYPES[dtype], flags == 1, rows, *changes)
    _check_payload(header)
    _check_rows(header, limits.context)
    return header


def _changes(data: bytes, n_opened: int, n_pages: int) -> tuple[tuple[Opened, ...], tuple[Page, ...], tuple[int, ...]]:
    """Opened sequences, pages and released sequences, which most steps have none of."""
    pages_at = n_opened * _OPENED.size
    released_at = pages_at + n_pages * _PAGE.size
    opened = tuple(map(Opened._make, _OPENED.iter_unpack(data[:pages_at])))
    pages = tuple(map(Page._make, _PAGE.iter_unpack(data[pages_at:released_at])))
    released = tuple(chain.from_iterable(_RELEASED.iter_unpack(data[released_at:])))
    lowest = min(chain(*opened, *pages, released))
    if lowest < 0:
        raise EdgeBroken(f"a step header holds the negative number {lowest}")
    _check_distinct("opened sequence", [each.sequence for each in opened])
    _check_distinct("page of a sequence", pages)
    _check_distinct("released sequence", released)
    return opened, pages, released


def _claims_too_much(claims: Sequence[int], limits: StepLimits) -> EdgeBroken:
    what, number, most = next(each for each in zip(_CLAIMS, claims, limits.most, strict=True) if each[1] > each[2])
    return EdgeBroken(f"a step header claims {number} {what}, at most {most} are allowed")


def _check_payload(header: StepHeader) -> None:
    """Ids are int32 and have no width but with log-probabilities; hidden rows have one, and a float dtype."""
    if header.logprobs and header.kind is not _TOKEN:
        raise EdgeBroken(f"a {header.kind.name} with log-probabilities; only TOKEN has them")
    most = limits.MAX_LOGPROBS if header.logprobs else 0
    if header.kind is _TOKEN and header.width > most:
        raise EdgeBroken(f"a TOKEN of width {header.width}; at most {most} is allowed")
    if header.kind is _HIDDEN_STATE and not header.width:
        raise EdgeBroken("a HIDDEN_STATE of width 0")
    if (header.dtype is _INT32) is not (header.kind is _TOKEN or header.width == 0):
        raise EdgeBroken(f"a payload of width {header.width} in {header.dtype.value}")


def _check_rows(header: StepHeader, context: int) -> None:
    tokens = logits = 0
    for row in header.rows:
        sequence, position, n_tokens, n_logits, sample = row
        if sequence < 0 or position < 0 or n_tokens < 1 or not 0 <= n_logits <= n_tokens or sample < 0:
            raise EdgeBroken(f"a step row out of range: {row}")
        if position + n_tokens > context:
            raise EdgeBroken(f"a step reaches position {position + n_tokens}, at most {context} are allowed")
        tokens += n_tokens
        logits += n_logits
    if len(header.rows) > 1:
        _check_distinct("row", [row.sequence for row in header.rows])
    answer = header.kind in _ANSWERS
    expected = logits if answer else tokens
    if header.count != expected and not (answer and not header.rows):
        raise EdgeBroken(f"a {header.kind.name} of {header.count} payload rows whose table says {expected}")


def _check_distinct(what: str, found: Collection[object]) -> None:
    if len(set(found)) != len(found):
        raise EdgeBroken(f"a step header names a {what} twice")
