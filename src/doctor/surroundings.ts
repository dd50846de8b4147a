/** What the server needs besides the cluster: kluctl, Redis, forges, a directory. */
import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** kluctl's version, or why there is none. */
export async function examineKluctl(version: () => Promise<string>): Promise<Finding[]> {
  try {
    return [ok("kluctl", await version())];
  } catch (error) {
    return [problem("kluctl", (error as Error).message)];
  }
}

export interface RedisFacts {
  readonly version: string;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** `private`: the server starts one by itself; what is looked at is that it can. */
export async function examineRedis(
  look: () => Promise<RedisFacts>,
  kind: "configured" | "private",
): Promise<Finding[]> {
  try {
    const { version, problems, warnings } = await look();
    const what = kind === "private" ? `${version}; the server starts a private one, good for one replica` : version;
    const found = [
      ...problems.map((text) => problem("Redis", text)),
      ...warnings.map((text) => warning("Redis", text)),
    ];
    return found.length > 0 ? found : [ok("Redis", what)];
  } catch (error) {
    return [problem("Redis", (error as Error).message)];
  }
}

export interface ForgeFacts {
  /** There are others, and nothing says which hosts are its own. */
  readonly isUnbound?: boolean;
  /** Whether `preview.enabled` says so. */
  readonly previews?: boolean;
}

/** Without a login, only its webhooks are taken. */
export async function examineForge(
  id: string,
  account: (() => Promise<string>) | undefined,
  { isUnbound = false, previews = false }: ForgeFacts = {},
): Promise<Finding[]> {
  const subject = `forge ${id}`;
  const unbound = "which hosts are its own is not known, so that the other forges can speak for its repositories";
  return [
    ...(isUnbound ? [warning(subject, unbound, "set its apiUrl, or hosts")] : []),
    ...(await examineLogin(subject, account, previews)),
  ];
}

async function examineLogin(
  subject: string,
  account: (() => Promise<string>) | undefined,
  previews: boolean,
): Promise<Finding[]> {
  if (account === undefined)
    return [ok(subject, "has no login: its webhooks are taken, pull requests are not previewed")];
  try {
    const whether = previews ? "are previewed" : "are not previewed (preview.enabled is false)";
    return [ok(subject, `the login works: ${await account()}; pull requests ${whether}`)];
  } catch (error) {
    return [problem(subject, `the login does not work: ${(error as Error).message}`)];
  }
}

/** Mirrors of repositories and kluctl's own Python need some. */
const leastFreeBytes = 2 * 1024 ** 3;

/** Looks, and makes nothing: the server makes it when it starts. */
export async function examineDataDir(dir: string): Promise<Finding[]> {
  const subject = "data directory";
  const there = await firstThatExists(dir);
  const what = there === dir ? `${dir} can be written` : `${dir} can be made`;
  try {
    if (!(await stat(there)).isDirectory()) return [problem(subject, `${there} is not a directory`, advice)];
    await access(there, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    return [problem(subject, `${there} cannot be written: ${String((error as NodeJS.ErrnoException).code)}`, advice)];
  }
  const { bavail, bsize } = await statfs(there);
  const free = `${((Number(bavail) * Number(bsize)) / 1024 ** 3).toFixed(1)} GiB free`;
  return Number(bavail) * Number(bsize) < leastFreeBytes
    ? [warning(subject, `${what}, but there is little room: ${free}`, "give it 2 GiB or more")]
    : [ok(subject, `${what}, ${free}`)];
}

const advice = "make it the server's, or set TOWLINE_DATA_DIR to another";

async function firstThatExists(path: string): Promise<string> {
  const exists = await stat(path).then(
    () => true,
    () => false,
  );
  return exists || dirname(path) === path ? path : firstThatExists(dirname(path));
}
