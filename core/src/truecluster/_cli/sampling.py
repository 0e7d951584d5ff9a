"""How ``tc run`` draws tokens: what isn't typed is the model's own."""

from __future__ import annotations

from typing import Annotated

import typer

Temperature = Annotated[float | None, typer.Option(min=0, max=2, help="0 is greedy.  [default: the model's, else 0]")]
TopP = Annotated[float | None, typer.Option(min=0, max=1, help="Nucleus mass.  [default: the model's, else 1]")]
TopK = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Likeliest tokens to draw from, 0 for all.  [default: the model's, else 0]"),
]
MinP = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Least share of the likeliest one's probability.  [default: the model's, else 0]"),
]
Seed = Annotated[int | None, typer.Option(help="Makes sampling repeatable.")]
