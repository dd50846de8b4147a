/** The project that is deployed: three small objects; a push changes one of their values. */
import { stringify } from "yaml";
import type { FileChanges, WorkCopy } from "../parts/work-copy.ts";
import { now } from "./clock.ts";

/**
 * The names of its objects come from the arguments of each deployment, so that hundreds of deployments can share one
 * repository.
 */
export const project: FileChanges = {
  ".kluctl.yaml": stringify({
    discriminator: "bench-{{ args.namespace }}-{{ args.name }}",
    args: [{ name: "name" }, { name: "namespace" }],
  }),
  "deployment.yaml": stringify({ deployments: [{ path: "app" }], vars: [{ file: "release.yaml" }] }),
  "release.yaml": release("0"),
  "app/config.yaml": object("v1", "ConfigMap", { data: { release: "{{ release }}" } }),
  "app/account.yaml": object("v1", "ServiceAccount", {}),
  "app/service.yaml": object("v1", "Service", {
    spec: { selector: { app: "{{ args.name }}" }, ports: [{ port: 80 }] },
  }),
};

export interface Push {
  readonly commit: string;
  /** When `git push` was started, and when it returned. */
  readonly startedAt: number;
  readonly doneAt: number;
}

/** Changes the value and pushes it. */
export function pushRelease(copy: WorkCopy, value: string, branch = "main"): Promise<Push> {
  return pushChange(copy, { "release.yaml": release(value) }, { message: `Release ${value}`, branch });
}

/** Commits the changes and pushes them; the time of the commit is not included. */
export async function pushChange(
  copy: WorkCopy,
  changes: FileChanges,
  { message, branch = "main" }: { readonly message: string; readonly branch?: string },
): Promise<Push> {
  const commit = await copy.commit(changes, message);
  const startedAt = now();
  await copy.git("push", "--quiet", "origin", `HEAD:refs/heads/${branch}`);
  return { commit, startedAt, doneAt: now() };
}

export interface SpecOptions {
  readonly url: string;
  readonly namespace: string;
  readonly name: string;
  readonly interval: string;
}

export function specOf({ url, namespace, name, interval }: SpecOptions): object {
  const source = { git: { url, ref: { branch: "main" } } };
  return { interval, source, args: { name, namespace }, validate: false, timeout: "5m" };
}

/** The status of a deployment with nothing to do, as another replica would have written it. */
export function upToDate(commit: string): object {
  const at = new Date().toISOString();
  const ready = {
    type: "Ready",
    status: "True",
    reason: "ReconciliationSucceeded",
    message: "",
    lastTransitionTime: at,
  };
  return {
    observedGeneration: 1,
    observedCommit: commit,
    conditions: [ready],
    lastDriftDetectionResult: { id: "bench", endTime: at },
  };
}

function release(value: string): string {
  return stringify({ release: value });
}

function object(apiVersion: string, kind: string, more: object): string {
  const metadata = { name: "{{ args.name }}", namespace: "{{ args.namespace }}" };
  return stringify({ apiVersion, kind, metadata, ...more });
}
