// ?scenario=NAME&theme=dark&extras=0&silent=1
import widget from "/static/widget.js";
import { FakeKernel } from "./fake_kernel.js";
import { scenarios } from "./scenarios.js";

const query = new URLSearchParams(location.search);
document.body.dataset.jpThemeLight = String(query.get("theme") !== "dark");
if (query.get("dir")) document.documentElement.dir = query.get("dir");
const { snapshot, script } = scenarios[query.get("scenario") ?? "empty"];
const extras = {};
if (query.get("extras") !== "0") {
  for (const name of ["code", "footnotes", "form", "lang-ar", "markup", "math", "mentions", "tools"]) {
    const answer = await fetch(`/static/extra-${name}.js`);
    if (answer.ok) extras[name] = await answer.text();
  }
}
if (query.get("locale")) snapshot.options = { ...snapshot.options, locale: query.get("locale") };
const kernel = new FakeKernel(snapshot, { script, extras });
kernel.isSilent = query.get("silent") === "1";
window.kernel = kernel;
window.close_view = widget.render({ model: kernel, el: document.getElementById("view") });
