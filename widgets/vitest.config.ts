import { defineConfig } from "vitest/config";
import { lexerOnly } from "./marked_lexer.mjs";

export default defineConfig({
  esbuild: { jsx: "transform", jsxFactory: "h", jsxFragment: "Fragment" },
  // The tests read markdown with what the bundle reads it with.
  plugins: [{ name: "marked-lexer-only", enforce: "pre", transform: (code, id) => (/marked\.esm\.js/.test(id) ? lexerOnly(code) : null) }],
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"], server: { deps: { inline: ["marked"] } } },
});
