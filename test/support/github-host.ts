/**
 * A local GitHub Enterprise: the part of the REST API that a forge uses, with its documented limits. Every request and
 * every answer is validated against GitHub's own description; a violation fails the test.
 */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { createGithubForge } from "../../src/forge/github/forge.ts";
import type { ReportAs } from "../../src/forge/forge-options.ts";
import type { Logger } from "../../src/log.ts";
import type { Forge } from "../../src/ports.ts";
import { silentLog } from "./fakes.ts";
import type { Connection, ForgeHost } from "./forge-host.ts";
import { type Caller, type GithubLogins, createGithubLogins } from "./github-logins.ts";
import { checkGithubAnswer, checkGithubRequest } from "./github-openapi.ts";
import { type GithubRepository, createGithubRepository } from "./github-repository.ts";
import { type Reply, refusal } from "./github-replies.ts";
import { findRoute } from "./github-routes.ts";

export interface GithubHost extends ForgeHost {
  readonly repository: GithubRepository;
  readonly logins: GithubLogins;
  readonly limits: Limits;
  /** `METHOD /path status` of all answers. */
  readonly answered: string[];
  /** Moves the host's clock forward, not that of the test. */
  advance(ms: number): void;
  /** Renames the repository; the old name redirects to the new one. */
  rename(): void;
  connect(
    options?: Connection & {
      app?: { appId: string; privateKey: string };
      reportAs?: ReportAs;
      log?: Logger;
      onAnswer?: ((headers: Headers) => void) | undefined;
    },
  ): Forge;
}

/** https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api */
interface Limits {
  remaining: number;
  contentPerMinute: number;
  /** The secondary limit includes a `retry-after` header. */
  tellsRetryAfter: boolean;
}

/** In the port's terms. */
const runStates: Readonly<Record<string, "success" | "failure">> = {
  ...{ success: "success", neutral: "success", failure: "failure" },
};

const owner = "Example-Org";
let lastRepository = 0;

interface GithubHostOptions {
  readonly as?: "token" | "app";
  /** What the App may write in addition to comments. */
  readonly grants?: "checks" | "statuses";
}

export async function useGithubHost({
  as = "token",
  grants = "statuses",
}: GithubHostOptions = {}): Promise<GithubHost> {
  let skewMs = 0;
  let renamed = false;
  const now = () => Date.now() + skewMs;
  const violations: string[] = [];
  const answered: string[] = [];
  const limits: Limits = { remaining: 5_000, contentPerMinute: 80, tellsRetryAfter: true };
  const contentAt: number[] = [];

  const server = createServer((req, res) => {
    void answer(req).then(({ status, headers, body }) => {
      answered.push(`${req.method} ${req.url} ${status}`);
      res.writeHead(status, headers).end(body === undefined ? undefined : JSON.stringify(body));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const webUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const apiUrl = `${webUrl}/api/v3`;
  const repository = createGithubRepository(webUrl, owner, `Shop.of-${++lastRepository}`, now);
  const logins = createGithubLogins(webUrl, owner, { now, grants });
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, "close");
    expect(violations).toEqual([]);
  });

  async function answer(req: IncomingMessage): Promise<Required<Reply>> {
    const method = req.method ?? "";
    const { pathname, searchParams: query } = new URL(req.url ?? "/", webUrl);
    const sent = await text(req);
    const found = findRoute(method, pathname.replace(/^\/api\/v3(?=\/)/, ""));
    if (found === undefined) return finish(refusal(404, "Not Found"), req);
    const { route, params } = found;
    const body: unknown = sent === "" ? undefined : JSON.parse(sent);
    const wrong = checkGithubRequest({ method, template: route.template, query, params, body });
    violations.push(...wrong);
    if (wrong.length > 0) return finish(refusal(500, wrong.join("\n")), req);

    const caller = logins.authenticate(req.headers.authorization);
    const reply =
      limited(method, caller) ??
      (typeof caller === "string" && route.open !== true
        ? refusal(401, caller)
        : renamed && params["repo"]?.toLowerCase() === repository.name.toLowerCase()
          ? { ...refusal(301, "Moved Permanently"), headers: { location: `${apiUrl}/repositories/${repository.id}` } }
          : route.answer({
              apiUrl,
              repository,
              logins,
              // Anonymous requests are allowed only where no login is needed.
              caller: typeof caller === "string" ? { kind: "app" } : caller,
              params,
              query,
              body: (body ?? {}) as Record<string, unknown>,
            }));
    violations.push(...checkGithubAnswer({ method, template: route.template }, reply.status, reply.body));
    return finish(reply, req);
  }

  function limited(method: string, caller: Caller | string): Reply | undefined {
    if (typeof caller === "string") return undefined;
    if (limits.remaining <= 0) return refusal(403, `API rate limit exceeded for user ID ${logins.user.id}.`);
    if (method === "GET" || caller.kind === "app") return undefined;
    while ((contentAt[0] ?? Infinity) <= now() - 60_000) contentAt.shift();
    if (contentAt.length < limits.contentPerMinute) {
      contentAt.push(now());
      return undefined;
    }
    const wait = Math.ceil(((contentAt[0] ?? 0) + 60_000 - now()) / 1_000);
    return {
      ...refusal(
        403,
        "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. Please retry your request again later.",
      ),
      headers: limits.tellsRetryAfter ? { "retry-after": String(wait) } : {},
    };
  }

  /**
   * Adds the headers of every answer; an answer that the client has cached already is not sent again and does not count
   * against the limit.
   */
  function finish(reply: Reply, req: IncomingMessage): Required<Reply> {
    // The ETag depends on the token: https://github.com/github/docs/issues/34689
    const of = JSON.stringify([req.headers.authorization, reply.body]);
    const etag = `W/"${createHash("sha256").update(of).digest("hex")}"`;
    const known = req.method === "GET" && reply.status === 200 && req.headers["if-none-match"] === etag;
    if (!known && limits.remaining > 0) limits.remaining -= 1;
    const headers: Record<string, string> = {
      date: new Date(now()).toUTCString(),
      "content-type": "application/json; charset=utf-8",
      "x-github-request-id": randomBytes(4).toString("hex").toUpperCase(),
      "x-ratelimit-limit": "5000",
      "x-ratelimit-remaining": String(limits.remaining),
      "x-ratelimit-reset": String(Math.ceil(now() / 3_600_000) * 3_600),
      ...(reply.status === 200 && { etag }),
      ...reply.headers,
    };
    return known ? { status: 304, headers, body: undefined } : { status: reply.status, headers, body: reply.body };
  }

  const ours = () => (as === "app" ? logins.bot : logins.user);
  return {
    apiUrl,
    repoName: repository.fullName,
    repoUrl: `${webUrl}/${repository.fullName}.git`,
    get secrets() {
      const keyLines = logins.app.privateKey.split("\n").filter((line) => line.length > 20 && !line.startsWith("--"));
      return [logins.token, ...keyLines, ...logins.installationTokens.map(({ token }) => token)];
    },
    ...{ repository, logins, limits, answered },
    advance: (ms) => void (skewMs += ms),
    rename: () => void (renamed = true),
    connect({ token, app = logins.app, ...options } = {}) {
      const login = as === "app" && token === undefined ? { app } : { token: token ?? logins.token };
      return createGithubForge({ id: "github", apiUrl, login, log: silentLog, ...options });
    },

    openPullRequest: (options) => Promise.resolve(repository.open(options)),
    push: (number) => Promise.resolve(repository.push(number)),
    retarget: (number, base) => Promise.resolve(repository.change(number, { base })),
    setDraft: (number, draft) => Promise.resolve(repository.change(number, { draft })),
    close: (number) => Promise.resolve(repository.close(number)),
    merge: (number) => Promise.resolve(repository.merge(number)),
    somebodyComments(number, bodies) {
      for (const body of bodies) repository.comment(number, { id: 7, login: "somebody", type: "User" }, body);
      return Promise.resolve();
    },
    comments(number) {
      const seen = repository.comments.filter((comment) => comment.number === number);
      return Promise.resolve(seen.map(({ user, body }) => ({ byForge: user.id === ours().id, body })));
    },
    statuses(sha) {
      const newest = new Map(repository.statuses.filter((one) => one.sha === sha).map((one) => [one.context, one]));
      const runs = new Map(repository.checkRuns.filter((one) => one.sha === sha).map((one) => [one.name, one]));
      return Promise.resolve([
        ...[...newest.values()].map(({ context, state, description, target_url }) => ({
          context,
          state: state === "error" ? ("canceled" as const) : (state as "pending" | "success" | "failure"),
          description: description ?? "",
          url: target_url ?? undefined,
        })),
        ...[...runs.values()].map(({ name, status, conclusion, title, details_url }) => ({
          context: name,
          state: status === "completed" ? (runStates[conclusion ?? ""] ?? ("canceled" as const)) : ("pending" as const),
          description: title ?? "",
          url: details_url ?? undefined,
        })),
      ]);
    },
  };
}
