// One question and its answer on the page.
import { button, byId, element } from "./dom.js";
import { show } from "./text.js";

const log = byId("log");

export function toEnd() {
  log.scrollTop = log.scrollHeight;
}

export class TurnView {
  /** `again` is called to have the question answered anew. */
  constructor(turn, again) {
    this.turn = turn;
    this.answer = element("div", { className: "answer" });
    this.error = element("p", { className: "error" });
    this.note = element("span", { className: "note" });
    this.copy = button("Copy", "quiet", () => this.copied());
    const foot = element("div", { className: "foot" }, this.note, this.copy, button("Try again", "quiet again", again));
    const asked = element("p", { className: "question" }, turn.question);
    this.root = element("article", { className: "turn" }, asked, this.answer, this.error, foot);
    this.draw();
  }

  /** Show the turn as it is now; whoever looks at the log's end goes on to see it. */
  draw() {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    show(this.answer, this.turn.answer);
    this.error.textContent = this.turn.error;
    this.note.textContent = this.turn.note;
    this.copy.hidden = !this.turn.answer;
    if (atEnd) toEnd();
  }

  /** With the next frame: tokens may come faster than a screen can show them. */
  drawSoon() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  async copied() {
    const done = await copy(this.turn.answer).then(() => "Copied", () => "Not copied");
    this.copy.textContent = done;
    setTimeout(() => (this.copy.textContent = "Copy"), 1500);
  }
}

/** Browsers give the clipboard's own interface to secure origins only, which a cluster in a home network isn't. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = document.activeElement, field = element("textarea", { className: "unseen", value: text });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before.focus();
  if (!done) throw new Error("the browser refused");
}
