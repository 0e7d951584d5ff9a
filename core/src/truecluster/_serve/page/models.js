// The models that can be asked, in the page's list of them.
import * as api from "./api.js";
import { button, byId, element } from "./dom.js";

const select = byId("model"), trouble = byId("trouble");

/** Have a model to ask: load the list where it isn't there yet. Throws ApiError. */
export async function have() {
  if (select.value) return;
  const names = await api.models();
  const wanted = select.dataset.wanted;
  select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  if (names.includes(wanted)) select.value = wanted;
  trouble.replaceChildren();
}

/** As `have`; what fails is told on the page, with what helps. */
export async function tryToHave() {
  try {
    await have();
  } catch (error) {
    const withKey = () => api.obtainKey().then((given) => given && tryToHave());
    const help = error.status === 401 ? button("Give the key", "quiet", withKey) : button("Try again", "quiet", tryToHave);
    trouble.replaceChildren(error.message, " ", help);
  }
}
