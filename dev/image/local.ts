/**
 * Local replacements for what an image build downloads: this machine's Node, npm with the packages in its cache, a kluctl
 * packed like a release, and a built renderer for Flux. The build needs no network for them.
 */
import { execFile } from "node:child_process";
import { mkdir, realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { FollowOptions } from "./follow.ts";
import { packRelease, toBuildArgs } from "./release.ts";

const run = promisify(execFile);

export type LocalBase = Pick<FollowOptions, "layer" | "lent" | "kept" | "env" | "buildArgs" | "instead">;

export interface LocalBaseOptions {
  /** An empty directory. */
  readonly dir: string;
  readonly kluctl: string;
  /** The program that renders Flux's Kustomizations. */
  readonly fluxRenderer: string;
  /** Commands that replace those of the base, by path. */
  readonly standIns?: Readonly<Record<string, string>>;
}

/** A stand-in for curl that copies the requested file from the lent release. */
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

/** A stand-in for go whose builds are the lent program. */
const go = `#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then cp /lent/flux-renderer "$2"; fi
  shift
done
`;

const npm = `#!/bin/sh
exec node /lent/npm/bin/npm-cli.js "$@"
`;

export async function createLocalBase({ dir, kluctl, fluxRenderer, standIns }: LocalBaseOptions): Promise<LocalBase> {
  const [layer, release] = [join(dir, "layer"), join(dir, "release")];
  const programs = {
    "usr/local/bin/npm": npm,
    "usr/local/bin/curl": curl,
    "usr/local/bin/go": go,
    "usr/local/bin/node": "",
    ...standIns,
  };
  for (const [path, text] of Object.entries(programs)) {
    await mkdir(dirname(join(layer, path)), { recursive: true });
    await writeFile(join(layer, path), text, { mode: 0o755 });
  }
  await mkdir(join(layer, "lent"), { recursive: true });
  await writeFile(join(layer, "lent/flux-renderer"), "");
  for (const name of ["npm", "npm-cache", "node_modules", "release", "examples"])
    await mkdir(join(layer, "lent", name), { recursive: true });

  await mkdir(join(layer, "etc/ssh"), { recursive: true });

  const packed = await packRelease(kluctl, release);

  return {
    layer,
    kept: { "/usr/local/bin/node": process.execPath, "/lent/examples": join(import.meta.dirname, "../../examples") },
    lent: {
      "/lent/npm": await findNpm(),
      "/lent/npm-cache": (await run("npm", ["config", "get", "cache"])).stdout.trim(),
      "/lent/node_modules": join(import.meta.dirname, "../../node_modules"),
      "/lent/release": release,
      "/lent/flux-renderer": fluxRenderer,
    },
    env: { npm_config_cache: "/lent/npm-cache", npm_config_offline: "true" },
    buildArgs: { ...toBuildArgs(packed), TARGETARCH: packed.architecture },
    instead: (_, command) => command.replace(/npm ci[^&]*?(?=\s*(?:&|$))/, (install) => `{ ${toLocal(install)} }`),
  };
}

/** Returns the directory of this machine's npm. */
export async function findNpm(): Promise<string> {
  return dirname(dirname(await realpath((await run("which", ["npm"])).stdout.trim())));
}

/**
 * All packages are in the checkout; those that the server needs come from npm's cache or, if it is empty, from the
 * checkout.
 */
function toLocal(install: string): string {
  if (!install.includes("--omit=dev")) return "ln -s /lent/node_modules .;";
  return `${install} || { rm -rf node_modules; cp -a /lent/node_modules . && npm prune --omit=dev --ignore-scripts; };`;
}
