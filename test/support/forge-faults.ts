/** How every forge handles a host that refuses requests, does not answer, or answers nonsense. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { ForgeError } from "../../src/errors.ts";
import type { Forge } from "../../src/ports.ts";
import type { ForgeHost } from "./forge-host.ts";
import { type Fault, useForgeProxy } from "./forge-proxy.ts";

type Call = readonly [name: string, call: () => Promise<unknown>];

export function describeForgeFaults(useHost: () => Promise<ForgeHost>): void {
  /** A forge that has contacted its host already, with a proxy between them. */
  async function useFaulty(options: { timeoutMs?: number } = {}) {
    const host = await useHost();
    const { number, head } = await host.openPullRequest();
    const proxy = await useForgeProxy(host.apiUrl);
    const forge = await host.connect({ ...options, apiUrl: proxy.apiUrl });
    const key = { forge: forge.id, repoName: host.repoName, number };
    await forge.ownComments(key);
    proxy.clear();
    return { host, proxy, forge, key, calls: callsOf(forge, key, head) };
  }

  async function failure({ secrets }: ForgeHost, call: () => Promise<unknown>): Promise<ForgeError> {
    const error = await call().then(
      (value: unknown) => new Error(`it gave ${JSON.stringify(value)}`),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(ForgeError);
    for (const secret of secrets) expect(everything(error)).not.toContain(secret);
    return error as ForgeError;
  }

  test("the error for a wrong token says what to do", async () => {
    const host = await useHost();
    const token = "canary-0123456789abcdef0123456789abcdef0123";
    const forge = await host.connect({ token });
    const { number, head } = await host.openPullRequest();
    for (const [, call] of callsOf(forge, { forge: forge.id, repoName: host.repoName, number }, head)) {
      const error = await failure({ ...host, secrets: [...host.secrets, token] }, call);
      expect(error.problem).toBe("unauthorized");
      expect(error.message).toContain("token");
      expect(error.message).toMatch(/revoked|expired|new one|configured/);
    }
  });

  test("a rate limit is reported with its end, and no request is sent before that", async () => {
    const { host, proxy, calls } = await useFaulty();
    const end = new Date(Date.now() + 120_000);
    const spent = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(Math.ceil(end.getTime() / 1_000)) };
    const limits: [status: number, headers: Record<string, string>][] = [
      [429, { "retry-after": "120" }],
      [429, { "retry-after": end.toUTCString() }],
      [429, spent],
      [403, { "retry-after": "120" }],
      [403, spent],
    ];
    for (const [status, headers] of limits) {
      for (const [, call] of calls) {
        proxy.clear();
        proxy.fail((_req, res) => json(res.writeHead(status, { ...headers, "content-type": "application/json" })));
        const error = await failure(host, call);
        expect(error.problem).toBe("rate-limited");
        expect(error.retryAfterMs).toBeGreaterThan(90_000);
        expect(error.retryAfterMs).toBeLessThan(125_000);
        expect(proxy.requests).toHaveLength(1);
      }
    }
  });

  test("a rate limit without a usable time never leads to an excessive delay", async () => {
    const { host, proxy, calls } = await useFaulty();
    for (const header of ["", "soon", "-5", "99999999999999999999", "1e400"]) {
      proxy.fail((_req, res) =>
        json(res.writeHead(429, { "retry-after": header, "content-type": "application/json" })),
      );
      const error = await failure(host, calls[0][1]);
      expect(error.problem).toBe("rate-limited");
      const afterMs = error.retryAfterMs ?? 0;
      expect(afterMs).toBeGreaterThanOrEqual(0);
      expect(afterMs).toBeLessThanOrEqual(24 * 3_600_000);
    }
  });

  const faults: [name: string, fault: Fault][] = [
    ["500", (_req, res) => res.writeHead(500).end("Internal <b>Server</b> Error")],
    ["502 of a proxy", (_req, res) => res.writeHead(502, { "content-type": "text/html" }).end("<html>Bad Gateway")],
    ["503", (_req, res) => json(res.writeHead(503, { "content-type": "application/json" }))],
    ["a connection that ends at once", (req) => req.socket.destroy()],
    [
      "an answer that breaks off",
      (_req, res) => {
        res.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
        res.write('{"id": 1', () => res.destroy());
      },
    ],
  ];
  test("server errors and broken connections are transient", async () => {
    const { host, proxy, calls } = await useFaulty();
    for (const [name, fault] of faults) {
      proxy.fail(fault);
      for (const [, call] of calls) expect((await failure(host, call)).problem, name).toBe("unreachable");
    }
  });

  test("a host that does not answer, or not completely, is a transient error", async () => {
    const { host, proxy, calls } = await useFaulty({ timeoutMs: 1_000 });
    const slow: Fault[] = [
      () => undefined,
      (_req, res) => void res.writeHead(200, { "content-type": "application/json" }).write("["),
    ];
    for (const fault of slow) {
      proxy.fail(fault);
      const errors = await Promise.all(calls.map(([, call]) => failure(host, call)));
      expect(errors.map(({ problem }) => problem)).toEqual(calls.map(() => "unreachable"));
    }
  });

  test("a refused connection is a transient error", async () => {
    const host = await useHost();
    const { pathname } = new URL(host.apiUrl);
    const forge = await host.connect({ apiUrl: `http://127.0.0.1:1${pathname}` });
    const key = { forge: forge.id, repoName: host.repoName, number: 1 };
    const error = await failure(host, () => forge.pullRequest(key));
    expect(error.problem).toBe("unreachable");
    expect(error.message).toContain("127.0.0.1");
  });

  test("a redirect is not followed: the token stays with the host it is for", async () => {
    const { host, proxy, calls } = await useFaulty();
    const elsewhere: (string | undefined)[] = [];
    const other = createServer((req, res) => {
      elsewhere.push(req.url);
      res.end("{}");
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    onTestFinished(() => other.close().closeAllConnections());
    const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
    for (const status of [301, 302, 307, 308]) {
      proxy.fail((_req, res) => res.writeHead(status, { location }).end());
      for (const [, call] of calls) await failure(host, call);
    }
    expect(elsewhere).toEqual([]);
  });

  test("an answer that is not what the host documents is an error, not a crash", async () => {
    const { host, proxy, calls } = await useFaulty();
    const reading = new Set(["pullRequest", "createComment", "updateComment"]);
    for (const text of ["", "null", "[]", "{}", "7", '"text"', "[null]", '[{"id":{}}]', "{nonsense", "<html>Sign in"]) {
      proxy.fail((_req, res) => res.writeHead(200, { "content-type": "application/json" }).end(text));
      for (const [name, call] of calls) {
        // An empty list, or any answer to a status, is a valid answer.
        if (reading.has(name)) await failure(host, call);
        else await call().catch((error: unknown) => expect(error).toBeInstanceOf(ForgeError));
      }
    }
  });

  test("reading an endless answer stops at a limit", async () => {
    const { host, proxy, calls } = await useFaulty();
    const before = process.memoryUsage().rss;
    proxy.fail((req, res) => {
      const chunk = Buffer.alloc(1_000_000, " ");
      const more = (): void =>
        void (res.destroyed || (res.write(chunk) ? setImmediate(more) : res.once("drain", more)));
      res.writeHead(200, { "content-type": "application/json" });
      req.resume();
      more();
    });
    expect((await failure(host, calls[0][1])).problem).toBe("refused");
    expect(process.memoryUsage().rss - before).toBeLessThan(600_000_000);
  });

  test("errors do not repeat text of the host that could contain a token", async () => {
    const { host, proxy, calls } = await useFaulty();
    proxy.fail((req, res) => {
      const echoed = JSON.stringify({ message: JSON.stringify(req.headers), errors: [JSON.stringify(req.headers)] });
      res.writeHead(422, { "content-type": "application/json" }).end(echoed);
    });
    for (const [, call] of calls) expect((await failure(host, call)).problem).toBe("refused");
  });

  test("an aborted call ends at once", async () => {
    const { proxy, forge, key } = await useFaulty();
    const controller = new AbortController();
    proxy.fail(() => controller.abort(new Error("superseded")));
    await expect(forge.pullRequest(key, controller.signal)).rejects.toThrow("superseded");
    await expect(forge.createComment(key, "late", AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
  });
}

function callsOf(forge: Forge, key: Parameters<Forge["pullRequest"]>[0], commit: string): [Call, ...Call[]] {
  const status = { context: "towline", state: "success", description: "fine" } as const;
  return [
    ["pullRequest", () => forge.pullRequest(key)],
    ["openPullRequests", () => forge.openPullRequests(key.repoName)],
    ["closedPullRequests", () => forge.closedPullRequests(key.repoName, 0)],
    ["ownComments", () => forge.ownComments(key)],
    ["createComment", () => forge.createComment(key, "hello")],
    ["updateComment", () => forge.updateComment(key, "1", "hello")],
    ["deleteComment", () => forge.deleteComment(key, "1")],
    ["setStatus", () => forge.setStatus({ forge: key.forge, repoName: key.repoName, commit }, status)],
  ];
}

function json(res: { end(text: string): unknown }): void {
  res.end(JSON.stringify({ message: "said by the test" }));
}

/** Everything that a logger could print of an error: its message, its stack, its fields, and those of its causes. */
function everything(error: unknown, depth = 0): string {
  if (typeof error !== "object" || error === null || depth > 5) return String(error);
  const fields = Object.getOwnPropertyNames(error).map((name) =>
    everything((error as Record<string, unknown>)[name], depth + 1),
  );
  return [String(error), ...fields].join("\n");
}
