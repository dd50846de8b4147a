import { randomUUID } from "node:crypto";
import { link, rm, writeFile } from "node:fs/promises";

/**
 * Writes a file that nobody else has written yet, for its owner alone. Whoever finds it finds all of it, and of several
 * that write at once the first counts, be they processes that know nothing of each other.
 */
export async function writeOnce(file: string, content: string | Buffer): Promise<void> {
  const unfinished = `${file}.${randomUUID()}`;
  try {
    await writeFile(unfinished, content, { mode: 0o600, flag: "wx" });
    await link(unfinished, file);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    await rm(unfinished, { force: true });
  }
}
