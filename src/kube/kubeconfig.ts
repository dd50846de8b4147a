/** Loads where the cluster is and which login we have, and writes the one-context kubeconfig for kluctl. */
import { ConfigError } from "../errors.ts";
import { type ClusterAccess, findAccess, tokenFileOf } from "./cluster-access.ts";

export interface KubeConfigOptions {
  readonly kubeconfig?: string | undefined;
  readonly text?: string | undefined;
  readonly context?: string | undefined;
}

/** Loads the given file or text; by default `KUBECONFIG`, `~/.kube/config` or the pod's own service account. */
export function loadKubeConfig(options: KubeConfigOptions): ClusterAccess {
  const found = readKubeConfig(options);
  if (found === undefined) {
    throw new ConfigError(
      "No Kubernetes cluster is configured: set KUBECONFIG, or run in a pod with a service account.",
    );
  }
  if ("contexts" in found) {
    const known = found.contexts.join(", ") || "none";
    throw new ConfigError(`The kubeconfig has no context "${options.context ?? ""}"; it has: ${known}.`);
  }
  return found;
}

/** Parser errors quote the file, which holds credentials: they are not passed on. */
function readKubeConfig({ kubeconfig: file, text, context }: KubeConfigOptions): ReturnType<typeof findAccess> {
  try {
    return findAccess({ file, text }, context);
  } catch (error) {
    const { code, errno } = error as NodeJS.ErrnoException;
    const why =
      code === "ENOENT" ? "there is no such file" : errno === undefined ? "it is not a valid kubeconfig" : code;
    const name = file ?? process.env["KUBECONFIG"] ?? "~/.kube/config";
    throw new ConfigError(
      `The kubeconfig ${name} cannot be read: ${why}. Set KUBECONFIG or TOWLINE_KUBERNETES_KUBECONFIG to another file.`,
    );
  }
}

/**
 * Returns a kubeconfig with one context, `default`, as kluctl's own controller gives to kluctl, so that projects that
 * name other contexts fail in the same way. Rotating credentials remain references to files.
 */
export function kubeconfigText({ cluster, user }: ClusterAccess, impersonate?: string): string {
  // An empty name would disable impersonation: the deployment would run with all rights of the server.
  if (impersonate !== undefined && impersonate.trim() === "") throw new Error("The user to impersonate has no name.");
  const tokenFile = user ? tokenFileOf(user) : undefined;
  return JSON.stringify(
    {
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
    },
    (_, value: unknown) => value ?? undefined, // drops absent values
  );
}
