import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Assets } from "./assets";
import type { Connection } from "./connection";
import type { Extras } from "./extras";
import { CommandError } from "./outbox";
import type { CommandOptions } from "./outbox";
import type { CommandType, JsonObject } from "./parts";
import type { Key, Store } from "./store";
import { t } from "./strings";
import type { RunFrame } from "./protocol";
import type { Transport } from "./transport";

export type ToolCall = Pick<RunFrame, "toolCallId" | "name" | "input">;

/** All that a component of one view may need. */
export interface App {
  root: HTMLElement;
  transport: Transport;
  store: Store;
  connection: Connection;
  assets: Assets;
  extras: Extras;
  /** Page-only state that several components share. */
  ui: Ui;
  /** Sends a message as this view's own; what is refused comes back into the box. */
  send: (text: string, files: File[]) => void;
  stop: () => void;
  /** Runs a `js` client tool in this view. */
  runTool: (call: ToolCall) => void;
  jump: () => void;
  /** Puts a text into the box, before what is being written there. */
  putBack: (text: string, files?: File[]) => void;
  /** Shows an exception of the page in the panel. */
  fail: (error: unknown) => void;
}

export interface Outgoing {
  id: string;
  text: string;
  files: File[];
}

/** State of the page that no kernel knows. */
export interface Ui {
  outgoing: Outgoing[];
  /** An own message is on its way or its turn has not been heard of yet: Stop is shown. */
  isExpecting: boolean;
  inputError: string;
  failure: string;
}

export const AppContext = createContext<App>(undefined as unknown as App);
export const AppProvider = AppContext.Provider;
export const useApp = (): App => useContext(AppContext);

/** Draws a component again when one of the keys of the store changes. */
export function useStore(...keys: Key[]): App {
  const app = useApp();
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  // Before paint: no change between drawing and subscribing is missed.
  useLayoutEffect(() => {
    const ends = keys.map((key) => app.store.subscribe(key, () => redraw(undefined as never)));
    return () => ends.forEach((end) => end());
  }, [app, keys.join("\n")]);
  return app;
}

export interface CommandState {
  /** On its way, or there is nobody to take it. */
  isBusy: boolean;
  /** Text for the control: why it waits, or what went wrong. */
  note: string;
  error: CommandError | null;
  run: (type: CommandType, fields?: JsonObject, options?: CommandOptions) => Promise<JsonObject | null>;
}

/** One control's command: it is off while it is on its way, and errors show where they were caused. */
export function useCommand(): CommandState {
  const { connection } = useApp();
  const [state, setState] = useState<{ isBusy: boolean; isWaiting: boolean; error: CommandError | null }>({
    isBusy: false,
    isWaiting: false,
    error: null,
  });
  const isMounted = useRef(true);
  useEffect(() => () => void (isMounted.current = false), []);
  const update: typeof setState = (next) => {
    if (isMounted.current) setState(next);
  };
  const run: CommandState["run"] = async (type, fields, options) => {
    update({ isBusy: true, isWaiting: false, error: null });
    try {
      const onWaiting = (isWaiting: boolean): void => update((old) => ({ ...old, isWaiting }));
      const result = await connection.command(type, fields, { ...options, onWaiting });
      update({ isBusy: false, isWaiting: false, error: null });
      return result;
    } catch (error) {
      const known = error instanceof CommandError ? error : new CommandError("failed", String(error));
      update({ isBusy: false, isWaiting: false, error: known });
      return null;
    }
  };
  return { isBusy: state.isBusy || !connection.isOpen, note: state.error?.message || (state.isWaiting ? t("busy") : ""), error: state.error, run };
}

/** Whether anything but reading is possible. */
export function useIsOff(): boolean {
  const { connection, store } = useStore("panel");
  return !connection.isOpen || store.state.closed !== null;
}
