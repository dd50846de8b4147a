/**
 * What this machine has in place of what an image is built from elsewhere: its own Node, npm with what it has downloaded
 * already, and a kluctl that is packed as a release is. So nothing is asked of the network for them.
 */
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGzip } from "node:zlib";
import type { FollowOptions } from "./follow.ts";

const run = promisify(execFile);

export type LocalBase = Pick<FollowOptions, "layer" | "lent" | "kept" | "env" | "buildArgs" | "instead">;

export interface LocalBaseOptions {
  /** Empty. */
  readonly dir: string;
  readonly kluctl: string;
  /** Commands in place of those of the base, by path. */
  readonly standIns?: Readonly<Record<string, string>>;
}

/** Takes the file that is asked for from where the release is lent. */
const curl = `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --output) shift; output=$1 ;;
    http*) url=$1 ;;
  esac
  shift
done
cp "/lent/release/$(basename "$url")" "$output"
`;

const npm = `#!/bin/sh
exec node /lent/npm/bin/npm-cli.js "$@"
`;

export async function createLocalBase({ dir, kluctl, standIns }: LocalBaseOptions): Promise<LocalBase> {
  const [layer, release] = [join(dir, "layer"), join(dir, "release")];
  const programs = { "usr/local/bin/npm": npm, "usr/local/bin/curl": curl, "usr/local/bin/node": "", ...standIns };
  for (const [path, text] of Object.entries(programs)) {
    await mkdir(dirname(join(layer, path)), { recursive: true });
    await writeFile(join(layer, path), text, { mode: 0o755 });
  }
  for (const name of ["npm", "npm-cache", "node_modules", "release", "examples"])
    await mkdir(join(layer, "lent", name), { recursive: true });

  await mkdir(join(layer, "etc/ssh"), { recursive: true });

  const { stdout } = await run(kluctl, ["version", "--no-update-check"]);
  const version = /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "";
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  await mkdir(release, { recursive: true });
  const archive = join(release, `kluctl_v${version}_linux_${architecture}.tar.gz`);
  const tar = spawn("tar", ["--create", "--file=-", "--transform=s/.*/kluctl/", "--directory=/", kluctl.slice(1)]);
  const hash = createHash("sha256");
  const packed = createGzip({ level: 0 }).on("data", (chunk: Buffer) => void hash.update(chunk));
  await pipeline(tar.stdout, packed, createWriteStream(archive));
  const sha256 = hash.digest("hex");

  return {
    layer,
    kept: { "/usr/local/bin/node": process.execPath, "/lent/examples": join(import.meta.dirname, "../../examples") },
    lent: {
      "/lent/npm": dirname(dirname(await realpath((await run("which", ["npm"])).stdout.trim()))),
      "/lent/npm-cache": (await run("npm", ["config", "get", "cache"])).stdout.trim(),
      "/lent/node_modules": join(import.meta.dirname, "../../node_modules"),
      "/lent/release": release,
    },
    env: { npm_config_cache: "/lent/npm-cache", npm_config_offline: "true" },
    buildArgs: {
      KLUCTL_VERSION: version,
      [`KLUCTL_SHA256_${architecture.toUpperCase()}`]: sha256,
      TARGETARCH: architecture,
    },
    instead: (_, command) => command.replace(/npm ci[^&]*?(?=\s*(?:&|$))/, (install) => `{ ${toLocal(install)} }`),
  };
}

/** All packages lie in the checkout; those that the server needs come from npm's cache or, if it was emptied, from there. */
function toLocal(install: string): string {
  if (!install.includes("--omit=dev")) return "ln -s /lent/node_modules .;";
  return `${install} || { rm -rf node_modules; cp -a /lent/node_modules . && npm prune --omit=dev --ignore-scripts; };`;
}
