/** A Debian with the package set of the official image: the smallest one, without documentation. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Architecture, ownArchitecture } from "./release.ts";

export const suite = "trixie";
const run = promisify(execFile);

/**
 * Creates it in a directory; takes about a minute, or five if its programs are emulated. Needs root, and the mirrors
 * that this machine's apt uses.
 */
export async function makeDebian(dir: string, architecture: Architecture = ownArchitecture): Promise<string> {
  const [packages, security] = await Promise.all(["Debian", "Debian-Security"].map(findMirror));
  await run("debootstrap", [`--arch=${architecture}`, "--variant=minbase", suite, dir, packages!], { maxBuffer: 1e8 });
  const sources = [`${packages} ${suite}`, `${packages} ${suite}-updates`, `${security} ${suite}-security`];
  await writeFile(join(dir, "etc/apt/sources.list"), sources.map((source) => `deb ${source} main\n`).join(""));
  const unwanted = ["var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*.log", "usr/share/{doc,man,info,locale}/*"];
  await run("bash", ["-c", `cd "$0" && rm -rf ${unwanted.join(" ")}`, dir]);
  return dir;
}

/** Returns the mirror from which apt reads the archive with this label, so that a company's own mirror is used. */
async function findMirror(label: string): Promise<string> {
  const { stdout } = await run("apt-get", [
    "indextargets",
    "--format",
    "$(REPO_URI)",
    "Origin: Debian",
    `Label: ${label}`,
  ]);
  const [mirror] = stdout.split("\n");
  if (mirror) return mirror;
  throw new Error(`apt has no archive with the label ${label}: this must be a Debian on which apt-get update was run`);
}
