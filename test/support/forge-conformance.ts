/**
 * The behaviour of every forge, whatever its git host, as tests of the port. For faults of the connection see
 * forge-faults.ts.
 */
import { describe, expect, test } from "vitest";
import type { CommitKey, CommitStatus, PullRequestKey } from "../../src/model.ts";
import type { Forge } from "../../src/ports.ts";
import { repoId } from "../../src/model/repo-url.ts";
import { describeForgeFaults } from "./forge-faults.ts";
import type { ForgeHost, OpenedPullRequest } from "./forge-host.ts";
import { useForgeProxy } from "./forge-proxy.ts";

/**
 * `useHost` returns a host with a repository of its own for the running test. `useShared` may return one that other
 * tests use too: most tests only use pull requests that they opened themselves.
 */
export function describeForge(
  name: string,
  useHost: () => Promise<ForgeHost>,
  useShared: () => Promise<ForgeHost> = useHost,
): void {
  // eslint-disable-next-line vitest/valid-title -- the host's name, a parameter
  describe(name, () => {
    describe("pull requests", () => {
      describePullRequests(useHost);
    });
    describe("comments", () => {
      describeComments(useShared);
    });
    describe("statuses", () => {
      describeStatuses(useShared);
    });
    describe("faults", () => {
      describeForgeFaults(useShared);
    });
  });
}

const marker = "<!-- towline: the same for all who know it -->";

function keyOf(forge: Forge, { repoName }: ForgeHost, number: number): PullRequestKey {
  return { forge: forge.id, repoName, number };
}

async function useForge(useHost: () => Promise<ForgeHost>) {
  const host = await useHost();
  const forge = await host.connect();
  return { host, forge, key: (number: number) => keyOf(forge, host, number) };
}

async function useOpened(useHost: () => Promise<ForgeHost>) {
  const { host, forge, key } = await useForge(useHost);
  const opened = await host.openPullRequest();
  return { host, forge, opened, key: key(opened.number) };
}

function describePullRequests(useHost: () => Promise<ForgeHost>): void {
  test("a pull request is read with everything that the port promises", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const read = await forge.pullRequest(key);
    expect(read).toMatchObject({
      key,
      state: "open",
      draft: false,
      fork: false,
      baseBranch: "main",
      head: opened.head,
    });
    expect(new URL(read?.url ?? "").pathname).toContain(String(opened.number));
    expect(read?.repoUrls.map(repoId)).toContain(repoId(host.repoUrl));
    expect(Math.abs((read?.updatedAt ?? 0) - Date.now())).toBeLessThan(5 * 60_000);
  });

  test("a change to a pull request is seen by the next read", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const head = await host.push(opened.number);
    expect(head).not.toBe(opened.head);
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ head, state: "open" });
    await host.retarget(opened.number, "release");
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ baseBranch: "release" });
    await host.setDraft(opened.number, true);
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ draft: true });
    await host.setDraft(opened.number, false);
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ draft: false });
    await host.close(opened.number);
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ state: "closed", head });
  });

  test("a merged pull request is distinguished from a closed one", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    await host.merge(opened.number);
    await expect.poll(() => forge.pullRequest(key)).toMatchObject({ state: "merged", baseBranch: "main" });
  });

  test("pull requests from forks and drafts are marked as such", async () => {
    const { host, forge, key } = await useForge(useHost);
    const forked = await host.openPullRequest({ fork: true });
    const draft = await host.openPullRequest({ draft: true });
    expect(await forge.pullRequest(key(forked.number))).toMatchObject({ fork: true, head: forked.head, draft: false });
    expect(await forge.pullRequest(key(draft.number))).toMatchObject({ draft: true, fork: false });
  });

  test("an unknown number or repository has no pull request", async () => {
    const { host, forge, key } = await useForge(useHost);
    expect(await forge.pullRequest(key(9_999))).toBeUndefined();
    const [owner] = host.repoName.split("/");
    for (const repoName of [`${owner}/no-such-repository`, `${owner}/a b?c=d#e%2f`, `${host.repoName}/../..`]) {
      expect(await forge.pullRequest({ forge: forge.id, repoName, number: 1 })).toBeUndefined();
    }
  });

  test("the open pull requests of a repository, and no others, are listed from all pages", async () => {
    const host = await useHost();
    const opened: OpenedPullRequest[] = [];
    for (let i = 0; i < 4; i++) opened.push(await host.openPullRequest());
    await host.close(opened[1]?.number ?? 0);
    const proxy = await useForgeProxy(host.apiUrl);
    proxy.shrinkPages(1);
    const forge = await host.connect({ apiUrl: proxy.apiUrl });
    const listed = await forge.openPullRequests(host.repoName);
    const stillOpen = opened.filter((_, i) => i !== 1);
    expect(listed.map(({ head }) => head).toSorted()).toEqual(stillOpen.map(({ head }) => head).toSorted());
    const one = listed.find(({ key }) => key.number === opened[0]?.number);
    expect(one).toEqual(await forge.pullRequest(keyOf(forge, host, opened[0]?.number ?? 0)));
  });

  test("recently closed and merged pull requests are listed, most recently updated first", async () => {
    const { host, forge, key } = await useForge(useHost);
    const [closed, merged, still] = [
      (await host.openPullRequest()).number,
      (await host.openPullRequest()).number,
      (await host.openPullRequest()).number,
    ];
    const list = async (since: number) =>
      (await forge.closedPullRequests(host.repoName, since)).map(({ key: { number } }) => number);
    const hour = 3_600_000;
    expect(await list(Date.now() - hour)).toEqual([]);

    await host.close(closed);
    await host.merge(merged);
    await expect.poll(async () => (await list(Date.now() - hour)).toSorted()).toEqual([closed, merged].toSorted());
    const all = await forge.closedPullRequests(host.repoName, Date.now() - hour);
    for (const one of all) expect(one).toEqual(await forge.pullRequest(one.key));
    expect(all.map(({ state }) => state).toSorted()).toEqual(["closed", "merged"]);
    expect((await forge.openPullRequests(host.repoName)).map((one) => one.key)).toEqual([key(still)]);

    // Hosts store times in seconds.
    for (const first of [closed, merged]) {
      let draft = false;
      const change = async () => {
        await host.setDraft(first, (draft = !draft));
        return list(Date.now() - hour);
      };
      await expect
        .poll(change, { timeout: 20_000, interval: 400 })
        .toEqual([first, first === closed ? merged : closed]);
    }
    expect(await list(Date.now() + hour)).toEqual([]);
  });

  test("closed pull requests are listed with one request", async () => {
    const host = await useHost();
    for (let i = 0; i < 3; i++) await host.close((await host.openPullRequest()).number);
    const proxy = await useForgeProxy(host.apiUrl);
    proxy.shrinkPages(2);
    const forge = await host.connect({ apiUrl: proxy.apiUrl });
    await expect.poll(() => forge.closedPullRequests(host.repoName, 0)).toHaveLength(2);
    proxy.clear();
    await forge.closedPullRequests(host.repoName, 0);
    expect(proxy.requests).toHaveLength(1);
  });

  test("the repository is returned in the host's spelling, whatever the case in the request", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const lower = host.repoName.toLowerCase();
    expect(lower).not.toBe(host.repoName);
    expect((await forge.pullRequest({ ...key, repoName: lower }))?.key).toEqual(key);
    expect((await forge.openPullRequests(lower)).map((listed) => listed.key)).toEqual([key]);
    expect(key.number).toBe(opened.number);
  });

  test("a repository is recognized by its URL, and one of another host is not", async () => {
    const { host, forge } = await useForge(useHost);
    const known = repoId(host.repoUrl);
    if (known === undefined) throw new Error(`${host.repoUrl} is not the URL of a repository`);
    expect(forge.repoName(known)?.toLowerCase()).toBe(host.repoName.toLowerCase());
    const strange = repoId(`https://elsewhere.example.com/${host.repoName}.git`);
    expect(strange && forge.repoName(strange)).toBeUndefined();
  });
}

function describeComments(useHost: () => Promise<ForgeHost>): void {
  test("a comment is created, edited in place and deleted", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const created = await forge.createComment(key, `first ${marker}`);
    expect(new URL(created.url).pathname).toContain(String(opened.number));
    const updated = await forge.updateComment(key, created.id, `second ${marker}`);
    expect(updated).toEqual({ ...created, body: `second ${marker}` });
    expect(await host.comments(opened.number)).toEqual([{ byForge: true, body: `second ${marker}` }]);
    expect(await forge.ownComments(key)).toEqual([updated]);
    await forge.deleteComment(key, created.id);
    expect(await host.comments(opened.number)).toEqual([]);
    expect(await forge.ownComments(key)).toEqual([]);
  });

  test("the forge's own comments are found on every page, oldest first, without other users' comments that have the same marker", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const others = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => `comment ${from + i} of somebody ${marker}`);
    await host.somebodyComments(opened.number, others(0, 5));
    const first = await forge.createComment(key, `ours ${marker}`);
    await host.somebodyComments(opened.number, others(5, 8));
    const second = await forge.createComment(key, `ours as well ${marker}`);
    await host.somebodyComments(opened.number, others(8, 9));

    const proxy = await useForgeProxy(host.apiUrl);
    proxy.shrinkPages(2);
    const paging = await host.connect({ apiUrl: proxy.apiUrl });
    expect(await paging.ownComments(key)).toEqual([first, second]);
    expect(await host.comments(opened.number)).toHaveLength(11);
  });

  test("editing a comment that a user deleted is reported, and deleting it again is not an error", async () => {
    const { forge, key } = await useOpened(useHost);
    const { id } = await forge.createComment(key, "about to go");
    await forge.deleteComment(key, id);
    expect(await forge.updateComment(key, id, "too late")).toBeUndefined();
    await forge.deleteComment(key, id);
    expect(await forge.ownComments(key)).toEqual([]);
  });

  test("a pull request that does not exist accepts no comment", async () => {
    const { forge, key } = await useForge(useHost);
    const nowhere = key(9_999);
    await expect(forge.createComment(nowhere, "hello?")).rejects.toMatchObject({ problem: "not-found" });
    await expect(forge.ownComments(nowhere)).rejects.toMatchObject({ problem: "not-found" });
  });

  test("every character of a comment comes back as it was written", async () => {
    const { host, forge, opened, key } = await useOpened(useHost);
    const body = [
      `<!-- ${marker} \\ " ' \` & &amp; %2F %00 -->`,
      "| tables | and `code` |\n|---|---|\n| ä é ß 漢字 🚀 👩‍👩‍👧 \u202eabc\u202c \u200b \u2028 | \ttab |",
      "```diff\n- image: shop:1\n+ image: shop:2\n```",
      '<details><summary>3 objects & "more"</summary>\n\n<br> {{ 7*7 }} ${7*7} {% raw %} @here #1 !1\n\n</details>',
    ].join("\n\n");
    const { id } = await forge.createComment(key, body);
    expect((await host.comments(opened.number)).map((seen) => seen.body)).toEqual([body]);
    expect(await forge.ownComments(key)).toMatchObject([{ id, body }]);
  });

  test("the longest allowed comment is accepted, also with characters of four bytes", async () => {
    const { forge, key } = await useOpened(useHost);
    const longest = `${marker}\n`.padEnd(forge.maxCommentLength, "long ").slice(0, forge.maxCommentLength - 1);
    const created = await forge.createComment(key, `${longest}.`);
    const wide = `${marker}\n${"🚀".repeat(forge.maxCommentLength - marker.length - 1)}`;
    await forge.updateComment(key, created.id, wide);
    const [own] = await forge.ownComments(key);
    expect(own?.body === wide).toBe(true);
  });
}

function describeStatuses(useHost: () => Promise<ForgeHost>): void {
  const status = (changes: Partial<CommitStatus> = {}): CommitStatus => ({
    context: "towline/shop/staging",
    state: "pending",
    description: "comparing",
    url: "https://towline.example.com/shop/staging?a=b&c=d",
    ...changes,
  });

  const byContext = (a: { context: string }, b: { context: string }) => a.context.localeCompare(b.context);

  async function useCommit() {
    const { host, forge, opened } = await useOpened(useHost);
    const commit: CommitKey = { forge: forge.id, repoName: host.repoName, commit: opened.head };
    return { host, forge, commit, shown: () => host.statuses(opened.head) };
  }

  test("a status is shown on its commit, and replaces an earlier one of the same context", async () => {
    const { forge, commit, shown } = await useCommit();
    await forge.setStatus(commit, status());
    await expect.poll(shown).toEqual([status()]);
    const done = status({ state: "success", description: "5 changed, 1 deleted" });
    await forge.setStatus(commit, done);
    await expect.poll(shown).toEqual([done]);
  });

  test("every state is reported, also when it is reported twice", async () => {
    const { forge, commit, shown } = await useCommit();
    const states = ["pending", "success", "failure", "canceled"] as const;
    const all = states.map((state) => status({ state, context: `towline/${state}` }));
    for (const one of [...all, ...all]) await forge.setStatus(commit, one);
    await expect.poll(async () => (await shown()).toSorted(byContext)).toEqual(all.toSorted(byContext));
  });

  test("a finished status may start again", async () => {
    const { forge, commit, shown } = await useCommit();
    for (const state of ["pending", "failure", "pending", "canceled", "pending", "success"] as const) {
      await forge.setStatus(commit, status({ state }));
      await expect.poll(shown).toMatchObject([{ state }]);
    }
  });

  test("contexts do not affect each other", async () => {
    const { forge, commit, shown } = await useCommit();
    const all = [
      status({ context: "towline", state: "failure" }),
      status({ context: "towline/shop/a", state: "success" }),
      status({ context: `towline/${"n".repeat(63)}/${"d".repeat(100)}.with.dots`, state: "pending" }),
    ];
    for (const one of all) await forge.setStatus(commit, one);
    await expect.poll(async () => (await shown()).toSorted(byContext)).toEqual(all.toSorted(byContext));
  });

  test("a description that is too long is shortened, and a status without a URL does not need one", async () => {
    const { forge, commit, shown } = await useCommit();
    const long = status({ description: `${"🚀 many words ".repeat(500)}end`, url: undefined });
    await forge.setStatus(commit, long);
    const [seen] = await shown();
    expect(seen).toMatchObject({ context: long.context, state: "pending" });
    expect(seen?.description.startsWith("🚀 many words 🚀")).toBe(true);
    expect(seen?.description.isWellFormed()).toBe(true);
    expect(seen?.description.endsWith("…")).toBe(true);
    expect([...(seen?.description ?? "")].length).toBeLessThan(300);
  });

  test("a commit that does not exist accepts no status", async () => {
    const { forge, commit } = await useCommit();
    const nowhere = { ...commit, commit: "1234567890".repeat(4) };
    await expect(forge.setStatus(nowhere, status())).rejects.toMatchObject({
      problem: expect.stringMatching(/^(?:not-found|refused)$/) as string,
    });
  });
}
