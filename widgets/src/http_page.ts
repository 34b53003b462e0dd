import type { AnyModel } from "./anywidget";
import { httpModel } from "./http_transport";
import { randomId } from "./ids";

interface Widget {
  render(given: { model: AnyModel; el: HTMLElement }): () => void;
}

/** The served page: the panel of the notebook, with the chat that the address names. */
async function start(): Promise<void> {
  const address = new URL(location.href);
  let chat = address.searchParams.get("chat");
  if (!chat) {
    chat = `web-${randomId().slice(0, 12)}`;
    address.searchParams.set("chat", chat);
    history.replaceState(null, "", address);
  }
  const widget = (await import(/* @vite-ignore */ new URL("/panel/widget.js", location.href).href)) as { default: Widget };
  const el = document.getElementById("panel");
  if (!el) throw new Error("the page has no place for the panel");
  widget.default.render({ model: httpModel(chat, randomId() + randomId()), el });
}

void start();
