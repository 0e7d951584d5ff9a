// The page: its parts, and what is there beside them.
import { askWith } from "./api.js";
import * as chat from "./chat.js";
import * as cluster from "./cluster.js";
import { byId } from "./dom.js";
import * as models from "./models.js";

const wide = matchMedia("(min-width: 60rem)");

askWith(askForKey);
chat.start();
cluster.start();
byId("status").addEventListener("click", () => showCluster(byId("cluster").hidden));
wide.addEventListener("change", () => showCluster(wide.matches));
showCluster(wide.matches);
models.tryToHave();

function showCluster(shown) {
  byId("cluster").hidden = !shown;
  document.body.classList.toggle("looks-at-cluster", shown);
  byId("status").setAttribute("aria-expanded", String(shown));
}

/** A key, or null where whoever is asked has none. */
function askForKey(wasRefused) {
  const dialog = byId("key-dialog"), field = byId("key");
  let given = null;
  byId("key-words").textContent = wasRefused ? "It didn't take the key that it was given." : "";
  field.value = "";
  byId("key-cancel").onclick = () => dialog.close();
  byId("key-form").onsubmit = () => (given = field.value);
  dialog.showModal();
  return new Promise((resolve) => (dialog.onclose = () => resolve(given)));
}
