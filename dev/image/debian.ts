/** A Debian as the official image has it: the smallest set of packages, without their documentation. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

export const suite = "trixie";
const mirror = "http://deb.debian.org";
const run = promisify(execFile);

/** Makes one in a directory; about a minute. It needs root and Debian's mirror. */
export async function makeDebian(dir: string): Promise<string> {
  await run("debootstrap", ["--variant=minbase", suite, dir, `${mirror}/debian`], { maxBuffer: 1e8 });
  const sources = [`debian ${suite}`, `debian ${suite}-updates`, `debian-security ${suite}-security`];
  await writeFile(
    join(dir, "etc/apt/sources.list"),
    sources.map((source) => `deb ${mirror}/${source} main\n`).join(""),
  );
  const unwanted = ["var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*.log", "usr/share/{doc,man,info,locale}/*"];
  await run("bash", ["-c", `cd "$0" && rm -rf ${unwanted.join(" ")}`, dir]);
  return dir;
}
