/** A client that has only a service account's token, and the API server's answers to it. */
import { writeFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { useTempDir } from "./world.ts";
import type { TestCluster } from "./world-cluster.ts";

export interface Asked {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  readonly path: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly message: string;
}

export interface ApiLogin {
  /** Path of a kubeconfig with the token. */
  readonly kubeconfig: string;
  ask(asked: Asked): Promise<Answer>;
}

export async function useApiLogin(
  { core, config }: Pick<TestCluster, "core" | "config">,
  { namespace, name }: { namespace: string; name: string },
): Promise<ApiLogin> {
  const body = { spec: { audiences: [] } };
  const { status } = await core.createNamespacedServiceAccountToken({ name, namespace, body });
  const { token = "" } = status ?? {};
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Error("The kubeconfig's current context names no cluster.");
  const login = new KubeConfig();
  login.loadFromClusterAndUser(cluster, { name, token });
  const kubeconfig = join(await useTempDir(), "kubeconfig");
  await writeFile(kubeconfig, login.exportConfig(), { mode: 0o600 });
  const ca = Buffer.from(cluster.caData ?? "", "base64");
  return {
    kubeconfig,
    ask: ({ method, path, body: content, headers = {} }) =>
      new Promise((resolve, reject) => {
        const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
        const sent = request(
          `${cluster.server}${path}`,
          { method, ca, headers: { authorization: `Bearer ${token}`, "content-type": type, ...headers } },
          (answer) => {
            let text = "";
            answer.setEncoding("utf8");
            answer.on("data", (chunk: string) => (text += chunk));
            answer.on("end", () => resolve({ status: answer.statusCode ?? 0, message: text }));
            answer.on("error", reject);
          },
        );
        sent.on("error", reject);
        sent.end(content && JSON.stringify(content));
      }),
  };
}
