"""A model seen as text: prompts and chats become requests that an engine understands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from truecluster._engine.requests import Request
from truecluster.api import Checkpoint, RequestError

from .call_grammar import call_grammar, call_rules
from .constraints import Grammars
from .defaults import eos_ids
from .echo import offsets
from .requests import TextOptions, TextRequest
from .templates import ChatTemplates
from .tokenizer import Tokenizer
from .tools import ToolUse
from .unicode import require_plain

COMPLETION_TOKENS = 16
"""OpenAI's default of ``max_tokens`` for a raw prompt; a chat's is the rest of the context."""


def _known(ids: Iterable[int | None]) -> frozenset[int]:
    return frozenset(id for id in ids if id is not None)


@attrs.frozen(kw_only=True)
class TextModel:
    """``context`` is in tokens, prompt and answer together; ``chat_eos`` are the ids that end a chat's turn.

    ``vocab`` is how many tokens the model has logits for.
    """

    tokenizer: Tokenizer
    templates: ChatTemplates
    eos: frozenset[int]
    chat_eos: frozenset[int]
    context: int
    vocab: int
    grammars: Grammars = attrs.field(
        default=attrs.Factory(lambda self: Grammars(self.tokenizer), takes_self=True), init=False, eq=False, repr=False
    )

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, context: int, vocab: int, trust_remote_code: bool = False) -> TextModel:
        """Read a checkpoint's tokenizer and templates; may take a second. Raises `CheckpointError`.

        The end ids are all that any source names: generation defaults, configuration and tokenizer, for a chat also
        the token that its template puts behind a turn.
        """
        tokenizer = Tokenizer(checkpoint.tokenizer(), trust_remote_code=trust_remote_code)
        templates = ChatTemplates(checkpoint.chat_templates, tokenizer)
        generation = eos_ids(checkpoint.generation, "generation defaults")
        named = generation + eos_ids(checkpoint.metadata, "config")
        eos = _known([*named, tokenizer.id(tokenizer.eos)])
        chat_eos = eos | _known([templates.turn_end()])
        return cls(tokenizer=tokenizer, templates=templates, eos=eos, chat_eos=chat_eos, context=context, vocab=vocab)

    def prepare_completion(self, prompt: str | Sequence[int], options: TextOptions) -> TextRequest:
        """A raw prompt, as text (control tokens are parsed) or as ids. Blocking: not for an event loop.

        Raises `RequestError`, with the code ``context_length_exceeded`` where the prompt leaves no room.
        """
        ids = self._encoded(prompt) if isinstance(prompt, str) else self._checked(prompt)
        if not ids:
            raise RequestError("the prompt is empty; give at least one token", "prompt")
        request = self._request(ids, self.eos, options, COMPLETION_TOKENS, "prompt")
        return self._echoing(request, self._text_of(prompt)) if options.echo else request

    def prepare_chat(
        self, messages: Sequence[Mapping[str, Any]], options: TextOptions, use: ToolUse | None = None
    ) -> TextRequest:
        """Messages as OpenAI's API has them, through the model's chat template. As `prepare_completion`."""
        if use is None:
            return self._chat(messages, options, None)
        form = self.templates.call_form()
        grammar = call_grammar(form, use, options.grammar, self.tokenizer)
        shown = [tool.shown() for tool in use.tools]
        request = self._chat(messages, attrs.evolve(options, grammar=grammar), shown)
        return attrs.evolve(request, calls=call_rules(form, use, formatted=options.grammar is not None))

    def _chat(self, messages: Sequence[Mapping[str, Any]], options: TextOptions, tools: Any) -> TextRequest:
        ids = self.templates.encode(messages, tools=tools)
        return self._request(ids, self.chat_eos, options, self.context, "messages")

    def _echoing(self, request: TextRequest, text: str) -> TextRequest:
        """With the prompt's ``text``, and its tokens' log-probabilities where the answer's are asked for."""
        tokens = request.tokens
        if tokens.sampling.logprobs is None:
            return attrs.evolve(request, prefix=text)
        places = offsets(self.tokenizer, tokens.prompt, text)
        return attrs.evolve(request, tokens=attrs.evolve(tokens, prompt_logprobs=True), prefix=text, offsets=places)

    def _encoded(self, prompt: str) -> list[int]:
        require_plain(prompt, "prompt")
        return self.tokenizer.encode_prompt(prompt)

    def _checked(self, prompt: Sequence[int]) -> Sequence[int]:
        if not all(0 <= id < self.tokenizer.size for id in prompt):
            raise RequestError(f"'prompt' holds ids outside 0 to {self.tokenizer.size - 1}", "prompt")
        return prompt

    def _text_of(self, prompt: str | Sequence[int]) -> str:
        return prompt if isinstance(prompt, str) else self.tokenizer.decode(list(prompt), control=True)

    def _request(
        self, prompt: Sequence[int], eos: frozenset[int], options: TextOptions, default: int, param: str
    ) -> TextRequest:
        room = self.context - len(prompt)
        if room < 1:
            raise RequestError(
                f"This model's maximum context length is {self.context} tokens, and the prompt has {len(prompt)}; "
                f"shorten it to at most {self.context - 1}",
                param,
                "context_length_exceeded",
            )
        if max(prompt, default=0) >= self.vocab:
            raise RequestError(
                f"{param!r} has token {max(prompt)}, but the model's are 0 to {self.vocab - 1}; leave it out", param
            )
        beyond = [id for id in options.sampling.logit_bias if id >= self.vocab]
        if beyond:
            raise RequestError(
                f"'logit_bias' names token {beyond[0]}; the model's are 0 to {self.vocab - 1}", "logit_bias"
            )
        wanted = default if options.max_tokens is None else options.max_tokens
        tokens = Request(
            prompt=tuple(prompt),
            max_tokens=min(wanted, room),
            eos=eos,
            sampling=options.sampling,
            constraint=None if options.grammar is None else self.grammars.start(options.grammar, eos),
        )
        return TextRequest(tokens=tokens, stop=options.stop, tokenizer=self.tokenizer)
