/** Reads a kubeconfig: where the cluster is, and how to log in there. */
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { RequestOptions } from "node:https";
import { isIPv6 } from "node:net";
import path from "node:path";
// Imported file by file: client-node as a whole is 75 MB of generated code that is not used here.
import {
  type Cluster,
  type Context,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { parse } from "yaml";
import { z } from "zod";

const Kubeconfig = z.object({
  "current-context": z.string().nullish(),
  clusters: z.unknown(),
  contexts: z.unknown(),
  users: z.unknown(),
});
const TokenFiles = z.array(
  z.object({ name: z.string(), user: z.object({ tokenFile: z.string().optional() }).nullish() }),
);

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

interface Said {
  readonly clusters: readonly Cluster[];
  readonly users: readonly User[];
  readonly contexts: readonly Context[];
  readonly currentContext: string | undefined;
}

export interface ClusterAccess {
  readonly cluster: Cluster;
  readonly user: User | undefined;
  /** Adds the current login. Only a cluster behind a proxy needs an `agent` too. */
  applyTo(options: RequestOptions): Promise<void>;
}

/** Returns `undefined` if no cluster is configured. Parser errors are passed on, and may quote the file. */
export function findAccess(
  { file, text }: { file?: string | undefined; text?: string | undefined },
  contextName: string | undefined,
): ClusterAccess | { readonly contexts: readonly string[] } | undefined {
  const said = text !== undefined ? parseKubeconfig(text) : file !== undefined ? readFrom(file) : readDefault();
  if (said === undefined) return undefined;
  const wanted = contextName ?? said.currentContext;
  const context = said.contexts.find(({ name }) => name === wanted);
  if (contextName !== undefined && context === undefined) return { contexts: said.contexts.map(({ name }) => name) };
  const cluster = said.clusters.find(({ name }) => name === context?.cluster);
  if (cluster === undefined) return undefined;
  return createAccess(
    cluster,
    said.users.find(({ name }) => name === context?.user),
  );
}

export function tokenFileOf(user: User): string | undefined {
  const config = user.authProvider as { readonly config?: { readonly tokenFile?: unknown } } | null | undefined;
  return typeof config?.config?.tokenFile === "string" ? config.config.tokenFile : undefined;
}

/** The same cluster, for callers that bring a login of their own. */
export function withoutLogin({ cluster }: ClusterAccess): ClusterAccess {
  return createAccess(cluster, undefined);
}

function createAccess(cluster: Cluster, user: User | undefined): ClusterAccess {
  const exec = new ExecAuth();
  let whole: Promise<Pick<ClusterAccess, "applyTo">> | undefined;

  async function applyTo(options: RequestOptions): Promise<void> {
    if (cluster.skipTLSVerify) options.rejectUnauthorized = false;
    if (cluster.tlsServerName) options.servername = cluster.tlsServerName;
    const ca = await readBytes(cluster.caFile, cluster.caData);
    if (ca) options.ca = ca;
    if (user === undefined) return;
    const [cert, key] = await Promise.all([
      readBytes(user.certFile, user.certData),
      readBytes(user.keyFile, user.keyData),
    ]);
    if (cert) options.cert = cert;
    if (key) options.key = key;
    const headers: Record<string, string> = { ...(options.headers as Record<string, string> | undefined) };
    options.headers = headers;
    if (user.impersonateUser) headers["Impersonate-User"] = user.impersonateUser;
    const tokenFile = tokenFileOf(user);
    if (tokenFile !== undefined) headers["Authorization"] = `Bearer ${(await readFile(tokenFile, "utf8")).trim()}`;
    else if (exec.isAuthProvider(user)) await exec.applyAuthentication(user, options);
    if (user.token) headers["Authorization"] = `Bearer ${user.token}`;
    if (user.username) options.auth = `${user.username}:${user.password ?? ""}`;
  }

  return {
    cluster,
    user,
    async applyTo(options) {
      if (cluster.server.startsWith("http:") && !cluster.skipTLSVerify) {
        throw new Error("The kubeconfig's server is http://, which needs insecure-skip-tls-verify: true.");
      }
      if (!needsAllOfClientNode(cluster, user)) return applyTo(options);
      whole ??= openWithClientNode(cluster, user);
      return (await whole).applyTo(options);
    },
  };
}

/** All kinds of proxies, and logins that are no longer standard: rare enough to be loaded on demand. */
function needsAllOfClientNode({ proxyUrl }: Cluster, user: User | undefined): boolean {
  return Boolean(proxyUrl) || (Boolean(user?.authProvider) && !user?.exec && tokenFileOf(user as User) === undefined);
}

async function openWithClientNode(cluster: Cluster, user: User | undefined): Promise<Pick<ClusterAccess, "applyTo">> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, user ?? { name: "nobody" });
  return {
    async applyTo(options) {
      await config.applyToHTTPSOptions(options);
      if (!cluster.proxyUrl) delete options.agent;
    },
  };
}

async function readBytes(file: string | undefined, data: string | undefined): Promise<Buffer | undefined> {
  if (file) return readFile(file);
  return data ? Buffer.from(data, "base64") : undefined;
}

/**
 * Reads the files that `KUBECONFIG` names, where the first file to set a value wins; else `~/.kube/config`; else the
 * pod's service account.
 */
function readDefault(): Said | undefined {
  const files = (process.env["KUBECONFIG"] ?? "").split(path.delimiter).filter(Boolean);
  if (files.length > 0) return files.map(readFrom).reduce(merge);
  const ofUser = path.join(process.env["HOME"] ?? "", ".kube", "config");
  if (process.env["HOME"] && existsSync(ofUser)) return readFrom(ofUser);
  return existsSync(`${serviceAccount}/token`) ? ofPod(process.env) : undefined;
}

function merge(first: Said, second: Said): Said {
  return {
    clusters: [...first.clusters, ...second.clusters],
    users: [...first.users, ...second.users],
    contexts: [...first.contexts, ...second.contexts],
    currentContext: first.currentContext ?? second.currentContext,
  };
}

function ofPod({ KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" }: NodeJS.ProcessEnv): Said {
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  const authProvider = { name: "tokenFile", config: { tokenFile: `${serviceAccount}/token` } };
  return {
    clusters: [{ name: "pod", server, caFile: `${serviceAccount}/ca.crt`, skipTLSVerify: false }],
    users: [{ name: "pod", authProvider }],
    contexts: [{ name: "pod", cluster: "pod", user: "pod" }],
    currentContext: "pod",
  };
}

/** Paths in a kubeconfig are relative to its own directory. */
function readFrom(file: string): Said {
  const said = parseKubeconfig(readFileSync(file, "utf8"));
  const from = (name: string | undefined) => (name ? path.resolve(path.dirname(file), name) : name);
  return {
    ...said,
    clusters: said.clusters.map((one) => withDefined(one, { caFile: from(one.caFile) })),
    users: said.users.map((one) => {
      const tokenFile = from(tokenFileOf(one));
      const authProvider = tokenFile ? { name: "tokenFile", config: { tokenFile } } : undefined;
      return withDefined(one, { certFile: from(one.certFile), keyFile: from(one.keyFile), authProvider });
    }),
  };
}

/** client-node reads `token-file`, and only once; all other Kubernetes clients write `tokenFile`, and tokens rotate. */
function parseKubeconfig(text: string): Said {
  const { "current-context": currentContext, clusters, contexts, users } = Kubeconfig.parse(parse(text));
  const tokenFiles = TokenFiles.safeParse(users).data ?? [];
  return {
    clusters: newClusters(clusters),
    contexts: newContexts(contexts),
    users: newUsers(users).map((user) => {
      const tokenFile = tokenFiles.find(({ name }) => name === user.name)?.user?.tokenFile;
      return tokenFile ? { ...user, authProvider: { name: "tokenFile", config: { tokenFile } } } : user;
    }),
    currentContext: currentContext ?? undefined,
  };
}

function withDefined<T extends object>(object: T, more: Partial<Record<keyof T, unknown>>): T {
  const defined = Object.entries(more).filter(([, value]) => value !== undefined);
  return { ...object, ...Object.fromEntries(defined) };
}
