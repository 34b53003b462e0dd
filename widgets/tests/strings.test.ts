import { describe, expect, it } from "vitest";
import * as ar from "../src/extras/lang-ar";
import { ENGLISH } from "../src/strings";

const places = (text: string): string => [...text.matchAll(/\{\d\}/g)].map(String).sort().join();

describe("languages", () => {
  it.each([["ar", ar]])("widget.md section 6: %s has every text, with the same places", (_, { strings }) => {
    const wrong = Object.entries(ENGLISH).filter(([key, text]) => key !== "inObjects" && places(strings[key as keyof typeof ENGLISH] ?? "none {9}") !== places(text));
    expect(wrong.map(([key]) => key)).toEqual([]);
  });
});
