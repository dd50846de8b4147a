/** Writes an image with one layer in the format of `docker save`, for containerd to import. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

export interface ImageContent {
  readonly name: string;
  /** The directory that becomes the image's `/`. */
  readonly root: string;
  /** As in a container's configuration: Entrypoint, Env, User, … */
  readonly config: object;
}

const run = promisify(execFile);

export async function writeImageArchive(path: string, { name, root, config }: ImageContent): Promise<void> {
  const dir = await mkdtemp(join(dirname(path), "image-"));
  try {
    const layer = join(dir, "layer.tar");
    await run("tar", ["--create", "--numeric-owner", `--file=${layer}`, `--directory=${root}`, "."]);
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(layer)) hash.update(chunk as Buffer);
    const image = {
      architecture: process.arch === "arm64" ? "arm64" : "amd64",
      os: "linux",
      config,
      rootfs: { type: "layers", diff_ids: [`sha256:${hash.digest("hex")}`] },
    };
    await writeFile(join(dir, "config.json"), JSON.stringify(image));
    const manifest = [{ Config: "config.json", RepoTags: [name], Layers: ["layer.tar"] }];
    await writeFile(join(dir, "manifest.json"), JSON.stringify(manifest));
    await run("tar", ["--create", `--file=${path}`, `--directory=${dir}`, "manifest.json", "config.json", "layer.tar"]);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
