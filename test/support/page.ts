/** The page's routes, with fakes behind them. */
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import express from "express";
import { expect, onTestFinished } from "vitest";
import { createPageAccess, type PageAccessDeps } from "../../src/web/access.ts";
import { createPageEvents, type PageEventsDeps } from "../../src/web/events.ts";
import type { PageDeployment, PageFacts } from "../../src/web/facts.ts";
import { createPageLog } from "../../src/web/log.ts";
import type { PageActions, PageWrite, PossibleActions } from "../../src/web/writes.ts";
import { seesAll } from "../../src/web/sight.ts";
import { createPageRoutes } from "../../src/web/routes.ts";
import { RequestError } from "../../src/errors.ts";
import { stateOf } from "../../src/views/state.ts";
import { aDeployment } from "./deployments.ts";
import { silentLog } from "./fakes.ts";

export const pageToken = "the-token-of-this-page-123";
export const pageBearer = { Authorization: `Bearer ${pageToken}` };
const shop: PageDeployment = stateOf(aDeployment(), 0);

type Overrides = Partial<Parameters<typeof createPageRoutes>[0]>;

/**
 * Serves the page's routes on a port of their own, with facts that can be changed; also returns the entries of the
 * audit log.
 */
export async function usePage(
  access: Partial<PageAccessDeps> = {},
  overrides: Overrides = {},
  eventsDeps: Partial<PageEventsDeps> = {},
) {
  const assets = await mkdtemp(join(tmpdir(), "towline-page-"));
  onTestFinished(() => rm(assets, { recursive: true, force: true }));
  await mkdir(join(assets, "assets"));
  await writeFile(join(assets, "index.html"), "<!doctype html>");
  await writeFile(join(assets, "assets", "page.js"), "");

  const facts: { -readonly [Fact in keyof PageFacts]: PageFacts[Fact] } = {
    deployments: () => [shop],
    newerCommits: () => Promise.resolve([]),
    details: ({ name }) =>
      Promise.resolve(
        name === "prod"
          ? {
              deployment: shop,
              commits: [],
              conditions: [],
              prepareError: undefined,
              drift: { objects: [], objectsLeftOut: 0 },
              deployErrors: [],
              validateErrors: [],
              requests: [],
              results: [],
            }
          : undefined,
      ),
    result: () => Promise.resolve(undefined),
    forges: () => Promise.resolve([]),
    pullRequests: () => Promise.resolve([]),
    pullRequest: () => Promise.resolve(undefined),
    manifests: () => Promise.resolve(undefined),
    queue: () => Promise.resolve({ lanes: [], jobs: [] }),
    notifications: () => Promise.resolve([]),
    trace: (commit) => Promise.resolve({ commit, deliveries: [], deployments: [], ignored: [], pullRequests: [] }),
  };
  const events = createPageEvents({
    describe: (keys) => keys.flatMap(({ name }) => (name === "prod" ? shop : [])),
    gatherMs: 20,
    aliveMs: 20,
    ...eventsDeps,
  });
  const done: string[] = [];
  const audit: PageWrite[] = [];
  const now = () => Date.now();
  const actions: { -readonly [Does in keyof PageActions]: PageActions[Does] } = {
    possible: () => Promise.resolve({} as PossibleActions),
    act({ name }, { action }, caller, told) {
      told({ request: "r1", actedAs: caller.name });
      if (name !== "prod") return Promise.reject(new RequestError(409, "It is not like this any more."));
      done.push(action);
      return Promise.resolve();
    },
    replay(forge, delivery) {
      done.push(`replay ${forge} ${delivery}`);
      return Promise.resolve({ delivery, matched: 1, queued: 1, ignored: [] });
    },
    retry(lane, subject) {
      done.push(`retry ${lane} ${subject}`);
      return Promise.resolve({ queued: true });
    },
  };
  const routes = createPageRoutes({
    facts,
    events,
    access: createPageAccess({ token: pageToken, viewerGroups: ["*"], operatorGroups: [], now, ...access }),
    actions,
    sight: () => Promise.resolve(seesAll),
    lines: createPageLog({ read: () => Promise.resolve([]) }),
    audit: (write) => void audit.push(write),
    assets,
    log: silentLog,
    now,
    ...overrides,
  });
  const server = createServer(express().use(routes)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    events.stop();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(url + path, { headers, redirect: "manual" });
  /** Sends raw header lines, in which a header may appear twice. */
  const rawStatus = (path: string, lines: readonly (readonly [string, string])[]) =>
    new Promise<number | undefined>((resolve, reject) => {
      request({ port, host: "127.0.0.1", path, headers: ["Host", "localhost", ...lines.flat()] }, (res) => {
        res.resume();
        resolve(res.statusCode);
      })
        .on("error", reject)
        .end();
    });
  return {
    url,
    shop,
    facts,
    rawStatus,
    events,
    actions,
    done,
    audit,
    get,
    post: (path: string, body: object, headers: Record<string, string> = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
    async listen() {
      const res = await get("/api/events", pageBearer);
      expect(res.headers.get("content-type")).toBe("text/event-stream");
      const reader = res.body?.pipeThrough(new TextDecoderStream()).getReader();
      const heard = {
        text: "",
        ended: false,
        deltas: () =>
          [...heard.text.matchAll(/^event: deployments\ndata: (.*)$/gm)].map(
            ([, json = ""]) => JSON.parse(json) as unknown,
          ),
        cancel: async () => {
          await reader?.cancel();
        },
      };
      void (async () => {
        for (;;) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: "" };
          heard.text += value ?? "";
          if (done) break;
        }
        heard.ended = true;
      })().catch(() => (heard.ended = true));
      return heard;
    },
  };
}
