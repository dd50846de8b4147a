/** Packs this machine's kluctl like one of its releases. */
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGzip } from "node:zlib";

const run = promisify(execFile);

/** The name that kluctl's releases, Debian and Docker use. */
export type Architecture = "amd64" | "arm64";

export const ownArchitecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";

export interface Release {
  readonly version: string;
  readonly architecture: Architecture;
  /** File name in the directory. */
  readonly archive: string;
  readonly sha256: string;
}

export async function packRelease(kluctl: string, dir: string, architecture = ownArchitecture): Promise<Release> {
  const { stdout } = await run(kluctl, ["version", "--no-update-check"]);
  const version = /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "";
  const archive = `kluctl_v${version}_linux_${architecture}.tar.gz`;
  await mkdir(dir, { recursive: true });
  const tar = spawn("tar", ["--create", "--file=-", "--transform=s/.*/kluctl/", "--directory=/", kluctl.slice(1)]);
  const hash = createHash("sha256");
  const packed = createGzip({ level: 0 }).on("data", (chunk: Buffer) => void hash.update(chunk));
  await pipeline(tar.stdout, packed, createWriteStream(join(dir, archive)));
  return { version, architecture, archive, sha256: hash.digest("hex") };
}

/** Returns the Dockerfile's build arguments for the release. */
export function toBuildArgs({ version, architecture, sha256 }: Release): Record<string, string> {
  return { KLUCTL_VERSION: version, [`KLUCTL_SHA256_${architecture.toUpperCase()}`]: sha256 };
}
