/** The files of a branch on their way to a runner. Whatever is in them is data: nothing here follows a link. */
import { createHash } from "node:crypto";
import { Stats } from "node:fs";
import { mkdir, readdir, readlink, realpath, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { Readable } from "node:stream";
import { deflateSync } from "node:zlib";
import { create } from "tar";
import { untar, type UntarLimits } from "../untar.ts";

interface Link {
  /** Below the slot. */
  readonly path: string;
  /** As it is in the branch, wherever that leads. */
  readonly target: string;
}

/** Of what a branch may bring, and a bit for the archive's own. */
const slotLimits: UntarLimits = { bytes: 1024 ** 3, entries: 400_000 };

export async function findLinks(slot: string): Promise<Link[]> {
  const links: Link[] = [];
  const pending = [slot];
  for (let dir = pending.pop(); dir !== undefined; dir = pending.pop()) {
    for (const entry of await readdir(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name);
      if (entry.isSymbolicLink()) links.push({ path: relative(slot, path), target: await readlink(path) });
      else if (entry.isDirectory() && entry.name !== ".git") pending.push(path);
    }
  }
  return links;
}

/** Files and directories alone. git's own stay here: they hold the history of every branch. */
export function packSlot(slot: string): Readable {
  const isPacked = (path: string, entry: object) =>
    !path.split("/").includes(".git") && entry instanceof Stats && (entry.isFile() || entry.isDirectory());
  const archive = create({ cwd: slot, portable: true, noMtime: true, strict: true, filter: isPacked }, ["."]);
  return Readable.from(archive as unknown as AsyncIterable<Buffer>, { objectMode: false });
}

/** `root`: of the clone, below the slot. Links come last, so that nothing is ever written through one. */
export async function unpackSlot(
  archive: Readable,
  { slot, root: clone, links }: { slot: string; root: string; links: readonly Link[] },
  signal: AbortSignal,
): Promise<void> {
  await untar(archive, slot, slotLimits, signal);
  await writeRepository(join(slot, clone));
  const root = await realpath(slot);
  for (const { path, target } of links) {
    const place = join(root, path);
    const parent = await realpath(dirname(place));
    if (parent !== dirname(place) || !place.startsWith(root + sep)) throw new Error("a link is not in the slot");
    await symlink(target, place);
  }
}

/**
 * kluctl finds the root of a project by its `.git`, and asks for the commit and what is changed. It gets a repository with
 * one empty commit.
 */
async function writeRepository(root: string): Promise<void> {
  const git = join(root, ".git");
  await mkdir(join(git, "refs", "heads"), { recursive: true });
  const tree = await writeObject(git, "tree", "");
  const somebody = "Towline <towline@localhost> 0 +0000";
  const commit = await writeObject(
    git,
    "commit",
    `tree ${tree}\nauthor ${somebody}\ncommitter ${somebody}\n\nA preview\n`,
  );
  await writeFile(join(git, "HEAD"), `${commit}\n`);
  await writeFile(join(git, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n");
}

async function writeObject(git: string, type: string, content: string): Promise<string> {
  const bytes = Buffer.from(`${type} ${Buffer.byteLength(content)}\0${content}`);
  const hash = createHash("sha1").update(bytes).digest("hex");
  const dir = join(git, "objects", hash.slice(0, 2));
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, hash.slice(2)), deflateSync(bytes));
  return hash;
}
