/** Checks what the server needs besides the cluster: kluctl, Redis, forges and the data directory. */
import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { expiresSoon, type ForgeAccount } from "../model.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** kluctl's version, or why it does not run. */
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

/** `private`: checks that the server can start its own Redis. */
export async function examineRedis(
  readFacts: () => Promise<RedisFacts>,
  kind: "configured" | "private",
): Promise<Finding[]> {
  try {
    const { version, problems, warnings } = await readFacts();
    const what = kind === "private" ? `${version}; private to the server, for one replica only` : version;
    const found = [
      ...problems.map((text) => problem("Redis", text)),
      ...warnings.map((text) => warning("Redis", text)),
    ];
    return found.length > 0 ? found : [ok("Redis", what)];
  } catch (error) {
    return [problem("Redis", (error as Error).message)];
  }
}

export interface RecordingFacts {
  readonly enabled: boolean;
  readonly days: number;
  /** The number of stored deliveries; absent for a private Redis, which only the server can read. */
  readonly count?: (() => Promise<number>) | undefined;
}

/** Whether deliveries are recorded, and how many are stored. */
export async function examineRecording({ enabled, days, count }: RecordingFacts): Promise<Finding[]> {
  const subject = "recorded deliveries";
  const state = enabled ? `recording is on, for ${days} days` : "recording is off";
  if (count === undefined) return [ok(subject, `${state}; stored in the server's private Redis`)];
  try {
    return [ok(subject, `${state}; ${await count()} stored`)];
  } catch (error) {
    return [problem(subject, `${state}; cannot count them: ${(error as Error).message}`)];
  }
}

export interface ForgeFacts {
  /** Whether there are other forges, and this one has no configured hosts. */
  readonly isUnbound?: boolean;
  /** Value of `preview.enabled`. */
  readonly previews?: boolean;
}

/** Without a login, only the forge's webhooks are used. */
export async function examineForge(
  id: string,
  account: (() => Promise<ForgeAccount>) | undefined,
  { isUnbound = false, previews = false }: ForgeFacts = {},
): Promise<Finding[]> {
  const subject = `forge ${id}`;
  const unbound = "its hosts are unknown, so other forges can send events for its repositories";
  return [
    ...(isUnbound ? [warning(subject, unbound, "set its apiUrl or hosts")] : []),
    ...(await examineLogin(subject, account, previews)),
  ];
}

async function examineLogin(
  subject: string,
  account: (() => Promise<ForgeAccount>) | undefined,
  previews: boolean,
): Promise<Finding[]> {
  if (account === undefined) return [ok(subject, "no login: webhooks are accepted, pull requests are not previewed")];
  try {
    const whether = previews ? "are previewed" : "are not previewed (preview.enabled is false)";
    const { name, expiresAt } = await account();
    const works = ok(subject, `the login works: ${name}; pull requests ${whether}`);
    if (expiresAt === undefined || !expiresSoon({ expiresAt }, Date.now())) return [works];
    const when = new Date(expiresAt).toISOString();
    return [works, warning(subject, `the login expires at ${when}`, "create a new token and configure it before then")];
  } catch (error) {
    return [problem(subject, `the login does not work: ${(error as Error).message}`)];
  }
}

/** For mirrors of repositories and kluctl's unpacked Python. */
const leastFreeBytes = 2 * 1024 ** 3;

/** Read-only: the server creates the directory when it starts. */
export async function examineDataDir(dir: string): Promise<Finding[]> {
  const subject = "data directory";
  const there = await firstThatExists(dir);
  const what = there === dir ? `${dir} is writable` : `${dir} can be created`;
  try {
    if (!(await stat(there)).isDirectory()) return [problem(subject, `${there} is not a directory`, advice)];
    await access(there, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    return [problem(subject, `${there} is not writable: ${String((error as NodeJS.ErrnoException).code)}`, advice)];
  }
  const { bavail, bsize } = await statfs(there);
  const free = `${((Number(bavail) * Number(bsize)) / 1024 ** 3).toFixed(1)} GiB free`;
  return Number(bavail) * Number(bsize) < leastFreeBytes
    ? [warning(subject, `${what}, but has little space: ${free}`, "provide 2 GiB or more")]
    : [ok(subject, `${what}, ${free}`)];
}

const advice = "make it writable for the server, or set TOWLINE_DATA_DIR to another directory";

async function firstThatExists(path: string): Promise<string> {
  const exists = await stat(path).then(
    () => true,
    () => false,
  );
  return exists || dirname(path) === path ? path : firstThatExists(dirname(path));
}
