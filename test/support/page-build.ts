/** The page as a browser gets it, built from the sources as they are, and a server that has it. */
import { copyFile, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "vite";
import { useBrowserPage } from "./chromium.ts";
import { pageToken } from "./page.ts";
import { type Towline, useTowline } from "./towline.ts";
import type { TestWorld } from "./world.ts";

const root = join(import.meta.dirname, "../..");

/** Puts it where the server looks for it. Tests may do so side by side: each file is there, whole, from the first one on. */
export async function buildPage(): Promise<void> {
  const dist = join(root, "dist");
  await mkdir(dist, { recursive: true });
  const outDir = await mkdtemp(join(dist, "ui-"));
  try {
    await build({ configFile: join(root, "vite.config.ts"), logLevel: "warn", build: { outDir } });
    const found = await readdir(outDir, { recursive: true, withFileTypes: true });
    const files = found.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    // The page itself last: it names the others.
    for (const file of files.toSorted((one) => (one.endsWith("index.html") ? 1 : -1))) {
      const target = join(dist, "ui", file.slice(outDir.length));
      await mkdir(dirname(target), { recursive: true });
      await copyFile(file, `${target}.${process.pid}`);
      await rename(`${target}.${process.pid}`, target);
    }
  } finally {
    await rm(outDir, { recursive: true, force: true });
  }
}

export type PageServer = Towline & { readonly pageUrl: string };

/** A server with the page; whoever has its token gets in. */
export async function usePageServer(world: TestWorld, extra: Record<string, string> = {}): Promise<PageServer> {
  await buildPage();
  const ui = { TOWLINE_UI_HOST: "127.0.0.1", TOWLINE_UI_PORT: "0", TOWLINE_UI_TOKEN: pageToken };
  const server = await useTowline(world, { ...ui, ...extra });
  return { ...server, pageUrl: server.pageUrl ?? "" };
}

/** A browser at a place of the page, of somebody who has just logged in with the token. */
export async function openPage({ pageUrl }: PageServer, place = "") {
  const opened = await useBrowserPage();
  await opened.page.goto(pageUrl + place);
  await opened.page.getByLabel("Token of the page").fill(pageToken);
  await opened.page.keyboard.press("Enter");
  return opened;
}
