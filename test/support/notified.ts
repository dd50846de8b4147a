/** A target of notifications, its record and a clock, for tests of what people hear over time. */
import type { RouteConfig, TargetConfig } from "../../src/config.ts";
import { NotifyError } from "../../src/errors.ts";
import { createLogger, createSecretList } from "../../src/log.ts";
import type { AnyDeployment, Condition, DeploymentStatus, Notification, SentRecord } from "../../src/model.ts";
import type { SendOptions, SentVersion } from "../../src/ports.ts";
import type { Notice } from "../../src/reporting/notifications/notices.ts";
import { createNotify, type NotifyDeps } from "../../src/reporting/notifications/notify.ts";
import { repoId } from "../../src/model/repo-url.ts";
import { aDeployment, aSummary } from "./deployments.ts";

interface Message {
  readonly title: string;
  /** `sent`, `changed`, or `changed, announced`. */
  readonly how: string;
  readonly channel?: string | undefined;
  readonly notification: Notification;
}

const start = Date.UTC(2026, 10, 26, 12, 0, 0);

interface World {
  /** Can the target change what it was sent? */
  readonly edits?: boolean;
  readonly refreshMs?: number;
  readonly target?: Partial<TargetConfig>;
  readonly routes?: readonly Partial<RouteConfig>[];
}

export function aNotifiedWorld({ edits = false, refreshMs, target, routes = [] }: World = {}) {
  let now = start;
  let deployments: readonly AnyDeployment[] = [];
  let stored: { record: SentRecord; version: number } | undefined;
  let others: readonly Notice[] = [];
  const messages: Message[] = [];
  const failing: {
    error?: Error | undefined;
    write?: Error | undefined;
    channel?: string | undefined;
    title?: string;
    late?: string | undefined;
  } = {};
  const wakes: number[] = [];

  const send = (notification: Notification, { sent, announce, channel }: SendOptions) => {
    if (failing.error) return Promise.reject(failing.error);
    if (failing.channel !== undefined && failing.channel === channel) return Promise.reject(refuses("refused"));
    if (failing.late !== undefined && failing.late === channel) return Promise.reject(refuses("later"));
    if (failing.title !== undefined && notification.title.includes(failing.title))
      return Promise.reject(refuses("refused"));
    const how = sent === undefined ? "sent" : announce ? "changed, announced" : "changed";
    messages.push({ title: notification.title, how, channel, notification });
    return Promise.resolve(edits ? (sent ?? `message-${messages.length}`) : undefined);
  };
  const config: TargetConfig = {
    ...{ id: "team", kind: "slack", signingKeys: [], to: [], labels: {}, words: [], perHour: 60 },
    ...target,
  };
  const route = { target: "team", namespaces: [], names: [], labels: {}, repositories: [] };
  const deps: NotifyDeps = {
    config: () => ({ targets: [config], routes: routes.map((own) => ({ ...route, ...own })) }),
    notifierOf: () => Promise.resolve({ edits, refreshMs, send }),
    deployments: { all: () => deployments, synced: () => true },
    otherNotices: () => Promise.resolve(others),
    record: {
      read: () => Promise.resolve(stored && { record: stored.record, version: String(stored.version) as SentVersion }),
      write(_target, record, version) {
        if (failing.write) return Promise.reject(failing.write);
        if (stored !== undefined && String(stored.version) !== version) return Promise.reject(new Error("conflict"));
        stored = { record: structuredClone(record), version: (stored?.version ?? 0) + 1 };
        return Promise.resolve(String(stored.version) as SentVersion);
      },
    },
    describeCommit: () =>
      Promise.resolve({ title: "Raise the limit", author: "Ada", url: "https://git.example.com/c" }),
    pageUrl: () => "https://towline.example.com",
    clusterName: () => Promise.resolve("test"),
    again: (_target, afterMs) => void wakes.push(afterMs),
    identity: "one",
    observe: () => undefined,
    clock: { now: () => now },
    log: createLogger({ level: "fatal", format: "json", secrets: createSecretList([]) }),
  };
  const notify = createNotify(deps);

  return {
    messages,
    failing,
    wakes,
    deps,
    record: () => stored?.record,
    have: (...all: readonly AnyDeployment[]) => void (deployments = all),
    alsoHave: (...notices: readonly Notice[]) => void (others = notices),
    pass: (ms: number) => void (now += ms),
    now: () => now,
    /** Forgets nothing but what a server has in memory. */
    run: (identity = "one") =>
      identity === "one"
        ? notify({ kind: "notify", target: "team" }, new AbortController().signal)
        : createNotify({ ...deps, identity })({ kind: "notify", target: "team" }, new AbortController().signal),
    /** Runs after a pause, and returns what was sent in this run: `how: title`. */
    async hears(afterMs = 10_000): Promise<string[]> {
      now += afterMs;
      const before = messages.length;
      await notify({ kind: "notify", target: "team" }, new AbortController().signal);
      return messages.slice(before).map(({ how, title }) => `${how}: ${title}`);
    },
    at: (ms = 0) => new Date(now + ms).toISOString(),
  };
}

export const commitA = "3f2c1ab".padEnd(40, "0");
export const commitB = "77aa0c1".padEnd(40, "0");

function conditions(status: Condition["status"], message: string, at: string, reason = "any"): Condition[] {
  const ready: Condition = { type: "Ready", status, reason, message, lastTransitionTime: at };
  return reason === "Progressing" ? [ready, { ...ready, type: "Reconciling", status: "True" }] : [ready];
}

type Own = Partial<Parameters<typeof aDeployment>[0]> & { at?: string };

function named(name: string, status: Partial<DeploymentStatus>, { at: _, ...own }: Own) {
  const spec = { intervalMs: 24 * 3_600_000, ...own.spec };
  return aDeployment({
    ...{ key: { namespace: "shop", name }, uid: `uid-${name}` },
    ...{ ...own, spec, status: { ...status, ...own.status } },
  });
}

/** Deployed at the commit, with two changed objects. */
export function deployed(name: string, commit: string, own: Own = {}) {
  const { at = "2026-11-26T12:00:00Z" } = own;
  const result = { document: { gitInfo: { commit }, renderedObjectsHash: "h" }, changedObjects: 2 };
  return ended(name, commit, own, { at, result, ready: conditions("True", "deploy succeeded.", at) });
}

export function failed(name: string, commit: string, own: Own = {}) {
  const { at = "2026-11-26T12:00:00Z" } = own;
  const result = { document: { gitInfo: { commit } }, errors: 1 };
  return ended(name, commit, own, { at, result, ready: conditions("False", "deploy failed with 1 errors.", at) });
}

interface End {
  readonly at: string;
  readonly result: Parameters<typeof aSummary>[0];
  readonly ready: Condition[];
}

function ended(name: string, commit: string, own: Own, { at, result, ready }: End) {
  const lastDeployResult = aSummary({ id: `${commit} ${at}`, endTime: at, ...result });
  return named(
    name,
    { observedCommit: commit, observedGeneration: 1, conditions: ready, lastDeployResult, lastObjectsHash: "h" },
    own,
  );
}

/** Being deployed at the commit. */
export function working(name: string, commit: string, own: Own = {}) {
  const { at = "2026-11-26T12:00:00Z" } = own;
  const progress = conditions("Unknown", "Reconciliation in progress", at, "Progressing");
  return named(name, { observedCommit: commit, observedGeneration: 1, conditions: progress }, own);
}

/** Of a repository of its own. */
export function ofRepository(name: string): Own {
  const url = `https://git.example.com/org/${name}`;
  return { spec: { source: { url, ref: { branch: "main" }, path: "" } }, repo: repoId(url)! };
}

export const refuses = (problem: "later" | "refused", retryAfterMs?: number) =>
  new NotifyError(problem, "chat.example.com: response status 503", { retryAfterMs });
