/** Builds the page from the current sources, for a server that runs from sources. */
import { copyFile, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "vite";

const root = join(import.meta.dirname, "..");

/**
 * Puts the page where the server expects it. Concurrent runs are safe: from the first one on, each file exists and is
 * complete.
 */
export async function buildPage(): Promise<void> {
  const dist = join(root, "dist");
  await mkdir(dist, { recursive: true });
  const outDir = await mkdtemp(join(dist, "ui-"));
  try {
    await build({ configFile: join(root, "vite.config.ts"), logLevel: "warn", build: { outDir } });
    const found = await readdir(outDir, { recursive: true, withFileTypes: true });
    const files = found.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    // The HTML comes last, because it refers to the other files.
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
