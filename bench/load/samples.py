"""What one request was measured to take, and what many of them come to."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

OK = 200
BUSY = 429
NO_ANSWER = 0


@attrs.frozen(kw_only=True)
class Sample:
    """One streamed request. ``sent`` is in seconds since its load began, all other times are in seconds after that.

    ``status`` is HTTP's, `NO_ANSWER` where none came; ``error`` is empty where the whole answer came. ``times`` are
    those of pieces that carry text: a token each, or several where a server held one back. Tokens are counted by the
    server. ``retry_after`` is what a refusal asks to wait.
    """

    sent: float
    status: int
    ended: float
    error: str = ""
    times: tuple[float, ...] = ()
    prompt_tokens: int = 0
    tokens: int = 0
    retry_after: float = 0.0

    @property
    def answered(self) -> bool:
        return self.status == OK and not self.error

    @property
    def ttft(self) -> float:
        """Seconds to the first text; to the end of an answer without any."""
        return self.times[0] if self.times else self.ended

    @property
    def tpot(self) -> float | None:
        """Seconds for each token after the first; ``None`` for an answer of one."""
        return (self.ended - self.ttft) / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def gaps(self) -> list[float]:
        """Seconds between pieces."""
        return np.diff(self.times).tolist() if self.times else []


@attrs.frozen
class Spread:
    """Percentiles, interpolated linearly between the nearest two values."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """``None`` of nothing."""
        return cls(*np.quantile(values, (0.5, 0.9, 0.99)).tolist()) if values else None


@attrs.frozen(kw_only=True)
class Summary:
    """Of one load: rates over the time from the first request's start to the last one's end, in seconds.

    Rates and times are of whole answers only; ``busy`` counts refusals with 429, ``errors`` all else that failed.
    """

    requests: int
    busy: int
    errors: int
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    prompt_tokens: int
    tokens: int
    ttft_s: Spread | None
    tpot_s: Spread | None
    gap_s: Spread | None

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Summary:
        """Needs at least one sample."""
        good = [sample for sample in samples if sample.answered]
        seconds = max(s.sent + s.ended for s in samples) - min(s.sent for s in samples)
        tokens = sum(sample.tokens for sample in good)
        busy = sum(sample.status == BUSY for sample in samples)
        return cls(
            requests=len(samples),
            busy=busy,
            errors=len(samples) - len(good) - busy,
            seconds=seconds,
            requests_per_s=len(good) / seconds,
            tokens_per_s=tokens / seconds,
            prompt_tokens=sum(sample.prompt_tokens for sample in good),
            tokens=tokens,
            ttft_s=Spread.of([sample.ttft for sample in good]),
            tpot_s=Spread.of([sample.tpot for sample in good if sample.tpot is not None]),
            gap_s=Spread.of([gap for sample in good for gap in sample.gaps]),
        )
