// Answers as elements: paragraphs as they were written, and code between fences.
import { element } from "./dom.js";

const OPENS = /^ {0,3}```[^`]*$/, CLOSES = /^ {0,3}```\s*$/;

/** A text's pieces, `{ code, text }`; a fence that isn't closed yet goes on to the end. */
export function pieces(text) {
  const found = [{ code: false, lines: [] }];
  for (const line of text.split("\n")) {
    const last = found.at(-1);
    if ((last.code ? CLOSES : OPENS).test(line)) found.push({ code: !last.code, lines: [] });
    else last.lines.push(line);
  }
  const all = found.map(({ code, lines }) => ({ code, text: code ? lines.join("\n") : lines.join("\n").trim() }));
  return all.filter(({ code, text }) => code || text);
}

/** Make `target` show `text`. What was there already stays, so that a selection in it does too. */
export function show(target, text) {
  const wanted = pieces(text);
  wanted.forEach(({ code, text }, index) => {
    const name = code ? "PRE" : "P";
    const there = target.children[index];
    if (there?.tagName === name) update(there, text);
    else replace(target, index, element(name, code ? { tabIndex: 0 } : {}, text));
  });
  while (target.children.length > wanted.length) target.lastElementChild.remove();
}

function update(element, text) {
  const node = element.firstChild;
  if (text.startsWith(node.data)) node.appendData(text.slice(node.length));
  else node.data = text;
}

function replace(target, index, made) {
  while (target.children.length > index) target.lastElementChild.remove();
  target.append(made);
}
