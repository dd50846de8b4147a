/** Fakes of the ports: they keep state in Maps and lists, which tests inspect. */
import { includedBy } from "../../src/model/includes.ts";
import { pino } from "pino";
import type {
  ChangedPaths,
  CommandResult,
  Deployment,
  Freshness,
  GitDeployment,
  Heads,
  Held,
  MalformedDeployment,
  MergeSource,
  QueriedObjects,
  Run,
  StatusPatch,
  ValidateResult,
} from "../../src/model.ts";
import type { JsonObject } from "../../src/kit/json.ts";
import { SourceError } from "../../src/errors.ts";
import { followsGit, isMalformed, keyText, type Key, manualKinds, manualResultField } from "../../src/model.ts";
import type {
  Deployments,
  Kluctl,
  Leases,
  Objects,
  Results,
  Secrets,
  ServiceAccounts,
  Sources,
} from "../../src/ports.ts";
import { createReadIdentity, type IdentityDeps, type ReadIdentity } from "../../src/access/identity.ts";
import { aResult } from "./deployments.ts";

export const silentLog = pino({ level: "silent" });

export interface RecordedEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/**
 * One cluster with KluctlDeployments; a status patch is applied as the API server would do it, and `get` returns the
 * result.
 */
export function fakeDeployments(...initial: (Deployment | MalformedDeployment)[]) {
  const objects = new Map(initial.map((deployment) => [keyText(deployment.key), deployment]));
  const patches: StatusPatch[] = [];
  const events: RecordedEvent[] = [];
  const find = (key: Key) => objects.get(keyText(key));

  function replace(key: Key, change: (deployment: Deployment | MalformedDeployment) => Partial<Deployment>): void {
    const deployment = find(key);
    if (deployment) objects.set(keyText(key), { ...deployment, ...change(deployment) } as Deployment);
  }

  const port: Deployments = {
    get: (key) => Promise.resolve(find(key)),
    resource(key) {
      const deployment = find(key);
      if (deployment === undefined) return Promise.resolve(undefined);
      const { annotations, labels, generation, status } = deployment;
      return Promise.resolve({ metadata: { ...key, annotations, labels, generation }, spec: { secret: "x" }, status });
    },
    all: () => [...objects.values()],
    whenSynced: () => Promise.resolve(),
    overridden({ key }, { spec, ...others }) {
      const deployment = find(key);
      if (!deployment || isMalformed(deployment)) return Promise.resolve(deployment);
      const wrong = Object.keys(others).length > 0;
      const patched = { ...deployment, spec: { ...deployment.spec, ...(spec as object) } };
      return Promise.resolve(wrong ? { ...deployment, problem: "not the spec" } : patched);
    },
    tracking: (repo) => [...objects.values()].filter((d): d is GitDeployment => followsGit(d) && d.repo === repo),
    including: (repo) =>
      [...objects.values()].filter((d): d is Deployment => !isMalformed(d) && includedBy(d).has(repo)),
    patchStatus({ key }, patch) {
      patches.push(patch);
      const { conditions, observedGeneration, observedCommit, lastObjectsHash, lastPrepareError, targetKey } = patch;
      const known = { conditions, observedGeneration, observedCommit, lastObjectsHash, lastPrepareError, targetKey };
      const set = Object.entries(known).filter(([, value]) => value !== undefined);
      const answers = manualKinds.map(manualResultField).filter((field) => field in patch);
      replace(key, ({ status }) => ({
        status: {
          ...status,
          ...Object.fromEntries(set.map(([name, value]) => [name, value ?? undefined])),
          ...Object.fromEntries(answers.map((field) => [field, merged(status[field], patch[field])])),
        },
      }));
      return Promise.resolve(find(key)?.generation);
    },
    moveTimes({ key }, patch) {
      patches.push(patch);
      return Promise.resolve(find(key) !== undefined);
    },
    setFinalizer({ key }, name, present) {
      replace(key, ({ finalizers }) => ({
        finalizers: present ? [...finalizers, name] : finalizers.filter((other) => other !== name),
      }));
      return Promise.resolve();
    },
    removeAnnotation({ key }, name) {
      replace(key, ({ annotations: { [name]: _, ...annotations } }) => ({ annotations }));
      return Promise.resolve();
    },
    setAnnotation({ key }, name, value) {
      replace(key, ({ annotations: { [name]: _, ...annotations } }) => ({
        annotations: { ...annotations, ...(value !== undefined && { [name]: value }) },
      }));
      return Promise.resolve();
    },
    event(_subject, type, reason, message) {
      events.push({ type, reason, message });
    },
  };
  return { ...port, objects, patches, events, status: (key: Key) => find(key)?.status };
}

/** Applies one level of a JSON merge patch. */
function merged(before: object | undefined, patch: unknown): unknown {
  const entries = Object.entries({ ...before, ...(patch as object) });
  return Object.fromEntries(entries.filter(([, value]) => value !== null));
}

/** A kluctl that returns the given answers and records its runs. */
export function fakeKluctl(answers: Partial<Record<keyof Kluctl, CommandResult | Error>> = {}) {
  const runs: { command: keyof Kluctl; run: Partial<Run> }[] = [];
  const answer = (command: keyof Kluctl) => (run: Partial<Run>) => {
    runs.push({ command, run });
    const result = answers[command] ?? aResult();
    return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
  };
  const valid: ValidateResult = {
    document: { startTime: "2026-01-01T00:00:00Z", endTime: "2026-01-01T00:00:01Z", ready: true },
    ready: true,
    errors: [],
    warnings: [],
  };
  const port: Kluctl = {
    diff: answer("diff"),
    render: answer("render"),
    deploy: answer("deploy"),
    pokeImages: answer("pokeImages"),
    version: () => Promise.resolve("2.28.2"),
    prune: answer("prune"),
    delete: answer("delete"),
    validate(run) {
      runs.push({ command: "validate", run });
      return Promise.resolve(valid);
    },
  };
  return { ...port, runs, answers, commands: () => runs.map(({ command }) => command) };
}

/** Deletes the given objects except for those in `refused`. */
export function fakeObjects() {
  const deleted: string[] = [];
  const refused = new Map<string, string>();
  /** What exists, by kind and name; a message: it cannot be read. */
  const existing = new Map<string, JsonObject | string>();
  const readAs: (string | undefined)[] = [];
  const port: Objects = {
    read(queries, run) {
      readAs.push(run.impersonate);
      const answers = queries.map(({ kind, name }): QueriedObjects => {
        const found = [...existing].flatMap(([id, one]) =>
          id === `${kind} ${name ?? id.slice(kind.length + 1)}` ? [one] : [],
        );
        const [problem] = found.filter((one) => typeof one === "string");
        if (problem !== undefined) return { problem, isPermanent: true };
        return { objects: found.filter((one) => typeof one !== "string") };
      });
      return Promise.resolve(answers);
    },
    delete(doomed, _run, { dryRun }) {
      const errors = doomed.flatMap(({ ref }) => {
        const message = refused.get(ref.name);
        return message === undefined ? [] : [{ ref, message }];
      });
      if (!dryRun) deleted.push(...doomed.map(({ name }) => name).filter((name) => !refused.has(name)));
      return Promise.resolve(errors);
    },
  };
  return { ...port, deleted, refused, existing, readAs };
}

/** The results of the next merges. If `paths` has entries, any other path of the project is reported as missing. */
interface FakeMerge {
  changed: ChangedPaths;
  conflict?: readonly string[];
  error?: Error;
  paths?: readonly string[];
  /** The encrypted files of the merge, and of the commit it is compared with. */
  encrypted?: ReadonlyMap<string, string>;
  encryptedBefore?: ReadonlyMap<string, string>;
  /** Those of single commits. */
  encryptedOf?: ReadonlyMap<string, ReadonlyMap<string, string>>;
  hosts?: readonly string[];
  /** Texts of files by their paths. */
  files?: Readonly<Record<string, string>>;
  /** Without encrypted files, the merge adds the project unless this is set. */
  inBase?: boolean;
  /** Throws if there is no such project. `of`: another commit than the merge. */
  stubbed?: (of: string | undefined, path: string) => void | Promise<void>;
}

const nameOf = (commit: string | undefined, { base }: MergeSource) => (commit === base ? "base" : commit);

/** A remote whose refs a test changes. */
export function fakeSources(refs: Record<string, string> = { "refs/heads/main": "c1" }) {
  const released: string[] = [];
  /** `changes`: only the difference between two commits cannot be determined. */
  const failing: { error?: Error; changes?: Error } = {};
  const merge: FakeMerge = { changed: { complete: false, paths: [] } };
  const merges: MergeSource[] = [];
  const changed: { paths: readonly string[] } = { paths: [] };
  /** The freshness that each question about refs and each checkout required. */
  const required: (Freshness | undefined)[] = [];
  /** The URL of each question about refs. */
  const asked: string[] = [];
  /** The commit that each checkout passed as the previous one. */
  const seen: (string | undefined)[] = [];
  /** The commits that a commit leads back to, with itself; if there is no entry, only itself. */
  const lineage = new Map<string, readonly string[]>();
  const heads = (): Heads => ({ defaultRef: "refs/heads/main", commits: new Map(Object.entries(refs)) });
  const port: Sources = {
    heads({ url }, freshness) {
      required.push(freshness);
      asked.push(url);
      return failing.error ? Promise.reject(failing.error) : Promise.resolve(heads());
    },
    commitsAt: (_repository, names) =>
      failing.error
        ? Promise.reject(failing.error)
        : Promise.resolve(new Map(Object.entries(refs).filter(([name]) => names.includes(name)))),
    checkout(source, freshness) {
      required.push(freshness);
      if (source.kind !== "oci") seen.push(source.seen);
      if (failing.error) return Promise.reject(failing.error);
      const branch = source.kind === "oci" ? undefined : source.ref.branch;
      const commit = refs[`refs/heads/${branch ?? "main"}`] ?? "none";
      const release = () => Promise.resolve(void released.push(commit));
      return Promise.resolve({ root: "/checkout", projectDir: "/checkout", commit, release });
    },
    tag: () => Promise.resolve({ digest: undefined, checkedOut: undefined }),
    slowForMs: () => undefined,
    contains: (_repository, commit, ancestor) =>
      failing.error
        ? Promise.reject(failing.error)
        : Promise.resolve((lineage.get(commit) ?? [commit]).includes(ancestor)),
    knownHeads: () => Promise.resolve(undefined),
    knownAuthorship: () => Promise.resolve(undefined),
    authorship: () => Promise.resolve({ subject: "Raise the limit", author: "Ada" }),
    changes: () =>
      failing.changes ? Promise.reject(failing.changes) : Promise.resolve({ complete: true, ...changed }),
    merge(source) {
      merges.push(source);
      const error = failing.error ?? merge.error;
      if (error) return Promise.reject(error);
      if (merge.conflict) return Promise.resolve({ kind: "conflict", paths: merge.conflict });
      return Promise.resolve({
        kind: "merged",
        changed: merge.changed,
        head: source.head,
        base: source.base,
        project: (path, _signal, of) =>
          (of === undefined || merge.inBase) && (merge.paths === undefined || merge.paths.includes(path))
            ? Promise.resolve({ slot: "/merge", projectDir: `/${nameOf(of, source) ?? "merge"}/${path}` })
            : Promise.reject(new SourceError("path-not-found", `there is no directory ${path}`)),
        async stubbed(path, _signal, of) {
          await merge.stubbed?.(of, path);
          return {
            slot: "/stubbed",
            projectDir: `/${nameOf(of, source) ?? "stubbed"}/${path}`,
            encrypted:
              merge.encryptedOf?.get(of ?? "") ??
              (of === undefined ? merge.encrypted : merge.encryptedBefore) ??
              new Map<string, string>(),
          };
        },
        baseHosts: () => Promise.resolve(merge.hosts ?? []),
        line: (path, line) => Promise.resolve(merge.files?.[path]?.split("\n")[line - 1]),
        release: () => Promise.resolve(void released.push(`merge of ${source.head}`)),
      });
    },
  };
  return { ...port, refs, failing, released, nextMerge: merge, merges, changed, required, asked, seen, lineage };
}

export function fakeLeases() {
  const held = new Set<string>();
  const lost = new AbortController();
  const port: Leases & { untouchedSince: number | undefined } = {
    untouchedSince: undefined,
    hold(key) {
      if (held.has(keyText(key))) return Promise.resolve(undefined);
      held.add(keyText(key));
      const lease: Held = {
        lost: lost.signal,
        onRenewed: () => () => undefined,
        untouchedSince: this.untouchedSince,
        release: () => Promise.resolve(void held.delete(keyText(key))),
      };
      return Promise.resolve(lease);
    },
  };
  return Object.assign(port, { held, lose: () => lost.abort() });
}

export function fakeResults() {
  const commands: Readonly<Record<string, unknown>>[] = [];
  const validations: Readonly<Record<string, unknown>>[] = [];
  const port: Results = {
    storeCommand: (result) => Promise.resolve(commands.push(result.document) > 0),
    storeValidate: (document) => Promise.resolve(validations.push(document) > 0),
  };
  return { ...port, commands, validations };
}

export function fakeSecrets(secrets: Record<string, Record<string, string>> = {}): Secrets {
  return { get: (namespace, name) => Promise.resolve(secrets[`${namespace}/${name}`]) };
}

/** The real implementation, on a cluster with the kubeconfig it is given. */
export function fakeReadIdentity(deps: Partial<IdentityDeps> = {}): ReadIdentity {
  return createReadIdentity({
    secrets: fakeSecrets(),
    serviceAccounts: fakeServiceAccounts(),
    toRemoteCluster: (kubeconfig, impersonate) =>
      Promise.resolve({ kubeconfig: `${kubeconfig} as ${impersonate}`, fingerprint: "f" }),
    ...deps,
  });
}

/** `namespace/name` → annotations; a token names its account and its audience. */
export function fakeServiceAccounts(accounts: Record<string, Record<string, string>> = {}): ServiceAccounts {
  return {
    annotations: (namespace, name) => Promise.resolve(accounts[`${namespace}/${name}`]),
    createToken: (namespace, name, { audience, seconds }) =>
      Promise.resolve(`token of ${namespace}/${name} for ${audience}, ${seconds} s`),
  };
}
