import type { AssetRef, Command, Cut, Json } from "./protocol";

export type JsonObject = Record<string, Json>;
export type CommandType = Command["type"];

/** One part of a message, in the view's form. `type` decides which of the fields are there (spec/messages.md, section 2). */
export interface Part {
  type: string;
  id?: string;
  text?: string | AssetRef;
  cut?: Cut;
  state?: string;
  url?: string | AssetRef;
  mediaType?: string;
  filename?: string;
  title?: string;
  sourceId?: string;
  data?: Json;
  toolCallId?: string;
  toolName?: string;
  toolMetadata?: JsonObject;
  input?: Json;
  rawInput?: Json;
  output?: Json;
  errorText?: string;
  approval?: { id: string; approved?: boolean; reason?: string; requestReason?: string };
  preliminary?: boolean;
  parts?: Part[];
}

export const isAsset = (value: unknown): value is AssetRef =>
  typeof value === "object" && value !== null && "asset" in value && "bytes" in value;

export const isCall = (part: Part): boolean => part.type === "dynamic-tool" || part.type.startsWith("tool-");

export const callName = (part: Part): string => (part.type === "dynamic-tool" ? (part.toolName ?? "") : part.type.slice(5));

/** The text of a message as a person would copy it: its text parts, as markdown. */
export const textOf = (parts: Part[]): string =>
  parts
    .filter((part) => part.type === "text" && typeof part.text === "string")
    .map((part) => part.text as string)
    .join("\n\n");
