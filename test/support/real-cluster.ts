/**
 * The cluster of `npm run test:cluster`, in which pods really run. Tests need not clean up, because the cluster is
 * discarded as a whole.
 */
import { execFile } from "node:child_process";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { stringify } from "yaml";
import { startGitea } from "../../dev/parts/gitea.ts";
import { createGiteaClient, type GiteaClient } from "../../dev/parts/gitea-client.ts";
import { createWorkCopy } from "../../dev/parts/work-copy.ts";
import { nodeAddress } from "../../dev/cluster/node.ts";
import { findTools } from "../../dev/tools.ts";
import { chartDir, type Values } from "./helm.ts";
import type { TestRepository } from "./world.ts";
import { cacheDir } from "../../dev/cache.ts";

const run = promisify(execFile);
const { kubeconfig, stateDir } = JSON.parse(process.env["TEST_CLUSTER"] ?? "{}") as Record<string, string>;

export interface RealCluster {
  readonly kubeconfig: string;
  readonly dir: string;
  readonly kluctl: string;
  readonly kluctlCache: string;
  /** Throws with kubectl's output if it fails. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** Returns the parsed output of `kubectl … --output json`. */
  read<T>(...args: readonly string[]): Promise<T>;
  apply(...objects: readonly object[]): Promise<void>;
  /** Returns the whole output. */
  helm(...args: readonly string[]): Promise<string>;
  helm4(...args: readonly string[]): Promise<string>;
  /** Returns the path of a file with the values. */
  values(values: Values): Promise<string>;
}

export const chart = chartDir;

export async function openCluster(): Promise<RealCluster> {
  if (kubeconfig === undefined || stateDir === undefined) throw new Error("Run these with `npm run test:cluster`.");
  const [tools, dir] = await Promise.all([
    findTools(["kubectl", "kluctl", "helm", "helm4"], { say: () => undefined }),
    mkdtemp(join(stateDir, "test-")),
  ]);
  const env = { PATH: process.env["PATH"], HOME: dir, KUBECONFIG: kubeconfig };
  const runIt = async (program: string, args: readonly string[]) => {
    try {
      return await run(program, [...args], { env, cwd: dir, maxBuffer: 64 * 1024 * 1024 });
    } catch (error) {
      const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
      throw new Error(`${program} ${args.join(" ")}: ${stderr}${stdout}`, { cause: error });
    }
  };
  const kubectl = async (...args: readonly string[]) => (await runIt(tools.kubectl, args)).stdout;
  // Helm may print the output of chart tests to stderr.
  const helm = async (program: string, args: readonly string[]) => {
    const { stdout, stderr } = await runIt(program, args);
    return `${stdout}${stderr}`;
  };
  const write = async (name: string, content: string) => {
    const path = join(await mkdtemp(join(dir, "file-")), name);
    await writeFile(path, content);
    return path;
  };
  return {
    kubeconfig,
    dir,
    kluctl: tools.kluctl,
    kluctlCache: join(cacheDir(), "kluctl"),
    kubectl,
    async read<T>(...args: readonly string[]) {
      return JSON.parse(await kubectl(...args, "--output", "json")) as T;
    },
    async apply(...objects) {
      const list = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
      await kubectl("apply", "--filename", await write("objects.json", list));
    },
    helm: (...args) => helm(tools.helm, args),
    helm4: (...args) => helm(tools.helm4, args),
    values: (values) => write("values.yaml", stringify(values, { version: "1.1" })),
  };
}

export interface GitHost extends GiteaClient {
  readonly url: string;
  readonly token: string;
  /** Creates a repository; its pushes and pull requests are delivered to the webhook if one is given. */
  repo(name: string, webhook?: { readonly url: string; readonly secret: string }): Promise<HostedRepository>;
}

export interface HostedRepository extends TestRepository {
  /** API path of the repository. */
  readonly path: string;
}

/** Starts a Gitea that pods can reach. It ends with the cluster. */
export async function openGitHost(): Promise<GitHost> {
  const tools = await findTools(["gitea"], { say: () => undefined });
  const dir = await mkdtemp(join(stateDir!, "git-host-"));
  const gitea = await startGitea({ tools, stateDir: dir, host: nodeAddress });
  const client = createGiteaClient(gitea);
  return {
    ...client,
    url: gitea.url,
    token: gitea.token,
    async repo(name, webhook) {
      const repository = await client.createRepository(gitea.user, name);
      const events = ["push", "create", "delete", "pull_request"];
      if (webhook) await client.registerWebhook(repository, { ...webhook, events });
      const copy = await createWorkCopy(join(dir, "work", name), repository.pushUrl);
      return { url: repository.cloneUrl, path: `/repos/${gitea.user}/${name}`, ...copy };
    },
  };
}
