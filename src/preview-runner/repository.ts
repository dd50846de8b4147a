/** Makes the files at the runner look like a git repository to kluctl. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";

/**
 * Creates a repository with one empty commit: kluctl finds the root of a project by its `.git`, and reads the commit
 * and the changed files.
 */
export async function writeRepository(root: string): Promise<void> {
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
