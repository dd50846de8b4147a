/** Reads one line of a file in a checkout, which may contain anything. */
import { constants, open, realpath } from "node:fs/promises";
import { join } from "node:path";

/** Bytes. People do not edit larger files. */
const largest = 1_000_000;

/** Returns `undefined` if there is no such line in a regular file of exactly this path. */
export async function readLine(root: string, path: string, line: number): Promise<string | undefined> {
  const file = join(root, path);
  const real = await realpath(file).catch(() => undefined);
  // A link could lead out of the checkout, or to a file with another path.
  if (real === undefined || real !== join(await realpath(root), path)) return undefined;
  const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const info = await handle.stat();
    if (!info.isFile() || info.size > largest) return undefined;
    return (await handle.readFile("utf8")).split(/\r?\n/)[line - 1];
  } finally {
    await handle.close();
  }
}
