/** An API server with KluctlDeployments and what Flux applies, for the requests of the command line. */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { useTempDir } from "./world.ts";

export interface FakeResource {
  readonly apiVersion: string;
  readonly metadata: {
    name: string;
    namespace: string;
    uid: string;
    generation: number;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  spec: Record<string, unknown>;
  status?: Record<string, unknown>;
}

export interface FakeApiServer {
  readonly kubeconfig: string;
  readonly resources: FakeResource[];
  /** The kinds, as in paths, that the caller may not list. */
  readonly forbidden: Set<string>;
  add(name: string, more?: Partial<Omit<FakeResource, "metadata">> & { labels?: Record<string, string> }): FakeResource;
  /** Called after each patch, like a controller that watches the resource. */
  onPatched: (resource: FakeResource) => void;
}

const newer = "gitops.kluctl.io/v1beta1";

export async function useFakeApiServer(): Promise<FakeApiServer> {
  const resources: FakeResource[] = [];
  const forbidden = new Set<string>();
  const fake = { resources, forbidden, onPatched: (_resource: FakeResource): void => undefined };
  const server = createServer((request, response) => {
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    const { pathname, searchParams } = new URL(request.url ?? "", "http://api");
    const [, apiVersion = "", namespace, kind, name] =
      /^\/apis\/([^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?(?:\/([a-z]+)(?:\/([^/]+))?)?$/.exec(pathname) ?? [];
    const known = resources.filter((resource) => resource.apiVersion === apiVersion);
    const [, place] = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(pathname) ?? [];
    if (place !== undefined) return answer(["shop", "blog"].includes(place) ? 200 : 404, {});
    if (forbidden.has(kind ?? "")) return answer(403, { message: `may not list ${kind}` });
    if (kind === undefined) {
      const names = ["kluctldeployments", "gitrepositories", "kustomizations", "helmreleases"];
      return known.length > 0 ? answer(200, { resources: names.map((name) => ({ name })) }) : answer(404, {});
    }
    const fitting = known.filter(
      ({ metadata }) => (!namespace || metadata.namespace === namespace) && (!name || metadata.name === name),
    );
    if (name === undefined) {
      const [label, value] = searchParams.get("labelSelector")?.split("=") ?? [];
      const items = fitting.filter(({ metadata }) => !label || metadata.labels?.[label] === value);
      return answer(200, { items, metadata: { resourceVersion: "1" } });
    }
    const [resource] = fitting;
    if (resource === undefined) return answer(404, { message: `"${name}" not found` });
    if (request.method !== "PATCH") return answer(200, resource);
    void json(request).then((patch) => {
      const { metadata, spec } = patch as { metadata?: { annotations?: Record<string, string> }; spec?: object };
      Object.assign((resource.metadata.annotations ??= {}), metadata?.annotations);
      if (spec) {
        Object.assign(resource.spec, spec);
        resource.metadata.generation++;
      }
      fake.onPatched(resource);
      answer(200, resource);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const kubeconfig = join(await useTempDir(), "kubeconfig");
  const { port } = server.address() as { port: number };
  const cluster = { name: "fake", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } };
  const context = { name: "fake", context: { cluster: "fake", user: "fake" } };
  const users = [{ name: "fake", user: {} }];
  const config = { apiVersion: "v1", kind: "Config", clusters: [cluster], contexts: [context], users };
  writeFileSync(kubeconfig, JSON.stringify({ ...config, "current-context": "fake" }));
  return Object.assign(fake, {
    kubeconfig,
    add(
      name: string,
      { labels = {}, spec = {}, status, apiVersion = newer }: Parameters<FakeApiServer["add"]>[1] = {},
    ) {
      const git = { url: "https://git.example.com/shop", ref: { branch: "main" } };
      const source = apiVersion === newer ? { git } : git;
      const resource: FakeResource = {
        apiVersion,
        metadata: { name, namespace: "shop", uid: name, generation: 1, labels },
        spec: { interval: "5m", source, ...spec },
        status: { observedGeneration: 1, conditions: [ready("True", "deploy succeeded.")], ...status },
      };
      resources.push(resource);
      return resource;
    },
  });
}

export function ready(status: string, message: string) {
  return { type: "Ready", status, reason: "x", message, lastTransitionTime: "2026-01-02T03:04:05Z" };
}
