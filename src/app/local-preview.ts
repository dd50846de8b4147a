/** Runs the server's preview on a working copy: the same code, with the caller's git and permissions. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WorkingCopy } from "../cli/working-copy.ts";
import { type Config, knownSecrets } from "../config.ts";
import { parseManifest } from "../apis/kluctl/manifest.ts";
import { createKluctl } from "../kluctl/kluctl.ts";
import type { KubeClient } from "../kube/client.ts";
import { readKubernetesVersion } from "../kube/cluster-facts.ts";
import { toRemoteCluster } from "../kube/remote-cluster.ts";
import { createSecrets } from "../kube/secrets.ts";
import { createServiceAccounts } from "../kube/service-accounts.ts";
import { createLimit } from "../kit/limit.ts";
import { createLogger } from "../log.ts";
import type { GitDeployment, Merge, Placed, PullRequest } from "../model.ts";
import { fitReport } from "../preview/fit-report.ts";
import { previewOpen } from "../preview/open.ts";
import { createKnownReferences } from "../preview/references.ts";
import { createReadIdentity, type ReadIdentity } from "../access/identity.ts";
import type { Report } from "../model/report.ts";
import { findProject } from "../source/clone.ts";

export interface LocalPreviewOptions {
  readonly copy: WorkingCopy;
  /** The deployments that follow its repository. */
  readonly deployments: readonly GitDeployment[];
  readonly client: KubeClient;
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export async function previewLocally(options: LocalPreviewOptions): Promise<Report> {
  const { copy, deployments, client, config, env, signal } = options;
  const log = createLogger({ level: "silent", format: "json", secrets: knownSecrets(config) });
  const dir = await mkdtemp(join(tmpdir(), "towline-preview-"));
  const kluctl = createKluctl({
    binary: config.kluctl.path ?? "kluctl",
    cacheDir: config.kluctl.cacheDir ?? join(config.dataDir, "kluctl-cache"),
    unpackedDir: config.kluctl.unpackedDir,
    workDir: join(dir, "kluctl-work"),
    kubeconfigFor: () => client.kubeconfig(),
    env,
    log,
    systemPython: config.kluctl.systemPython,
    rendersUnconfined: true, // it is the caller's own working copy
  });
  const secrets = createSecrets({ client });
  const limit = createLimit(config.preview.concurrency);
  let report: Report | undefined;
  try {
    const open = {
      pullRequest: toPullRequest(copy),
      previous: undefined,
      deployments,
      including: [], // the working copy is that of the deployments' own repository
      repo: deployments[0]?.repo,
      attempt: 1,
      lastAttempt: true,
      signal,
      log,
      save: (found: Report) => Promise.resolve(void (report = fitReport(found))),
      sleep: () => new Promise(() => undefined), // never resolves: there is no early report
    };
    await previewOpen(open, {
      secrets,
      sources: {
        heads: () => Promise.resolve(headsOf(copy)),
        commitsAt: () => Promise.resolve(new Map()), // only used for forks
        merge: () => mergeOf(copy),
      },
      kluctl,
      readIdentity: asCaller({ secrets, client, config }),
      references: createKnownReferences(),
      limit: (work, one) => limit.run(work, one),
      settings: {
        serverSecrets: knownSecrets(config),
        children: { kubernetesVersion: () => readKubernetesVersion(client), parse: parseManifest },
      },
      clusterName: async () => config.clusterName ?? (await client.clusterId()).slice(0, 8),
      newId: randomUUID,
      clock: { now: () => Date.now() },
    });
  } finally {
    await kluctl.stop();
    await rm(dir, { recursive: true, force: true, maxRetries: 3 });
  }
  if (report === undefined) throw new Error("the preview did not finish");
  return report;
}

/** Uses the permissions of the kubeconfig, whatever service account a deployment names. */
function asCaller({
  secrets,
  client,
  config,
}: Pick<LocalPreviewOptions, "client" | "config"> & { secrets: ReturnType<typeof createSecrets> }): ReadIdentity {
  const readIdentity = createReadIdentity({
    secrets,
    serviceAccounts: createServiceAccounts({ client }),
    toRemoteCluster: (kubeconfig) =>
      toRemoteCluster(kubeconfig, { impersonate: undefined, allowUnsafe: config.kubernetes.allowUnsafeKubeconfigs }),
    defaultServiceAccount: undefined,
  });
  return async (...args) => ({ ...(await readIdentity(...args)), impersonate: undefined });
}

function toPullRequest({ urls, head, baseBranch }: WorkingCopy): PullRequest {
  return {
    key: { forge: "local", repoName: "working/copy", number: 1 },
    url: "",
    state: "open",
    draft: false,
    head,
    baseBranch,
    fork: false,
    repoUrls: urls,
    updatedAt: Date.now(),
  };
}

/**
 * The checked-out commit counts as a branch of the repository, because the caller renders it with their own
 * permissions.
 */
function headsOf({ base, baseBranch, head, defaultRef }: WorkingCopy) {
  const commits = [
    ["refs/heads/", head],
    [`refs/heads/${baseBranch}`, base],
  ] as const;
  return { defaultRef, commits: new Map(commits) };
}

async function mergeOf(copy: WorkingCopy): Promise<Merge> {
  const merge = await copy.merge();
  if (merge.kind === "conflict") return merge;
  const project = async (path: string, _signal: AbortSignal, of?: string): Promise<Placed> => {
    // Below the merge, kluctl itself says that there is no such directory.
    if (of === undefined) return { slot: merge.dir, projectDir: join(merge.dir, path) };
    const slot = await copy.extract(of);
    return { slot, projectDir: await findProject(slot, path) };
  };
  return {
    kind: "merged",
    head: copy.head,
    base: copy.base,
    changed: { complete: true, paths: merge.changed },
    project,
    // For child deployments; the user's own files may be decrypted with the user's own keys.
    stubbed: async (...asked) => ({ ...(await project(...asked)), encrypted: new Map() }),
    baseHosts: () => Promise.resolve([]),
    line: () => Promise.resolve(undefined), // kluctl's message is enough at a terminal
    release: () => Promise.resolve(), // the caller releases the working copy
  };
}
