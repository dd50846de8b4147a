/**
 * The deployments of several APIs, so that the rest of the server sees each name once. If more than one API has a name,
 * the resource of the first API wins and the others give way.
 */
import { createDeploymentIndex } from "../kube/deployment-index.ts";
import { createEvents } from "../kube/events.ts";
import { whenSynced } from "../kube/when-synced.ts";
import type { AnyDeployment, DeploymentChange, DeploymentRef, Key } from "../model.ts";
import type { Deployments } from "../ports.ts";
import type { DeploymentApi } from "./api.ts";
import { createOneApi, type OneApi, type OneApiDeps } from "./one-api.ts";

export interface DeploymentsDeps extends Omit<OneApiDeps, "api" | "isTaken"> {
  /** The first one wins. */
  readonly apis: readonly [DeploymentApi, ...DeploymentApi[]];
}

export interface WatchedDeployments extends Deployments {
  /**
   * Starts the watch. Resolves once all deployments have been listed, however long that takes, or when stopped. `mayWrite`:
   * whether this server, and no other controller, serves them; by default it does.
   */
  start(mayWrite?: () => boolean): Promise<void>;
  stop(): Promise<void>;
  /** From memory. */
  find(key: Key): AnyDeployment | undefined;
  /** Registers a callback for each change; existing deployments are reported as `added`, now or by the first list. */
  onChange(callback: (change: DeploymentChange) => void): void;
  /** Seconds since the last sign of life of the watch that has been silent for longest. */
  age(): number;
  synced(): boolean;
  /** Why the watch does not work at the moment, as text for users. */
  problem(): string | undefined;
}

export function createDeployments({ apis, ...deps }: DeploymentsDeps): WatchedDeployments {
  const { client, controllerName: component, log } = deps;
  const index = createDeploymentIndex(log);
  const events = createEvents({ client, component, log });
  const [first, ...others] = apis;
  const each: [OneApi, ...OneApi[]] = [createOneApi({ ...deps, api: first, isTaken: () => false })];
  for (const api of others) {
    const before = [...each];
    each.push(createOneApi({ ...deps, api, isTaken: (key) => before.some(({ find }) => find(key) !== undefined) }));
  }
  for (const { onChange } of each) {
    onChange(({ kind, deployment }) => {
      if (kind === "removed") index.remove(deployment);
      const [winner, ...losers] = each.filter(({ find }) => find(deployment.key) !== undefined);
      const found = winner?.find(deployment.key);
      if (found !== undefined) index.set(found);
      for (const { giveWay } of losers) giveWay(deployment.key);
    });
  }

  const synced = () => each.every((one) => one.synced());
  const problem = () => each.map((one) => one.problem()).find((why) => why !== undefined);
  const apiOf = ({ apiVersion }: DeploymentRef) => each.find(({ api }) => api.apiVersion === apiVersion) ?? each[0];
  return {
    find: index.find,
    all: index.all,
    tracking: index.tracking,
    including: index.including,
    onChange: index.onChange,
    async start(mayWrite = () => true) {
      await Promise.all(each.map((one) => one.start(mayWrite)));
    },
    async stop() {
      await Promise.all(each.map((one) => one.stop()));
      await events.idle();
    },
    age: () => Math.max(...each.map((one) => one.age())),
    synced,
    problem,
    whenSynced: (signal) => whenSynced({ synced, problem }, log, signal),
    async get(key) {
      for (const one of each) {
        const found = await one.get(key);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    async resource(key) {
      for (const one of each) {
        const found = await one.resource(key);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    overridden: (ref, patch) => apiOf(ref).overridden(ref, patch),
    patchStatus: (ref, patch, signal) => apiOf(ref).patchStatus(ref, patch, signal),
    moveTimes: (ref, patch) => apiOf(ref).moveTimes(ref, patch),
    setFinalizer: (ref, name, present) => apiOf(ref).setFinalizer(ref, name, present),
    removeAnnotation: (ref, name, value) => apiOf(ref).removeAnnotation(ref, name, value),
    setAnnotation: (ref, name, value) => apiOf(ref).setAnnotation(ref, name, value),
    event: events.report,
  };
}
