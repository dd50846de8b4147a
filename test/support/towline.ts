/** The server under test: created in this process, or the real `towline serve`. */
import { spawn, type ChildProcess } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { startApp } from "../../src/app.ts";
import { previewAccount } from "../../dev/parts/preview-account.ts";
import { loadConfig } from "../../src/config.ts";
import { createSecretList } from "../../src/log.ts";
import { wrongSkip } from "../../src/skipping/skip-audit.ts";
import type { TestWorld } from "./world.ts";

const webhookSecret = "a-webhook-secret-for-tests";

export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

export interface Towline {
  /** The URL of Gitea's webhooks, and their signing secret. */
  readonly webhooksUrl: string;
  readonly webhookSecret: string;
  readonly adminUrl: string;
  /** Only known of a server in this process. */
  readonly pageUrl?: string | undefined;
  readonly lines: readonly LogLine[];
  stop(): Promise<void>;
}

export interface TowlineProcess extends Towline {
  readonly child: ChildProcess;
  /** Resolves with the exit code or the signal. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** With these variables a server previews pull requests, as the account for previews in each world. */
export const previewVariables = {
  TOWLINE_PREVIEW_ENABLED: "true",
  TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: previewAccount,
};

/**
 * On a kernel that does not support full isolation, `TOWLINE_PREVIEW_ISOLATION=auto npm test` lets the other tests run.
 */
const isolation = process.env["TOWLINE_PREVIEW_ISOLATION"];

/**
 * The variables of a server for this world. It watches only this test's namespace, so that tests can run concurrently.
 */
export function environment(world: TestWorld, extra: Record<string, string> = {}): Record<string, string> {
  return {
    TOWLINE_GITEA_WEBHOOK_SECRET: webhookSecret,
    TOWLINE_WEBHOOKS_HOST: "127.0.0.1",
    TOWLINE_WEBHOOKS_PORT: "0",
    TOWLINE_ADMIN_HOST: "127.0.0.1",
    TOWLINE_ADMIN_PORT: "0",
    TOWLINE_REDIS_URL: world.redis.url,
    TOWLINE_REDIS_PREFIX: world.redis.prefix,
    TOWLINE_KUBERNETES_KUBECONFIG: world.cluster.kubeconfig,
    TOWLINE_KUBERNETES_NAMESPACES: world.cluster.namespace,
    TOWLINE_KLUCTL: world.kluctl,
    TOWLINE_KLUCTL_CACHE_DIR: world.kluctlCache,
    TOWLINE_DATA_DIR: `${world.dir}/${randomUUID().slice(0, 8)}`,
    TOWLINE_SWEEP_INTERVAL: "30s",
    // Tests rely on the interval; how it adapts is tested where it is decided.
    TOWLINE_SWEEP_ADAPTIVE: "false",
    TOWLINE_SWEEP_AUDIT_SKIPS: "1",
    ...(isolation && { TOWLINE_PREVIEW_ISOLATION: isolation }),
    ...extra,
  };
}

export async function useTowline(world: TestWorld, extra: Record<string, string> = {}): Promise<Towline> {
  const lines: LogLine[] = [];
  failOnWrongSkips(lines, extra);
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line) as LogLine) });
  const env = environment(world, extra);
  const load = () => loadConfig({ env, readFile: (path) => readFileSync(path, "utf8") }).config;
  const secrets = createSecretList([]);
  const app = await startApp(load(), log, readsFiles(env) ? { load, secrets, everyMs: 200 } : undefined);
  const stop = onceOnly(() => app.stop());
  onTestFinished(stop);
  const url = (port: number | undefined) => `http://127.0.0.1:${port}`;
  const webhooksUrl = `${url(app.webhooksPort)}/webhooks/gitea`;
  const pageUrl = app.pagePort === undefined ? undefined : url(app.pagePort);
  return { webhooksUrl, webhookSecret, adminUrl: url(app.adminPort), pageUrl, lines, stop };
}

/** Resolves when it listens. */
export async function useTowlineProcess(world: TestWorld, extra: Record<string, string> = {}): Promise<TowlineProcess> {
  const lines: LogLine[] = [];
  failOnWrongSkips(lines, extra);
  const env = {
    PATH: process.env["PATH"],
    HOME: world.dir,
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    TOWLINE_LOG_FORMAT: "json",
    ...environment(world, extra),
  };
  const child = spawn(process.execPath, ["src/cli.ts", "serve"], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit").then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  const stop = onceOnly(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  onTestFinished(async () => {
    child.kill("SIGCONT");
    await stop();
  });
  const errors: string[] = [];
  createInterface(child.stderr).on("line", (line) => errors.push(line));
  const listening = new Promise<LogLine>((resolve) => {
    createInterface(child.stdout).on("line", (text) => {
      const line = JSON.parse(text) as LogLine;
      lines.push(line);
      if (line.msg === "listening") resolve(line);
    });
  });
  const failed = ended.then((code) => {
    throw new Error(
      `towline serve ended with ${code}: ${[...lines.map((l) => JSON.stringify(l)), ...errors].join("\n")}`,
    );
  });
  const { webhooks, admin } = await Promise.race([listening, failed]);
  failed.catch(() => undefined);
  const url = (port: unknown) => `http://127.0.0.1:${String(port)}`;
  const webhooksUrl = `${url(webhooks)}/webhooks/gitea`;
  return { webhooksUrl, webhookSecret, adminUrl: url(admin), lines, child, ended, stop };
}

/** Fails the test if an audit finds a wrong skip. A test that sets the audit rate itself has to check this itself. */
function failOnWrongSkips(lines: readonly LogLine[], { TOWLINE_SWEEP_AUDIT_SKIPS }: Record<string, string>): void {
  if (TOWLINE_SWEEP_AUDIT_SKIPS !== undefined) return;
  onTestFinished(() => expect(lines.filter(({ msg }) => msg === wrongSkip)).toEqual([]));
}

/** The push that a delivery in Gitea's format reports. For tests without a Gitea; the signature is real. */
interface SentPush {
  readonly repo: string;
  readonly ref?: string;
  readonly after: string;
  readonly paths?: string[];
  /** Commits pushed together with `after`. */
  readonly others?: readonly string[];
}

export async function sendPush(url: string, push: SentPush) {
  const body = JSON.stringify({
    ref: push.ref ?? "refs/heads/main",
    before: "1".repeat(40),
    after: push.after,
    total_commits: 1,
    sender: { login: "somebody" },
    commits: [
      ...(push.others ?? []).map((id) => ({ id, added: [], modified: [], removed: [] })),
      { added: [], modified: push.paths ?? [], removed: [] },
    ],
    repository: { full_name: "test/repo", clone_url: push.repo, html_url: push.repo, default_branch: "main" },
  });
  return fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-Gitea-Event": "push",
      "X-Gitea-Delivery": randomUUID(),
      "X-Gitea-Signature": createHmac("sha256", webhookSecret).update(body).digest("hex"),
    },
    body,
  });
}

function readsFiles(env: Record<string, string>): boolean {
  return Object.keys(env).some((name) => name.endsWith("_FILE") || name === "TOWLINE_CONFIG");
}

function onceOnly(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
