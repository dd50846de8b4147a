/** Where the cluster is and who we are there; and the one-context kubeconfig that kluctl gets. */
import path from "node:path";
import { KubeConfig, type User } from "@kubernetes/client-node";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { ConfigError } from "../errors.ts";

const TokenFiles = z.object({
  users: z
    .array(z.object({ name: z.string(), user: z.object({ tokenFile: z.string().optional() }).nullish() }))
    .nullish(),
});

/** client-node reads `token-file`, once; every other Kubernetes client writes `tokenFile`, and tokens rotate. */
class KubeConfigWithTokenFiles extends KubeConfig {
  override loadFromString(...[text, options]: Parameters<KubeConfig["loadFromString"]>): void {
    super.loadFromString(text, options);
    const { users } = TokenFiles.safeParse(parse(text)).data ?? {};
    this.users = this.users.map((user) => {
      const tokenFile = users?.find(({ name }) => name === user.name)?.user?.tokenFile;
      return tokenFile ? { ...user, authProvider: { name: "tokenFile", config: { tokenFile } } } : user;
    });
  }

  override loadFromFile(...[file, options]: Parameters<KubeConfig["loadFromFile"]>): void {
    super.loadFromFile(file, options);
    this.users = this.users.map((user) => {
      const tokenFile = tokenFileOf(user);
      if (tokenFile === undefined) return user;
      return {
        ...user,
        authProvider: { name: "tokenFile", config: { tokenFile: path.resolve(path.dirname(file), tokenFile) } },
      };
    });
  }
}

export interface KubeConfigOptions {
  readonly kubeconfig?: string | undefined;
  readonly text?: string | undefined;
  readonly context?: string | undefined;
}

/** Loads the given file or text, or what `KUBECONFIG`, `~/.kube/config` or the pod's own service account say. */
export function loadKubeConfig(options: KubeConfigOptions): KubeConfig {
  const kc = readKubeConfig(options);
  if (options.context !== undefined) {
    if (kc.getContextObject(options.context) === null) {
      const known = kc.getContexts().map(({ name }) => name);
      throw new ConfigError(
        `The kubeconfig has no context "${options.context}"; it has: ${known.join(", ") || "none"}.`,
      );
    }
    kc.setCurrentContext(options.context);
  }
  const server = kc.getCurrentCluster()?.server;
  // client-node's last resort is a port nobody listens on: without a cluster we want to say so.
  if (server === undefined || (options.kubeconfig === undefined && server === "http://localhost:8080")) {
    throw new ConfigError(
      "No Kubernetes cluster is configured: set KUBECONFIG, or run in a pod with a service account.",
    );
  }
  return kc;
}

/** What a parser says quotes the file, which holds logins: it is not passed on. */
function readKubeConfig({ kubeconfig: file, text }: KubeConfigOptions): KubeConfig {
  const kc = new KubeConfigWithTokenFiles();
  try {
    if (text !== undefined) kc.loadFromString(text);
    else if (file !== undefined) kc.loadFromFile(file);
    else kc.loadFromDefault();
    return kc;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why =
      code === "ENOENT" ? "there is no such file" : code === undefined ? "it is not a valid kubeconfig" : code;
    const name = file ?? process.env["KUBECONFIG"] ?? "~/.kube/config";
    throw new ConfigError(
      `The kubeconfig ${name} cannot be read: ${why}. Set KUBECONFIG or TOWLINE_KUBERNETES_KUBECONFIG to another.`,
    );
  }
}

/**
 * A kubeconfig with one context, `default`: what kluctl's own controller hands to kluctl, so projects that name other
 * contexts fail in the same way. Credentials that rotate stay files.
 */
export function kubeconfigText(kc: KubeConfig, impersonate?: string): string {
  const cluster = kc.getCurrentCluster();
  if (cluster === null) throw new Error("The kubeconfig's current context names no cluster.");
  // An empty name would not impersonate at all: the deployment would run with all that the server may do.
  if (impersonate !== undefined && impersonate.trim() === "") throw new Error("The user to impersonate has no name.");
  const user = kc.getCurrentUser();
  const tokenFile = user ? tokenFileOf(user) : undefined;
  return stringify(
    withoutAbsent({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "default",
      contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
      clusters: [
        {
          name: "default",
          cluster: {
            server: cluster.server,
            "certificate-authority": cluster.caFile,
            "certificate-authority-data": cluster.caFile ? undefined : cluster.caData,
            "insecure-skip-tls-verify": cluster.skipTLSVerify || undefined,
            "tls-server-name": cluster.tlsServerName,
            "proxy-url": cluster.proxyUrl,
          },
        },
      ],
      users: [
        {
          name: "default",
          user: {
            tokenFile,
            token: tokenFile ? undefined : user?.token,
            "client-certificate": user?.certFile,
            "client-certificate-data": user?.certFile ? undefined : user?.certData,
            "client-key": user?.keyFile,
            "client-key-data": user?.keyFile ? undefined : user?.keyData,
            username: user?.username,
            password: user?.password,
            exec: user?.exec,
            "auth-provider": tokenFile ? undefined : user?.authProvider,
            as: impersonate ?? user?.impersonateUser,
          },
        },
      ],
    }),
  );
}

function tokenFileOf(user: User): string | undefined {
  const file: unknown = user.authProvider?.config?.tokenFile;
  return typeof file === "string" ? file : undefined;
}

function withoutAbsent(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, v: unknown) => (v === null ? undefined : v)));
}
