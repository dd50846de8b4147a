/** Puts published programs into the cache, once for all checkouts of this machine. */
import { access, chmod, constants, mkdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { extract } from "tar";
import { cacheDir } from "../cache.ts";
import { createStateDir } from "../parts/state-dir.ts";
import type { Part } from "../progress.ts";
import { withLock } from "../tool-build.ts";
import { download } from "./download.ts";
import type { Release } from "./releases.ts";

interface ObtainOptions {
  readonly say: (line: string) => void;
  readonly part: Part;
  readonly env: NodeJS.ProcessEnv;
}

function pathOf(name: string, { version, sha256 }: Release): string {
  // With the checksum in its name, a program is never taken for another one.
  return join(cacheDir(), "tools", `${name}-${version}-${sha256.slice(0, 12)}`, name);
}

export async function findDownloaded(name: string, release: Release): Promise<string | undefined> {
  const path = pathOf(name, release);
  return access(path, constants.X_OK).then(
    () => path,
    () => undefined,
  );
}

/** Throws if it cannot be had, or is not what its checksum says; the message says which. */
export async function downloadTool(name: string, release: Release, { say, part, env }: ObtainOptions): Promise<string> {
  const title = `${name} ${release.version}`;
  return withLock(join(cacheDir(), "locks", `download-${title.replaceAll(" ", "-")}`), title, say, async () => {
    const path = pathOf(name, release);
    if ((await findDownloaded(name, release)) !== undefined) return path;
    const folder = join(path, "..");
    await mkdir(folder, { recursive: true });
    const file = join(folder, `${basename(new URL(release.url).pathname)}.download`);
    part.begin({ doing: "downloading", title });
    await download({ title, url: release.url, sha256: release.sha256, path: file, say, onProgress: part.update, env });
    if (release.member === undefined) await place(file, path);
    else await unpack(file, release.member, path);
    await rm(file, { force: true });
    return path;
  });
}

async function unpack(archive: string, member: string, path: string): Promise<void> {
  const work = await createStateDir(join(cacheDir(), "work"));
  try {
    await extract({ file: archive, cwd: work.path, filter: (entry) => entry === member || entry === `./${member}` });
    await place(join(work.path, member), path).catch((cause: unknown) => {
      throw new Error(`its archive has no file ${member}`, { cause });
    });
  } finally {
    await work.remove();
  }
}

/** The program appears at once, complete and executable. */
async function place(file: string, path: string): Promise<void> {
  await chmod(file, 0o755);
  await rename(file, path);
}
