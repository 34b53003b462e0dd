import { h, render } from "preact";
import type { App, Ui } from "./app";
import { Assets } from "./assets";
import { Box } from "./box";
import { Panel } from "./components/Panel";
import { Connection } from "./connection";
import { Draft } from "./draft";
import { Extras } from "./extras";
import type { ExtraModules } from "./extras";
import { frameScheduler } from "./frames";
import { isolate, keepFocus } from "./keys";
import { Sending } from "./sending";
import { Speaker } from "./speak";
import { Store } from "./store";
import { setLanguage, t } from "./strings";
import { followTheme, isHostDark } from "./theme";
import type { Transport } from "./transport";

const SAVED_MESSAGES = 50;
const SAVED_BYTES = 1024 * 1024;

/** Each view of a chat has a draft of its own; a reload draws them again in the same order. */
function draftKey(root: HTMLElement, chatId: string): string {
  while (document.querySelector(`[data-draft="${CSS.escape(chatId)}"]`)) chatId += "+";
  return (root.dataset.draft = chatId);
}

/** Draws one view into `element`. Returns the function that takes it away again. */
export function show(transport: Transport, element: HTMLElement): () => void {
  const root = document.createElement("div");
  root.className = "chatnb-view";
  const panel = document.createElement("div");
  panel.className = "cn-panel";
  const region = document.createElement("div");
  region.className = "cn-hidden";
  region.setAttribute("aria-live", "polite");
  region.setAttribute("role", "status");
  root.append(panel, region);

  const store = new Store();
  store.setOptions(transport.options());
  const saved = transport.saved();
  if (saved) store.reset({ ...saved, options: { ...saved.options, ...store.options } as typeof saved.options });
  store.schedule = frameScheduler();
  const locale = (): string => store.options.locale || document.documentElement.lang || "en";
  setLanguage(locale());

  const assets = new Assets();
  const connection = new Connection(transport, store, assets, () => ({ locale: locale(), dark: isHostDark(), canInsert: transport.insertCell !== undefined }));
  const extras = new Extras(connection, assets, store);
  const draft = new Draft();
  const box = new Box(store, draft);
  const ui: Ui = { outgoing: [], isExpecting: false, inputError: "", failure: "" };
  const app: App = {
    root,
    transport,
    store,
    connection,
    assets,
    extras,
    ui,
    send: (text, files) => sending.send(text, files),
    stop: () => {
      tools?.abort();
      sending.stop();
    },
    runTool: (call) => {
      void extras.load("tools").then((extra) => {
        tools ??= extra?.create(connection, store) ?? null;
        void tools?.run(call);
      });
    },
    jump: () => undefined,
    putBack: (text, files) => box.putBack(text, files),
    fail: (error) => {
      console.error(error);
      ui.failure = error instanceof Error ? error.message : String(error);
      store.mark("ui", "panel");
    },
  };
  const sending = new Sending(app);
  let tools: ReturnType<ExtraModules["tools"]["create"]> | null = null;
  connection.onRun = app.runTool;
  const speaker = new Speaker(region, store);
  const theme = followTheme(root, () => store.options.theme);
  const marks = (): void => {
    root.dataset.status = store.state.status ?? "ready";
    root.dataset.connection = connection.phase === "gone" ? "gone" : store.state.closed ? "readonly" : connection.phase;
    const height = store.options.height ?? "560px";
    root.style.height = height === "auto" ? "" : height;
    root.dataset.height = height === "auto" ? "auto" : "fixed";
    theme.update();
  };
  const users = new Set<string>();
  let wasRunning = false;
  const update = (): void => {
    marks();
    // What was typed before the chat was known stands after the draft, and is kept from now on.
    if (store.options.chatId && !root.dataset.draft) box.putBack(draft.open(draftKey(root, store.options.chatId)));
    let fresh = 0;
    for (const id of store.order.slice(-20)) {
      const item = store.entries.get(id);
      if (item?.role === "user" && !users.has(item.id)) {
        users.add(item.id);
        fresh += 1;
      }
    }
    if (known) sending.shown(fresh);
    sending.arrived(store.queue.map((item) => item.commandId));
    for (const notice of store.notices.values()) {
      for (const action of notice.actions ?? []) if (action.kind === "restoreText" && action.commandId) sending.restore(action.commandId);
    }
    if (store.isRunning || (wasRunning && !store.isRunning) || store.queue.length > 0) sending.heard();
    wasRunning = store.isRunning;
    if (known) speaker.update();
    else if (connection.wasLive) {
      known = true;
      speaker.reset();
    }
  };
  let known = false;
  const save = (): void => {
    for (let newest = SAVED_MESSAGES; newest > 0; newest = Math.floor(newest / 2)) {
      const snapshot = store.snapshot(newest);
      if (JSON.stringify(snapshot).length <= SAVED_BYTES) {
        transport.save(JSON.parse(JSON.stringify(snapshot)));
        return;
      }
    }
  };

  const ends = [
    store.subscribe("any", update),
    transport.onOptions((options) => {
      store.setOptions(options);
    }),
    isolate(root),
    keepFocus(root),
  ];
  let spoken = "en";
  const draw = (): void => render(h(Panel, { app, box, language: spoken }), panel);
  const speak = (): void => {
    const tag = locale();
    const language = tag.split(/[-_]/)[0]?.toLowerCase() ?? "";
    if (language === spoken) return;
    spoken = language;
    void extras.load(`lang-${language}`).then((extra) => {
      if (!extra || spoken !== language) return;
      setLanguage(tag, extra.strings);
      root.dir = extra.dir;
      draw();
    });
  };
  connection.onChange = () => {
    if (connection.isOpen) {
      extras.open();
      speak();
    }
    store.mark("panel", "list", "ui", ...store.order);
  };
  connection.onTurnEnd = save;
  connection.onInsertCell = (frame) => {
    void (transport.insertCell?.(frame.source, frame.kind, frame.position) ?? Promise.resolve(false)).then((ok) =>
      connection.command("cellInserted", { ok }, { id: frame.id }).catch(() => undefined),
    );
  };
  extras.onRefused = () => {
    store.notices.set("chatnb.extras", { id: "chatnb.extras", level: "info", text: t("noExtras") });
    store.mark("panel");
  };

  element.append(root);
  marks();
  try {
    draw();
    connection.start();
  } catch (error) {
    root.textContent = t("broken", error instanceof Error ? error.message : String(error));
    console.error(error);
  }
  return () => {
    connection.stop();
    for (const end of ends) end();
    theme.end();
    render(null, panel);
    root.remove();
  };
}
