import { inspect } from "node:util";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { CommitStatus } from "../../../src/model.ts";
import { findRateLimit, type RateLimit } from "../../../src/forge/rate-limit.ts";
import type { Forge } from "../../../src/ports.ts";
import { type GithubHost, useGithubHost } from "../../support/github-host.ts";

async function useOpened(options?: Parameters<typeof useGithubHost>[0]) {
  const host = await useGithubHost(options);
  const forge = host.connect();
  const { number, head } = await host.openPullRequest();
  const key = { forge: forge.id, repoName: host.repoName, number };
  return { host, forge, key, commit: { forge: forge.id, repoName: host.repoName, commit: head } };
}

const status: CommitStatus = { context: "towline", state: "success", description: "nothing would change" };

/** The requests that the host answered since the previous call, without the API's base path and queries. */
function asked({ answered }: GithubHost): string[] {
  return answered.splice(0).map((line) => line.replace(/\/api\/v3|\?\S*/g, ""));
}

test.each(["token", "app"] as const)(
  "each answer to a login by %s reports the requests left in the rate limit",
  async (as) => {
    const host = await useGithubHost({ as });
    const { number } = await host.openPullRequest();
    const told: (RateLimit | undefined)[] = [];
    const forge = host.connect({ onAnswer: (headers) => void told.push(findRateLimit(headers)) });
    await forge.pullRequest({ forge: forge.id, repoName: host.repoName, number });
    expect(told).toMatchObject([{ remaining: host.limits.remaining, limit: 5_000 }]);
  },
);

describe("lists of pull requests", () => {
  test("an unchanged list of pull requests does not count against the rate limit", async () => {
    const { host, forge } = await useOpened();
    for (let i = 1; i < 130; i++) await host.openPullRequest();
    const first = await forge.openPullRequests(host.repoName);
    expect(first).toHaveLength(130);
    const { remaining } = host.limits;
    expect(await forge.openPullRequests(host.repoName)).toEqual(first);
    expect(host.limits.remaining).toBe(remaining);
    expect(host.answered.slice(-2)).toEqual([expect.stringMatching(/ 304$/), expect.stringMatching(/ 304$/)]);

    const head = await host.push(130);
    const again = await forge.openPullRequests(host.repoName);
    expect(again.at(-1)).toMatchObject({ head, key: { number: 130 } });
    expect(again.slice(0, -1)).toEqual(first.slice(0, -1));
    expect(host.limits.remaining).toBe(remaining - 1);
  });

  test("an unchanged list of closed pull requests does not count against the rate limit either", async () => {
    const { host, forge } = await useOpened();
    for (let number = 2; number <= 130; number++) {
      await host.openPullRequest();
      await host.close(number);
    }
    const since = Date.now() - 3_600_000;
    const first = await forge.closedPullRequests(host.repoName, since);
    expect(first).toHaveLength(100);
    expect(await forge.openPullRequests(host.repoName)).toHaveLength(1);
    const { remaining } = host.limits;
    expect(await forge.closedPullRequests(host.repoName, since)).toEqual(first);
    expect(await forge.closedPullRequests(host.repoName, Date.now() + 3_600_000)).toEqual([]);
    expect(await forge.openPullRequests(host.repoName)).toHaveLength(1);
    expect(host.limits.remaining).toBe(remaining);

    host.advance(2_000);
    await host.merge(1);
    const [last, ...others] = await forge.closedPullRequests(host.repoName, since);
    expect(last).toMatchObject({ key: { number: 1 }, state: "merged" });
    expect(others).toHaveLength(99);
    expect(host.limits.remaining).toBe(remaining - 1);
  });

  test("if a full page is unchanged, a new page after it is still found", async () => {
    const { host, forge } = await useOpened();
    for (let i = 1; i < 100; i++) await host.openPullRequest();
    expect(await forge.openPullRequests(host.repoName)).toHaveLength(100);
    await host.openPullRequest();
    expect(await forge.openPullRequests(host.repoName)).toHaveLength(101);
  });

  test("a long conversation is read in pages of a hundred comments", async () => {
    const { host, forge, key } = await useOpened();
    await host.somebodyComments(key.number, Array<string>(250).fill("well"));
    const { id } = await forge.createComment(key, "ours");
    asked(host);
    expect(await forge.ownComments(key)).toMatchObject([{ id }]);
    expect(asked(host)).toEqual([
      "GET /user 200",
      ...Array<string>(3).fill(`GET /repos/${host.repoName}/issues/1/comments 200`),
    ]);
  });

  test("a pull request whose fork was deleted still counts as one from a fork", async () => {
    const { host, forge, key } = await useOpened();
    host.repository.change(key.number, { headRepo: null });
    expect(await forge.pullRequest(key)).toMatchObject({ fork: true });
    expect(await forge.openPullRequests(host.repoName)).toMatchObject([{ fork: true }]);
  });
});

describe("rate limits", () => {
  test("after an exhausted rate limit, the wait is computed with GitHub's clock", async () => {
    const { host, forge, key } = await useOpened();
    host.advance(-3 * 3_600_000 + 1_000);
    host.limits.remaining = 0;
    const error = await failure(forge.pullRequest(key));
    expect(error).toMatchObject({
      problem: "rate-limited",
      message: expect.stringContaining("rate limit of the token exceeded"),
    });
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(error.retryAfterMs).toBeLessThanOrEqual(3_600_000);
  });

  test.each([true, false])("the client waits after writing too fast (GitHub sends Retry-After: %s)", async (tells) => {
    const { host, forge, key } = await useOpened();
    Object.assign(host.limits, { contentPerMinute: 2, tellsRetryAfter: tells });
    await forge.createComment(key, "one");
    await forge.createComment(key, "two");
    const error = await failure(forge.createComment(key, "three"));
    expect(error).toMatchObject({ problem: "rate-limited" });
    expect(error.retryAfterMs).toBeGreaterThan(50_000);
    expect(error.retryAfterMs).toBeLessThanOrEqual(61_000);
    expect(await forge.ownComments(key)).toHaveLength(2);
    host.advance(61_000);
    await forge.createComment(key, "three");
  });
});

describe("errors from GitHub say what to do", () => {
  const cases: [
    name: string,
    stage: (host: GithubHost) => void,
    call: (forge: Forge, opened: Awaited<ReturnType<typeof useOpened>>) => Promise<unknown>,
    problem: string,
    words: RegExp,
  ][] = [
    [
      "a locked conversation",
      (host) => host.repository.change(1, { locked: true }),
      (forge, { key }) => forge.createComment(key, "hello"),
      "refused",
      /write a comment on Example-Org\/Shop\.of-\d+#1: the conversation is locked.*\(403, request [0-9A-F]{8}\)/,
    ],
    [
      "an archived repository",
      (host) => void (host.repository.archived = true),
      (forge, { key }) => forge.createComment(key, "hello"),
      "refused",
      /archived/,
    ],
    [
      "a repository that was renamed",
      (host) => host.rename(),
      (forge, { key }) => forge.pullRequest(key),
      "refused",
      /renamed or transferred/,
    ],
    [
      "a comment that is too long",
      () => undefined,
      (forge, { key }) => forge.createComment(key, "x".repeat(65_537)),
      "refused",
      /body is too long \(maximum is 65536 characters\)/,
    ],
    [
      "a fine-grained token that may not write statuses",
      (host) => void (host.logins.permissions = { pull_requests: "write" }),
      (forge, { commit }) => forge.setStatus(commit, status),
      "unauthorized",
      /set the status .*the token lacks the permission \(it needs statuses=write\)/,
    ],
    [
      "a fine-grained token that may only read pull requests",
      (host) => void (host.logins.permissions = { pull_requests: "read" }),
      (forge, { key }) => forge.createComment(key, "hello"),
      "unauthorized",
      /it needs pull_requests=write/,
    ],
    [
      "a classic token that may do nothing there",
      (host) => Object.assign(host.logins, { permissions: {}, classic: true }),
      (forge, { commit }) => forge.setStatus(commit, status),
      "not-found",
      /not found, or the token lacks the permission/,
    ],
    [
      "a commit with a thousand statuses of one name",
      ({ repository }) => {
        const [sha = ""] = repository.commits;
        const one = { sha, context: "towline", state: "success", description: null, target_url: null };
        repository.statuses.push(...Array<typeof one>(1_000).fill(one));
      },
      (forge, { commit }) => forge.setStatus(commit, status),
      "refused",
      /1000 statuses of this name/,
    ],
    [
      "a commit that GitHub does not have",
      ({ repository }) => repository.commits.clear(),
      (forge, { commit }) => forge.setStatus(commit, status),
      "not-found",
      /does not have this commit/,
    ],
  ];

  test.each(cases)("%s", async (_, stage, call, problem, words) => {
    const opened = await useOpened();
    stage(opened.host);
    expect(await failure(call(opened.forge, opened))).toMatchObject({
      problem,
      message: expect.stringMatching(words),
    });
  });
});

test.each(["canary-1\ncanary-2", "canary\u0000", "canary canary", "canary-\u20ac"])(
  "the error about an invalid token, %j, does not contain it",
  async (token) => {
    const { host, key, commit } = await useOpened();
    const forge = host.connect({ token });
    for (const call of [forge.pullRequest(key), forge.ownComments(key), forge.setStatus(commit, status)]) {
      const error = await failure(call);
      expect(error).toMatchObject({
        problem: "unauthorized",
        message: expect.stringContaining("not valid in a token"),
      });
      expect(inspect(error, { depth: 10 })).not.toContain("canary");
    }
    expect(host.answered).toEqual([]);
  },
);

describe("login as a GitHub App", () => {
  test("each token is limited to one repository and one purpose, and is reused", async () => {
    const { host, forge, key, commit } = await useOpened({ as: "app" });
    for (let i = 0; i < 3; i++) {
      await forge.pullRequest(key);
      await forge.ownComments({ ...key, repoName: key.repoName.toLowerCase() });
      await forge.setStatus(commit, status);
    }
    const [, name = ""] = host.repoName.toLowerCase().split("/");
    expect(host.logins.installationTokens).toMatchObject([
      { repositories: [name], permissions: { pull_requests: "write", metadata: "read" } },
      { repositories: [name], permissions: { statuses: "write", metadata: "read" } },
    ]);
    expect(host.logins.installationTokens.map(({ permissions }) => Object.keys(permissions).length)).toEqual([2, 2]);
    expect(asked(host).filter((line) => line.includes("installation"))).toHaveLength(3);
  });

  test("tokens are renewed before they expire, without a failed request", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    await forge.pullRequest(key);
    vi.setSystemTime(Date.now() + 54 * 60_000);
    await forge.pullRequest(key);
    expect(host.logins.installationTokens).toHaveLength(1);
    vi.setSystemTime(Date.now() + 2 * 60_000);
    await forge.pullRequest(key);
    expect(host.logins.installationTokens).toHaveLength(2);
    expect(asked(host).filter((line) => !/ 20[01]$/.test(line))).toEqual([]);
  });

  test("a revoked token is replaced once", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    await forge.createComment(key, "before");
    for (const token of host.logins.installationTokens) token.expiresAt = 0;
    await forge.createComment(key, "after");
    expect((await forge.ownComments(key)).map(({ body }) => body)).toEqual(["before", "after"]);
    expect(host.logins.installationTokens).toHaveLength(2);
  });

  test.each([-30, -5, 5, 30])("a host whose clock differs by %i minutes is still served", async (minutes) => {
    const { host, forge, key } = await useOpened({ as: "app" });
    host.advance(minutes * 60_000);
    await forge.createComment(key, "hello");
    await forge.ownComments(key);
    expect(host.logins.installationTokens).toHaveLength(1);
  });

  test("if the App is not installed, the error says where to install it", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    host.logins.installation = undefined;
    const error = await failure(forge.pullRequest(key));
    expect(error.problem).toBe("unauthorized");
    expect(error.message).toContain(`the App towline-test is not installed on ${host.repoName}`);
    expect(error.message).toContain("/apps/towline-test/installations/new");
  });

  test("if the App is installed on other repositories only, the error says where to add this one", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    await forge.pullRequest(key);
    host.logins.installation = { ...host.logins.installation!, selected: ["another"] };
    for (const token of host.logins.installationTokens) token.expiresAt = 0;
    const error = await failure(forge.pullRequest(key));
    expect(error.problem).toBe("unauthorized");
    expect(error.message).toContain("/organizations/Example-Org/settings/installations/4711");
  });

  test("the installation is found again after the App was removed and reinstalled", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    await forge.pullRequest(key);
    host.logins.installation = { ...host.logins.installation!, id: 4_712 };
    for (const token of host.logins.installationTokens) token.expiresAt = 0;
    expect(await forge.pullRequest(key)).toMatchObject({ state: "open" });
  });

  test("of requests sent at the same time after the App was removed, each says where to install it", async () => {
    const { host, forge, key, commit } = await useOpened({ as: "app" });
    await forge.pullRequest(key);
    await forge.setStatus(commit, status);
    host.logins.uninstall();
    const errors = await Promise.all([failure(forge.pullRequest(key)), failure(forge.setStatus(commit, status))]);
    for (const error of errors) expect(error.message).toContain("/apps/towline-test/installations/new");
  });

  test("a missing permission is named, and the other permissions keep working", async () => {
    const { host, forge, key, commit } = await useOpened({ as: "app" });
    host.logins.installation!.permissions = { pull_requests: "write", metadata: "read" };
    expect(await failure(forge.setStatus(commit, status))).toMatchObject({
      problem: "unauthorized",
      message: expect.stringContaining("lacks the permission to write statuses"),
    });
    await forge.createComment(key, "still here");
  });

  test("the error about a key that is invalid or not the App's does not contain it", async () => {
    const { host, key } = await useOpened({ as: "app" });
    const { logins } = await useGithubHost({ as: "app" });
    const keys = [logins.app.privateKey, "not a key at all, but secret", logins.app.privateKey.slice(0, 400)];
    for (const privateKey of keys) {
      const error = await failure(host.connect({ app: { ...host.logins.app, privateKey } }).pullRequest(key));
      expect(error.problem).toBe("unauthorized");
      expect(error.message).toContain("private key");
      const told = JSON.stringify([error, error.stack, String(error.cause)]);
      for (const line of privateKey.split("\n").filter((one) => one !== "" && !one.startsWith("-----"))) {
        expect(told).not.toContain(line);
      }
    }
  });

  test("comments of the App's bot count as its own, even after a rename; comments that people write through the App do not", async () => {
    const { host, forge, key } = await useOpened({ as: "app" });
    const { repository, logins } = host;
    const { id } = await forge.createComment(key, "ours");
    const renamed = { ...logins.bot, login: "another-name[bot]" };
    const before = repository.comment(key.number, renamed, "ours as well", logins.appObject);
    repository.comment(key.number, { id: 8, login: "a-person", type: "User" }, "by hand", logins.appObject);
    repository.comment(key.number, { id: 9, login: "towline-test", type: "User" }, "a look-alike");
    repository.comment(key.number, { id: 10, login: "another[bot]", type: "Bot" }, "another App");
    expect((await forge.ownComments(key)).map((comment) => comment.id)).toEqual([id, String(before.id)]);
  });

  test("Apps with the same ids on two hosts never get each other's tokens", async () => {
    const [one, other] = [await useOpened({ as: "app" }), await useOpened({ as: "app" })];
    other.host.repository.name = one.host.repository.name;
    other.host.repository.fullName = one.host.repository.fullName;
    const key = one.key;
    await Promise.all([one, other].flatMap(({ forge }) => Array.from({ length: 5 }, () => forge.pullRequest(key))));
    for (const { host } of [one, other]) expect(asked(host).filter((line) => / 40\d$/.test(line))).toEqual([]);
  });
});

/** The error with which the call failed. */
async function failure(call: Promise<unknown>) {
  return call.then(
    (value) => expect.unreachable(`it gave ${JSON.stringify(value)}`),
    (error: Error & { problem: string; retryAfterMs?: number }) => error,
  );
}
