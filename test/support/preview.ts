/** One pull request, the deployments of its base branch, and the results of its previews. */
import { expect, vi } from "vitest";
import { KilledError } from "../../src/errors.ts";
import type { Attempt, CommandResult, Deployment, PreviewRequest, PullRequest, Run } from "../../src/model.ts";
import { createPreview, type PreviewDeps } from "../../src/preview/preview.ts";
import { createKnownReferences } from "../../src/preview/references.ts";
import type { Report } from "../../src/model/report.ts";
import { aDeployment, anObject, aResult, aSpec } from "./deployments.ts";
import { fakeForge } from "./fake-forge.ts";
import { fakeQueue, fakeReports } from "./fake-reports.ts";
import { fakeDeployments, fakeKluctl, fakeReadIdentity, fakeSecrets, fakeSources, silentLog } from "./fakes.ts";
import { patience } from "./patience.ts";

export const key = { forge: "gitea", repoName: "org/shop", number: 7 };
export const head = "1".repeat(40);
export const base = "b".repeat(40);
export const startedAt = Date.parse("2026-01-01T00:00:00Z");
const changed = anObject({
  changes: [{ type: "update", jsonPath: "data.a", oldValue: "1", newValue: "2", unifiedDiff: "-1\n+2" }],
});
export const aChange = aResult({ objects: [changed] });

export type Rendered = Readonly<Record<string, unknown>>;

/** A result of kluctl after parsing. */
export function aRender(...objects: Rendered[]): CommandResult {
  return aResult({
    objects: objects.map((object) => {
      const { apiVersion = "v1", kind, metadata } = object;
      const [version, group] = (apiVersion as string).split("/").toReversed();
      const { name, namespace } = metadata as { name: string; namespace?: string };
      const ref = { ...(group && { group }), version, kind: kind as string, name, namespace };
      return anObject({ ref, changes: [], rendered: JSON.stringify(object) });
    }),
  });
}

interface Options extends Partial<
  Pick<
    PreviewDeps,
    | "audit"
    | "enabled"
    | "flux"
    | "forges"
    | "speaksFor"
    | "kluctl"
    | "allDeployments"
    | "lastMove"
    | "limit"
    | "manifests"
    | "readIdentity"
    | "settings"
    | "secrets"
    | "slowForMs"
  >
> {
  pullRequest?: Partial<PullRequest>;
  previous?: Report;
}

/** A pull request into `main` of the deployments' repository, and a clock that the test moves. */
export function aPreviewWorld(deployments: Deployment[], { pullRequest, previous, ...overrides }: Options = {}) {
  const forge = fakeForge();
  const proposed = forge.put(7, pullRequest);
  const cluster = fakeDeployments(...deployments);
  const sources = fakeSources({ "refs/heads/main": base, "refs/heads/feature": proposed.head });
  const kluctl = fakeKluctl({ diff: aChange });
  const reports = fakeReports();
  const queue = fakeQueue();
  const told: Report[] = [];
  const wakers: (() => void)[] = [];
  const time = { now: startedAt, synced: true };
  if (previous) void reports.save(previous);
  const preview = createPreview({
    enabled: true,
    forges: new Map([["gitea", forge]]),
    speaksFor: () => true,
    deployments: { ...cluster, synced: () => time.synced },
    secrets: fakeSecrets(),
    sources,
    kluctl,
    reports: {
      ...reports,
      save(report) {
        told.push(report);
        return reports.save(report);
      },
    },
    queue,
    limit: (work) => work(),
    readIdentity: fakeReadIdentity(),
    references: createKnownReferences(),
    settings: {},
    clusterName: () => Promise.resolve("eu-1"),
    newId: () => "id-1",
    clock: { now: () => time.now },
    log: silentLog,
    sleep: (ms, signal) =>
      new Promise<void>((resolve, reject) => {
        expect(ms).toBe(2_000);
        wakers.push(resolve);
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
    ...overrides,
  });
  return {
    ...{ forge, cluster, sources, kluctl, reports, queue, told, time },
    async twoSecondsPass() {
      await vi.waitFor(() => expect(wakers).not.toEqual([]), patience);
      for (const wake of wakers) wake();
    },
    previews: () => told.at(-1)?.previews ?? [],
    run: (attempt: Partial<Attempt> = {}, cause: PreviewRequest["cause"] = "pull-request") =>
      preview(
        { kind: "preview", pullRequest: key, cause },
        { attempt: 1, lastAttempt: false, signal: new AbortController().signal, ...attempt },
      ),
  };
}

export const named = (name: string, overrides: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ key: { namespace: "shop", name }, ...overrides });

export const inFolder = (path: string, rest: Partial<Deployment["spec"]["source"]> = {}) => ({
  source: { ...aSpec().source, path, ...rest },
});

/** A kluctl whose runs end when the test says so, or shortly after they are aborted. */
export function slowKluctl() {
  const runs: { run: Run; finish: () => void }[] = [];
  let running = 0;
  const port: PreviewDeps["kluctl"] = {
    diff: (run, _options, signal) =>
      new Promise((resolve, reject) => {
        running++;
        const end = (settle: () => void) => () => setImmediate(() => (running--, settle()));
        signal.addEventListener(
          "abort",
          end(() => reject(new KilledError("stopped", "kluctl was stopped"))),
        );
        runs.push({ run, finish: end(() => resolve(aChange)) });
      }),
    render: () => Promise.reject(new Error("nothing is rendered here")),
  };
  return { ...port, runs, running: () => running };
}
