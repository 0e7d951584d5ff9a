// Elements from code. Text only ever becomes text nodes: what a model or a user wrote is never read as HTML.

export const byId = (id) => document.getElementById(id);

/** An element with properties, and children that are elements or text. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A button that does something. */
export const button = (text, className, onclick) => element("button", { type: "button", className, onclick }, text);
