import { defineConfig } from "vitest/config";

export default defineConfig({
  esbuild: { jsx: "transform", jsxFactory: "h", jsxFragment: "Fragment" },
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"] },
});
