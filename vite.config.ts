import { defineConfig } from "vite";

/** The page: into `dist/ui`, from where the server gives it out. Nothing inline, as its policy allows no such thing. */
export default defineConfig({
  root: "ui",
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { outDir: "../dist/ui", emptyOutDir: true, assetsInlineLimit: 0, modulePreload: false, target: "es2022" },
});
