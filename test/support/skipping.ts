/** The skip logic with fakes: a deployment whose last reconciliation found nothing to do, and its inputs. */
import type {
  AppliedChange,
  CommandResult,
  Deployment,
  Identity,
  ObjectVersion,
  UnsteadyFiles,
} from "../../src/model.ts";
import type { AppliedObjects } from "../../src/ports.ts";
import type { CheckReason, Found } from "../../src/skipping/evidence.ts";
import { createSkipping, type SkippingDeps } from "../../src/skipping/skipping.ts";
import { aDeployment, anObject, aResult, aSummary } from "./deployments.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "./fakes.ts";
import { ready } from "./reconciling.ts";

const minute = 60_000;

/** An object as kluctl reports it, in version 10. */
export function appliedObject(kind = "ConfigMap", apiVersion = "v1", more: object = {}) {
  const metadata = {
    name: "settings",
    namespace: "shop",
    uid: `uid-${kind}`,
    resourceVersion: "10",
    labels: { "kluctl.io/discriminator": "shop-prod" },
    ...more,
  };
  const json = JSON.stringify({ apiVersion, kind, metadata });
  return anObject({ ref: { version: "v1", kind, name: "settings", namespace: "shop" }, remote: json, applied: json });
}

function fakeApplied(objects: Record<string, ObjectVersion> = {}) {
  const callbacks: ((change: AppliedChange) => void)[] = [];
  const state: { objects: Map<string, ObjectVersion>; unknown?: string } = {
    objects: new Map(Object.entries(objects)),
  };
  const port: AppliedObjects = {
    find: () => (state.unknown === undefined ? { objects: state.objects } : { unknown: state.unknown }),
    onChange: (callback) => void callbacks.push(callback),
  };
  const tell = (id: string, deleted: boolean) =>
    callbacks.forEach((callback) => callback({ discriminator: "shop-prod", id, deleted }));
  return {
    ...port,
    state,
    change(id: string, version: ObjectVersion) {
      state.objects.set(id, version);
      tell(id, false);
    },
    remove(id: string) {
      state.objects.delete(id);
      tell(id, true);
    },
  };
}

export const settingsId = "/ConfigMap/shop/settings";
export const settingsVersion: ObjectVersion = { uid: "uid-ConfigMap", resourceVersion: "10" };

/** A deployment with only the fields that serve as evidence that nothing changed. */
export function aStanding(of: Partial<Parameters<typeof aDeployment>[0]> = {}): Deployment {
  const { spec, status, ...rest } = of;
  return aDeployment({
    ...rest,
    spec,
    status: {
      observedGeneration: 1,
      observedCommit: "c1",
      lastObjectsHash: "hash-1",
      conditions: [ready],
      lastDeployResult: aSummary(),
      lastDriftDetectionResultMessage: "no drift",
      ...status,
    },
  });
}

export function aRendered(over: Partial<CommandResult> = {}, deployment: object = {}): CommandResult {
  const result = aResult({ objects: [appliedObject()], ...over });
  const project = { deployments: [{ path: "app", renderedObjects: [] }], ...deployment };
  return { ...result, document: { ...result.document, deployment: project } };
}

/** `findUnsteady` searches files; by default, it returns `unsteady`. */
export function aSkippingWorld(
  deployment: Deployment = aStanding(),
  { findUnsteady, audit }: Partial<Pick<SkippingDeps, "findUnsteady" | "audit">> = {},
) {
  let now = Date.parse("2026-01-01T00:00:00Z");
  const secrets: Record<string, Record<string, string>> = { "shop/login": { password: "one" } };
  const sources = fakeSources();
  const applied = fakeApplied({ [settingsId]: settingsVersion });
  const others: Deployment[] = [];
  const deployments = fakeDeployments(deployment);
  const facts = { text: "1.32", kluctl: "2.28.2" };
  const unsteady: UnsteadyFiles = {};
  const reasons: (CheckReason | undefined)[] = [];
  const moved = { allowed: true, patches: [] as unknown[] };
  const skipping = createSkipping({
    deployments: {
      all: () => [deployment, ...others],
      moveTimes: (_ref, patch) => {
        moved.patches.push(patch);
        return Promise.resolve(moved.allowed);
      },
    },
    applied,
    sources,
    secrets: fakeSecrets(secrets),
    kluctl: () => Promise.resolve(facts.kluctl),
    clusterFacts: () => Promise.resolve(facts.text),
    findUnsteady: findUnsteady ?? (() => Promise.resolve(unsteady)),
    fullIntervalMs: () => 60 * minute,
    clock: { now: () => now },
    log: silentLog,
    audit,
    observe: { intervalCheck: (reason) => void reasons.push(reason) },
  });
  const identity: Identity = { secrets: [] };
  const signal = new AbortController().signal;
  return {
    skipping,
    deployment,
    deployments,
    sources,
    applied,
    secrets,
    others,
    facts,
    unsteady: unsteady as { templates?: string; charts?: string; outside?: string },
    reasons,
    moved,
    pass: (ms: number) => void (now += ms),
    /** Runs a reconciliation that finds nothing to do, or what `found` says. */
    async loop(found: Partial<Found> = {}) {
      await skipping.during(deployment.key, async () => {
        const before = await skipping.begin(deployment, signal);
        await skipping.learn(before, {
          deployment,
          checkout: { root: "/checkout", commit: "c1" },
          identity,
          rendered: aRendered(),
          deployed: false,
          clean: true,
          validated: false,
          deployResultId: "result-0",
          signal,
          ...found,
        });
      });
    },
    /** Checks at the next interval; returns the reason to reconcile, or that the check is skipped or postponed. */
    async ask(of: Deployment = deployment): Promise<CheckReason | "skipped" | "later"> {
      now += 5 * minute;
      const kind = await skipping.skipCheck(of);
      return kind === "check" ? (reasons.at(-1) ?? "requested") : kind;
    },
  };
}
