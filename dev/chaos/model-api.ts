/** The API server, as the model of kluctl reads and writes it. */
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { type ConfigMap, discriminatorLabel } from "./render.ts";

export interface Kubeconfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly "certificate-authority-data"?: string } },
  ];
  readonly users: readonly [
    { readonly user: { readonly "client-certificate-data"?: string; readonly "client-key-data"?: string } },
  ];
}

export interface LiveObject extends ConfigMap {
  readonly metadata: ConfigMap["metadata"] & { readonly uid: string; readonly resourceVersion: string };
}

class ApiFailure extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export type Api = ReturnType<typeof createApi>;

export function createApi({ clusters: [{ cluster }], users: [{ user }] }: Kubeconfig) {
  const bytes = (data: string | undefined) => (data === undefined ? undefined : Buffer.from(data, "base64"));
  const tls = {
    ca: bytes(cluster["certificate-authority-data"]),
    cert: bytes(user["client-certificate-data"]),
    key: bytes(user["client-key-data"]),
  };
  const send = cluster.server.startsWith("https:") ? httpsRequest : httpRequest;

  function ask(method: string, path: string, body?: object, type = "application/json"): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const options = { method, ...tls, timeout: 20_000, headers: { "content-type": type } };
      const req = send(`${cluster.server}${path}`, options, (res) => {
        const chunks: Buffer[] = [];
        res.on("error", reject);
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          const status = res.statusCode ?? 0;
          if (status < 300) resolve(text === "" ? undefined : JSON.parse(text));
          else reject(new ApiFailure(status, `the server was unable to return a response: status ${status}`));
        });
      });
      req.on("timeout", () => req.destroy(new Error(`${method} ${path}: i/o timeout`)));
      req.on("error", (error: NodeJS.ErrnoException) => {
        const words = error.code === "ECONNREFUSED" ? "connection refused" : "connection reset by peer";
        reject(new Error(`${method} ${path}: ${error.message} (${words})`));
      });
      req.end(body && JSON.stringify(body));
    });
  }

  const pathOf = ({ namespace, name }: { namespace: string; name: string }) =>
    `/api/v1/namespaces/${namespace}/configmaps/${name}`;
  const find = async <T>(path: string) => {
    try {
      return (await ask("GET", path)) as T;
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 404) return undefined;
      throw error;
    }
  };

  return {
    server: cluster.server,
    clusterId: async () =>
      ((await ask("GET", "/api/v1/namespaces/kube-system")) as { metadata: { uid: string } }).metadata.uid,
    find: (object: ConfigMap) => find<LiveObject>(pathOf(object.metadata)),
    apply: (object: ConfigMap, dryRun: boolean) =>
      ask(
        "PATCH",
        `${pathOf(object.metadata)}?fieldManager=kluctl&force=true${dryRun ? "&dryRun=All" : ""}`,
        object,
        "application/apply-patch+yaml",
      ) as Promise<LiveObject>,
    remove: (object: LiveObject) => ask("DELETE", pathOf(object.metadata)),
    async list(discriminator: string) {
      const selector = encodeURIComponent(`${discriminatorLabel}=${discriminator}`);
      const { items } = (await ask("GET", `/api/v1/configmaps?labelSelector=${selector}`)) as { items: LiveObject[] };
      return items.map((item) => ({ ...item, apiVersion: "v1" as const, kind: "ConfigMap" as const }));
    },
  };
}
