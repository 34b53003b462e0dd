import { h } from "preact";
import type { VNode } from "preact";
import type { CommandState } from "../app";

/** What a control's command waits for or was refused for, at that control. */
export const Note = ({ of: { note, error } }: { of: CommandState }): VNode | null =>
  note ? (
    <p class={error ? "cn-error" : "cn-note"} role={error ? "alert" : "status"}>
      {note}
    </p>
  ) : null;
