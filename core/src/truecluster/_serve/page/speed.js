// How long an answer took, and how many tokens it was.
import { GAP } from "./units.js";

export class Speed {
  #begun = performance.now();
  #first;
  #last;
  #usage;
  #reason;

  /** A piece of text came. */
  count() {
    this.#last = performance.now();
    this.#first ??= this.#last;
  }

  /** What a chunk says of its answer. */
  take(usage, reason) {
    this.#usage = usage ?? this.#usage;
    this.#reason = reason ?? this.#reason;
  }

  words() {
    const { prompt_tokens, completion_tokens, prompt_tokens_details } = this.#usage;
    const cached = prompt_tokens_details?.cached_tokens;
    return [
      this.#reason === "length" && "cut off: no more tokens were allowed",
      `${prompt_tokens} tokens read${cached ? `, ${cached} of them known already` : ""}`,
      `${completion_tokens} written`,
      this.#first && `first after ${seconds(this.#first - this.#begun)}`,
      completion_tokens > 1 && this.#last > this.#first && `${this.#rate(completion_tokens)}${GAP}tokens/s`,
    ].filter(Boolean).join(" · ");
  }

  #rate(tokens) {
    return (((tokens - 1) * 1000) / (this.#last - this.#first)).toFixed(1);
  }
}

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(2)}${GAP}s`;
