/** A client of kluctl's web UI that works like its page: a login, requests, and two websockets. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, onTestFinished } from "vitest";
import { freePort } from "../../dev/parts/port.ts";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import type { TestWorld } from "./world.ts";
import { type TestCluster } from "./world-cluster.ts";
import { patience } from "./patience.ts";

type Json = Readonly<Record<string, unknown>>;

export interface WebUi {
  /** Resolves to `undefined` unless the status is 200. */
  get(endpoint: string, query?: Record<string, string>): Promise<Json | undefined>;
  /** Resolves to the HTTP status. */
  post(endpoint: string, body: object): Promise<number>;
  /** The messages of the events socket so far, newest last. */
  events(query?: Record<string, string>): readonly Json[];
  /** The messages of the logs socket, for as long as the test runs. */
  logs(query: Record<string, string>): readonly Json[];
}

/**
 * Logs in as the administrator, whom the API server knows as `kluctl-webui-admin` and who has all rights in these
 * namespaces.
 */
export async function useWebUi(world: TestWorld, clusters: readonly TestCluster[]): Promise<WebUi> {
  const { kluctl, dir, cluster } = world;
  const { namespace, core } = cluster;
  for (const { create } of clusters) {
    await create({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { name: "webui" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "kluctl-webui-admin" }],
    } as KubernetesObject);
  }
  const password = "the-password-of-the-web-ui";
  // Without it, the web UI would create one in the namespace `kluctl-system`, which is shared.
  await core.createNamespacedSecret({
    namespace,
    body: {
      metadata: { name: "webui-secret" },
      stringData: { "auth-secret": "a-secret-of-16-or", "admin-password": password, "viewer-password": password },
    },
  });
  const port = await freePort();
  const address = ["--host", "127.0.0.1", "--port", String(port)];
  const args = ["webui", "run", "--no-update-check", "--only-api", "--in-cluster", "--controller-namespace", namespace];
  const child = spawn(kluctl, [...args, ...address], { env: kluctlEnvironment(world), cwd: dir, stdio: "ignore" });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });

  const url = `http://127.0.0.1:${port}`;
  const ready = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await expect.poll(ready, patience).toBe(true);
  const credentials = JSON.stringify({ username: "admin", password });
  const json = { "Content-Type": "application/json" };
  const login = await fetch(`${url}/auth/staticLogin`, { method: "POST", headers: json, body: credentials });
  expect(login.status).toBe(200);
  const cookie = login.headers
    .getSetCookie()
    .map((each) => each.split(";", 1)[0])
    .join("; ");

  const pathOf = (endpoint: string, query: Record<string, string> = {}) =>
    `/api/${endpoint}?${new URLSearchParams(query).toString()}`;
  function listen(endpoint: string, query: Record<string, string>): readonly Json[] {
    const heard: Json[] = [];
    const connect = () => {
      const socket = new WebSocket(`ws://127.0.0.1:${port}${pathOf(endpoint, query)}`, {
        headers: { cookie },
      } as never);
      socket.onmessage = ({ data }) => heard.push(...[JSON.parse(String(data)) as Json | Json[]].flat());
      return socket;
    };
    let socket = connect();
    let open = true;
    // Reconnects like the page.
    socket.onclose = function again() {
      if (open) setTimeout(() => ((socket = connect()).onclose = again), 500);
    };
    onTestFinished(() => {
      open = false;
      socket.close();
    });
    return heard;
  }

  return {
    async get(endpoint, query) {
      const answer = await fetch(url + pathOf(endpoint, query), { headers: { cookie } });
      return answer.status === 200 ? ((await answer.json()) as Json) : undefined;
    },
    async post(endpoint, body) {
      const options = { method: "POST", headers: { ...json, cookie }, body: JSON.stringify(body) };
      const answer = await fetch(url + pathOf(endpoint), options);
      await answer.arrayBuffer();
      return answer.status;
    },
    events: (query = {}) => listen("events", query),
    logs: (query) => listen("logs", query),
  };
}
