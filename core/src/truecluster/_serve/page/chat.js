// The conversation: what was said, the answer that is being made, and what is kept over a reload.
import { ApiError, answer } from "./api.js";
import { byId } from "./dom.js";
import * as models from "./models.js";
import { Speed } from "./speed.js";
import { TurnView, toEnd } from "./turn.js";

const KEPT = "truecluster.chat";
const FIELDS = ["system", "temperature", "max-tokens"];

const log = byId("log"), form = byId("composer"), question = byId("question");
let turns = []; // { question, answer, note, error }, the last of which may be at work
let working = null; // its AbortController

/** Begin with what was kept, and listen. */
export function start() {
  restore();
  form.addEventListener("submit", (event) => (event.preventDefault(), send()));
  form.addEventListener("invalid", () => (byId("settings").open = true), true); // or nobody sees what is wrong
  question.addEventListener("keydown", sendOnEnter);
  byId("settings").addEventListener("toggle", toEnd);
  byId("ideas").addEventListener("click", (event) => event.target.type === "button" && ask(event.target.textContent));
  byId("stop").addEventListener("click", stop);
  byId("new").addEventListener("click", clear);
  addEventListener("pagehide", () => (stop(), keep()));
  toEnd();
}

function sendOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
}

function send() {
  const text = question.value.trim();
  if (working || !text) return;
  question.value = "";
  ask(text);
}

function ask(text) {
  add({ question: text, answer: "", note: "", error: "" });
  work();
}

function again() {
  const last = turns.at(-1);
  Object.assign(last, { answer: "", note: "", error: "" });
  work();
}

function stop() {
  if (!working) return;
  turns.at(-1).note = "stopped";
  working.abort();
}

function clear() {
  stop();
  for (const turn of turns) turn.view.root.remove();
  turns = [];
  log.classList.remove("begun");
  keep();
  question.focus();
}

function add(turn) {
  turn.view = new TurnView(turn, again);
  turns.push(turn);
  log.classList.add("begun");
  log.append(turn.view.root);
}

/** Have the last turn answered. */
async function work() {
  const turn = turns.at(-1), own = new AbortController(), speed = new Speed();
  busy(own);
  toEnd();
  keep();
  try {
    await models.have();
    for await (const chunk of answer(request(), own.signal)) take(turn, chunk, speed);
    turn.note = speed.words();
  } catch (error) {
    if (!own.signal.aborted) turn.error = error instanceof ApiError ? error.message : `This page failed: ${error}`;
  }
  if (working !== own) return; // another chat has begun
  busy(null);
  turn.view.draw();
  keep();
}

function take(turn, chunk, speed) {
  const choice = chunk.choices[0];
  if (choice?.delta.content) {
    turn.answer += choice.delta.content;
    speed.count();
    turn.view.drawSoon();
  }
  speed.take(chunk.usage, choice?.finish_reason);
}

/** What the model is to answer: of earlier turns, those that were. */
function request() {
  const system = byId("system").value.trim(), most = byId("max-tokens").valueAsNumber;
  const earlier = turns.slice(0, -1).filter((turn) => turn.answer).flatMap((turn) => [
    { role: "user", content: turn.question },
    { role: "assistant", content: turn.answer },
  ]);
  return {
    model: byId("model").value,
    temperature: byId("temperature").valueAsNumber,
    messages: [
      ...(system ? [{ role: "system", content: system }] : []),
      ...earlier,
      { role: "user", content: turns.at(-1).question },
    ],
    ...(Number.isNaN(most) ? {} : { max_completion_tokens: most }),
  };
}

function busy(controller) {
  working = controller;
  log.setAttribute("aria-busy", String(controller !== null)); // read out when it is whole
  byId("send").hidden = controller !== null;
  byId("stop").hidden = controller === null;
}

function keep() {
  const fields = Object.fromEntries(FIELDS.map((name) => [name, byId(name).value]));
  const plain = turns.map(({ question, answer, note, error }) => ({ question, answer, note, error }));
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ model: byId("model").value, fields, turns: plain }));
  } catch {
    byId("trouble").textContent = "This conversation has become too long to be kept over a reload.";
  }
}

function restore() {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if (!kept) return;
  byId("model").dataset.wanted = kept.model;
  for (const name of FIELDS) byId(name).value = kept.fields[name];
  for (const turn of kept.turns) add(turn);
}
