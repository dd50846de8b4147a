/** Whether an earlier answer of git is recent enough. The real git is in test/integration/source. */
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { RemoteBusyError } from "../../../src/errors.ts";
import type { Freshness, Heads, RepoId } from "../../../src/model.ts";
import { createFindHeads, type HeadsDeps } from "../../../src/source/heads.ts";
import type { Reader, Remote } from "../../../src/source/remote.ts";

const remote: Remote = {
  address: "https://git.example.com/org/shop",
  protocol: "https:",
  host: "git.example.com",
  port: "443",
  hostAndPort: "git.example.com:443",
  repo: "git.example.com/org/shop" as RepoId,
  label: "git.example.com/org/shop",
};

const headsAt = (commit: number): Heads => ({ commits: new Map([["refs/heads/main", String(commit)]]) });
const commitIn = ({ commits }: Heads): number => Number(commits.get("refs/heads/main"));

afterEach(() => void vi.restoreAllMocks());

/** A remote whose branch is at commit `at`, and a clock. */
function useRemote(over: Partial<HeadsDeps> = {}) {
  const state = { at: 1, now: 0, down: false, listed: 0, fetched: 0 };
  vi.spyOn(performance, "now").mockImplementation(() => state.now);
  const answer = async (): Promise<Heads> => {
    const { at } = state;
    await Promise.resolve();
    if (state.down) throw new Error("down");
    return headsAt(at);
  };
  const reader = ({ login }: Remote): Reader => ({ id: `${login?.username}`, mirror: "mirror", login: "login" });
  const find = createFindHeads({
    readerOf: async (of) => reader(of),
    list: () => (state.listed++, answer()),
    fetch: () => (state.fetched++, answer()),
    slowness: { wait: (_remote, waiting) => waiting(new AbortController().signal) },
    maxAgeMs: 600_000,
    ...over,
  });
  const as = (username: string): Remote => ({
    ...remote,
    login: { username, password: "one", secretName: "shop/login" } as Remote["login"],
  });
  const get = async (freshness: Freshness | undefined, username = "deploy") =>
    commitIn(await find(as(username), freshness, {}));
  return { state, get, find, as };
}

test("without a freshness git is asked, and its answer serves those who require less", async () => {
  const { state, get } = useRemote();
  expect(await get(undefined)).toBe(1);
  state.at = 2;
  expect(await get(undefined)).toBe(2);
  state.now += 10_000;
  state.at = 3;
  expect(await get({ maxAgeMs: 10_001 })).toBe(2);
  expect(await get({})).toBe(2);
  expect(await get({ maxAgeMs: 10_000 })).toBe(3);
  expect(state).toMatchObject({ listed: 3, fetched: 0 });
});

test("a move asks once, with a fetch, whatever their order, and a later answer serves those who only know an earlier move", async () => {
  const { state, get } = useRemote();
  for (const since of ["b", "a", "b", "a"]) await get({ since });
  expect(state).toMatchObject({ listed: 0, fetched: 2 });
  state.at = 2;
  await get({ since: "a", maxAgeMs: 0 });
  expect(await get({ since: "b" })).toBe(2);
  expect(state).toMatchObject({ listed: 1, fetched: 2 });
});

test("a caller that is gone before it could ask leaves the move to the next one", async () => {
  const { state, get, find, as } = useRemote();
  await get({ since: "a" });
  state.at = 2;
  for (const leaves of [false, true]) {
    const gone = find(as("deploy"), { since: "b" }, { signal: AbortSignal.abort(new Error("stopped")), leaves });
    await expect(gone).rejects.toThrow("stopped");
  }
  expect(await get({ since: "b" })).toBe(2);
});

test("refs are listed if they cannot be fetched", async () => {
  const { state, get } = useRemote({ fetch: async () => undefined });
  expect(await get({ since: "a" })).toBe(1);
  expect(state.listed).toBe(1);
});

test("each login has answers of its own", async () => {
  const { state, get } = useRemote();
  await get({ since: "a" }, "one");
  state.at = 2;
  expect(await get({ since: "a" }, "two")).toBe(2);
  expect(await get({ since: "a" }, "one")).toBe(1);
  state.at = 3;
  expect(await get({ since: "b" }, "one")).toBe(3);
  expect(await get({ since: "b" }, "two")).toBe(3);
});

test("one who waits for a slow remote asks again if the one whose answer it shared leaves", async () => {
  const busy = new RemoteBusyError(remote.repo, 6_000);
  const list = vi.fn<HeadsDeps["list"]>(async (_remote, { leaves }) => {
    if (leaves) throw busy;
    return headsAt(1);
  });
  const { find } = useRemote({ list, fetch: async () => undefined });
  const leaves = find(remote, { since: "a" }, { leaves: true });
  const stays = find(remote, { since: "a" }, {});
  await expect(leaves).rejects.toBe(busy);
  expect(commitIn(await stays)).toBe(1);
});

/** What may happen to one repository, in any order. */
const events = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("push" as const), isReported: fc.boolean() }),
    fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 60_000 }) }),
    fc.record({ kind: fc.constant("fail" as const) }),
    fc.record({ kind: fc.constant("evict" as const) }),
    fc.record({
      kind: fc.constant("ask" as const),
      knowsMove: fc.boolean(),
      maxAgeMs: fc.option(fc.integer({ min: 0, max: 90_000 }), { nil: undefined }),
    }),
  ),
  { minLength: 5, maxLength: 60 },
);

test("no answer is older than required, or than an answer that was given before", async () => {
  await fc.assert(
    fc.asyncProperty(events, async (all) => {
      const { state, get } = useRemote();
      let move: { name: string; commit: number } | undefined;
      let last = 0;
      /** The commit at each time: what an answer of some age may be at the least. */
      const history = [{ from: 0, commit: 1 }];
      for (const event of all) {
        if (event.kind === "pass") state.now += event.ms;
        if (event.kind === "push") {
          history.push({ from: state.now, commit: ++state.at });
          if (event.isReported) move = { name: `move to ${state.at}`, commit: state.at };
        }
        if (event.kind === "fail") {
          state.down = true;
          await get({ since: move?.name, maxAgeMs: 0 }).catch(() => undefined);
          state.down = false;
        }
        if (event.kind === "evict") for (let i = 0; i < 1_001; i++) await get({}, `other ${i}`);
        if (event.kind !== "ask") continue;
        const { maxAgeMs } = event;
        const since = event.knowsMove ? move : undefined;
        const commit = await get({ since: since?.name, maxAgeMs });
        const oldest = state.now - (maxAgeMs ?? 600_000);
        const least = history.findLast(({ from }) => from < oldest)?.commit ?? 1;
        expect(commit).toBeGreaterThanOrEqual(Math.max(last, since?.commit ?? 0, least));
        last = commit;
      }
    }),
    { numRuns: 100 },
  );
});
