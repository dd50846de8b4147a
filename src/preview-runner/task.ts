/** What a server sends to its preview runner, and what it gets back. Nothing runs unless both have the same version. */
import { z } from "zod";
import { type DiffOptions, type LocalOverride, noCredentials, type RenderOptions, type Run } from "../model.ts";

const text = z.string();
const optional = z.string().optional();
const texts = z.array(z.string());

const tls = { cert: optional, key: optional, ca: optional, insecureSkipTlsVerify: z.boolean() };
const git = z.object({
  ...{ host: text, namedHost: optional, path: optional, secretName: text, username: text, password: optional },
  ...{ identity: optional, knownHosts: optional, ca: optional },
});
const oci = z.object({
  ...tls,
  ...{ registry: text, repository: optional, secretName: text, username: optional, password: optional },
  ...{ identityToken: optional, token: optional, plainHttp: z.boolean() },
});
const helm = z.object({
  ...tls,
  ...{ credentialsId: optional, host: text, path: optional, secretName: text, username: optional, password: optional },
  passCredentialsAll: z.boolean(),
});

const run = z.object({
  deployment: z.object({ namespace: text, name: text }),
  reconcileId: text,
  target: optional,
  targetNameOverride: optional,
  context: optional,
  args: z.record(text, z.unknown()).optional(),
  images: z.array(z.record(text, z.unknown())),
  includeTags: texts,
  excludeTags: texts,
  includeDeploymentDirs: texts,
  excludeDeploymentDirs: texts,
  credentials: z.object({ git: z.array(git), oci: z.array(oci), helm: z.array(helm) }),
  decryption: z
    .strictObject({
      secretName: optional,
      data: z.record(text, text),
      webIdentity: z.object({ roleArn: text, token: text }).optional(),
    })
    .optional(),
  timeoutMs: z.number(),
});

const access = z.object({
  kubeconfig: text,
  env: z.record(text, text),
  /** Ports on the server's loopback, as in the kubeconfig and the environment. */
  ports: z.array(z.int().min(1).max(65_535)).max(8),
});

const diff = z.object({
  command: z.literal("diff"),
  options: z.object({ forceApply: z.boolean(), replaceOnError: z.boolean(), forceReplaceOnError: z.boolean() }),
  access,
});

/** Renders from files alone, without access to the server or anything else. */
const render = z.object({ command: z.literal("render"), options: z.object({ kubernetesVersion: optional }) });

/** Never that of a project's clone, and never outside of the slot. */
const overrideName = /^override-\d{1,2}$/;

/** The overrides of a task, and the directories that have to be sent with it. */
export function toTaskOverrides(localOverrides: readonly LocalOverride[]) {
  const dirs = [...new Set(localOverrides.map(({ path }) => path))];
  const nameOf = (path: string) => `override-${dirs.indexOf(path)}`;
  return {
    overrides: localOverrides.map(({ repoKey, path }) => ({
      host: repoKey.host,
      path: repoKey.path,
      dir: nameOf(path),
    })),
    others: dirs.map((dir) => ({ name: nameOf(dir), dir })),
  };
}

export const taskSchema = z.object({
  call: z.discriminatedUnion("command", [diff, render]),
  run,
  /** Relative to the slot, like the directories of the overrides. */
  projectDir: text,
  /** Clones that take the place of repositories that the project includes. */
  overrides: z
    .array(z.object({ host: text, path: text, dir: z.string().regex(overrideName) }))
    .max(20)
    .optional(),
});

export type Task = z.output<typeof taskSchema>;
export type TaskCall = Task["call"];
export type TaskRun = z.output<typeof run>;
export type TaskAccess = z.output<typeof access>;

interface Access {
  readonly kubeconfig: string;
  readonly env: Readonly<Record<string, string>>;
  readonly ports: readonly number[];
}

export function accessOf(call: TaskCall): TaskAccess | undefined {
  return call.command === "diff" ? call.access : undefined;
}

/** The parts of a run that the runner needs: no login to a cluster, and no list of secrets to mask. */
export function toTaskRun(wanted: Run): TaskRun {
  const { deployment, reconcileId, target, targetNameOverride, context, args, images, timeoutMs } = wanted;
  const { includeTags, excludeTags, includeDeploymentDirs, excludeDeploymentDirs, credentials, decryption } = wanted;
  const { namespace, name } = deployment;
  const filters = { includeTags, excludeTags, includeDeploymentDirs, excludeDeploymentDirs };
  // Parsed with the schema, so that fields that it does not have are not sent.
  return run.parse({
    ...{ deployment: { namespace, name }, reconcileId, target, targetNameOverride, context, args, images, timeoutMs },
    ...{ ...filters, credentials, decryption },
  });
}

export function toDiffCall({ forceApply, replaceOnError, forceReplaceOnError }: DiffOptions, by: Access): TaskCall {
  const { kubeconfig, env, ports } = by;
  const options = { forceApply, replaceOnError, forceReplaceOnError };
  return { command: "diff", options, access: { kubeconfig, env: { ...env }, ports: [...ports] } };
}

export function toRenderCall({ kubernetesVersion }: RenderOptions): TaskCall {
  return { command: "render", options: { kubernetesVersion } };
}

/** Without the deployment's logins and decryption keys. */
export function toOfflineRun(wanted: Run): TaskRun {
  return toTaskRun({ ...wanted, credentials: noCredentials, decryption: undefined });
}

/** The runner's version and the isolation that its kernel and network provide; sent before each task. */
export const reportSchema = z.object({
  version: text,
  /** Isolation feature → what provides it. */
  provided: z.record(text, text),
  /** Missing isolation feature → why, and what to do. */
  missing: z.record(text, text),
});

export type RunnerReport = z.output<typeof reportSchema>;

export const outcomeSchema = z.union([
  z.object({ done: z.literal(true) }),
  z.object({
    failed: z.enum(["prepare", "unavailable", "timeout", "stopped", "signal", "idle", "other"]),
    message: z.string().max(2 * 1024 ** 2),
  }),
]);

export type TaskOutcome = z.output<typeof outcomeSchema>;
