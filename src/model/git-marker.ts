/**
 * The smallest possible git repository. kluctl takes the nearest parent directory with a `.git` as the project's root
 * and reads its newest commit: names of deployment items are relative to that root. Without one, they would be relative
 * to the project.
 */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";

/** Turns a directory without `.git` into a repository. */
export async function markRoot(root: string): Promise<void> {
  const git = join(root, ".git");
  const tree = gitObject("tree", "");
  const nobody = "nobody <nobody@localhost> 0 +0000";
  const commit = gitObject("commit", `tree ${tree.id}\nauthor ${nobody}\ncommitter ${nobody}\n\nArtifact\n`);
  await mkdir(join(git, "refs"), { recursive: true });
  await Promise.all([
    writeFile(join(git, "HEAD"), `${commit.id}\n`),
    writeFile(join(git, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"),
    ...[tree, commit].map(async ({ id, bytes }) => {
      const folder = join(git, "objects", id.slice(0, 2));
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, id.slice(2)), bytes);
    }),
  ]);
}

function gitObject(type: string, content: string): { readonly id: string; readonly bytes: Buffer } {
  const whole = Buffer.from(`${type} ${Buffer.byteLength(content)}\0${content}`);
  return { id: createHash("sha1").update(whole).digest("hex"), bytes: deflateSync(whole) };
}
