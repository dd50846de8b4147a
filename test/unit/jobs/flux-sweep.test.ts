import { expect, onTestFinished, test, vi } from "vitest";
import { startFluxSweep } from "../../../jobs/sweeps/flux-sweep.ts";
import { type FluxSource, keyText, type Request } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { aFluxSource } from "../../support/flux.ts";

const [first, second] = ["1".repeat(40), "2".repeat(40)];

/** A sweep that only runs when it is made to. */
function useSweep(...sources: FluxSource[]) {
  const state = {
    sources,
    refs: new Map([["refs/heads/main", first]]),
    failing: false,
    down: false,
    apiDown: false,
    written: 0,
  };
  const looks: string[] = [];
  const requests: Request[] = [];
  const sweep = startFluxSweep({
    sources: { all: () => state.sources },
    async heads(url) {
      looks.push(url);
      if (state.failing) throw new Error("authentication failed");
      return { commits: new Map([...state.refs].filter(([name]) => /^refs\/(heads|tags)\//.test(name))) };
    },
    async commitsAt(_url, names) {
      return new Map([...state.refs].filter(([name]) => names.includes(name)));
    },
    everyMs: () => 60_000,
    queue: {
      async enqueue(wanted) {
        if (state.down) throw new Error("Redis is away");
        requests.push(...wanted);
        return { queued: wanted.length };
      },
      claim: () => Promise.resolve(true),
    },
    clock: { now: () => Date.now() },
    log: silentLog,
    tickMs: 3_600_000,
  });
  onTestFinished(() => sweep.stop());
  /** The requests of one sweep, which are then written, unless the API server is away. */
  const found = async () => {
    await sweep.runNow();
    state.written++;
    if (!state.apiDown) state.sources = state.sources.map((one) => withRequest(one, requests, `${state.written}`));
    return requests
      .splice(0)
      .map((one) => (one.kind === "flux-fetch" ? `${one.cause} ${keyText(one.source)}` : one.kind));
  };
  return { state, looks, found };
}

const withRequest = (source: FluxSource, requests: readonly Request[], lastRequest: string): FluxSource =>
  requests.some((one) => one.kind === "flux-fetch" && keyText(one.source) === keyText(source.key))
    ? { ...source, lastRequest }
    : source;

test("a commit that no webhook reported is requested once, with one ls-remote for all of its repository", async () => {
  const { state, looks, found } = useSweep(
    aFluxSource({ name: "a", commit: first }),
    aFluxSource({ name: "b", commit: first }),
    aFluxSource({ name: "release", ref: { branch: "release" }, commit: first }),
  );
  expect(await found()).toEqual([]);
  state.refs.set("refs/heads/main", second);
  expect(await found()).toEqual(["sweep flux-system/a", "sweep flux-system/b"]);
  expect(await found(), "Flux retries by itself").toEqual([]);
  expect(looks).toHaveLength(3);
  state.refs.set("refs/heads/main", "3".repeat(40));
  expect(await found()).toEqual(["sweep flux-system/a", "sweep flux-system/b"]);
});

test("it is requested again if Redis was away, or if the ref moves back", async () => {
  const { state, found } = useSweep(aFluxSource({ commit: first }));
  state.refs.set("refs/heads/main", second);
  state.down = true;
  expect(await found()).toEqual([]);
  state.down = false;
  expect(await found()).toEqual(["sweep flux-system/shop"]);
  state.sources = [aFluxSource({ commit: second })];
  state.refs.set("refs/heads/main", first);
  expect(await found()).toEqual(["sweep flux-system/shop"]);
});

test("a request that could not be written is made again", async () => {
  const { state, found } = useSweep(aFluxSource({ commit: first }));
  state.refs.set("refs/heads/main", second);
  state.apiDown = true;
  expect(await found()).toEqual(["sweep flux-system/shop"]);
  state.apiDown = false;
  expect(await found()).toEqual(["sweep flux-system/shop"]);
  expect(await found()).toEqual([]);
});

test("a commit to which the ref returns is requested again, although Flux never had it", async () => {
  const { state, found } = useSweep(aFluxSource({ commit: first }));
  for (const time of ["once", "again"]) {
    state.refs.set("refs/heads/main", second);
    expect(await found(), time).toEqual(["sweep flux-system/shop"]);
    expect(await found(), "Flux retries by itself").toEqual([]);
    state.refs.set("refs/heads/main", first);
    expect(await found()).toEqual([]);
  }
});

test("what is suspended, pinned, never fetched or requested already is left alone", async () => {
  const { looks, found } = useSweep(
    { ...aFluxSource({ name: "suspended", commit: second }), suspended: true },
    aFluxSource({ name: "pinned", commit: second, ref: { commit: second } }),
    aFluxSource({ name: "never" }),
  );
  expect(await found()).toEqual([]);
  expect(looks).toEqual([]);
  const pending = useSweep({ ...aFluxSource({ commit: second }), isRequested: true });
  expect(await pending.found()).toEqual([]);
});

test("a ref that is neither a branch nor a tag is found too, and a repository that cannot be read is no failure", async () => {
  const name = "refs/pull/7/head";
  const { state, found } = useSweep(aFluxSource({ ref: { name }, commit: first }));
  state.refs.set(name, second);
  state.failing = true;
  expect(await found()).toEqual([]);
  state.failing = false;
  expect(await found()).toEqual(["sweep flux-system/shop"]);
});

/** Sweeps of several replicas that run by themselves, once a minute, while the time passes. */
function useReplicas(count: number, source: FluxSource) {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const state = { source, head: first, failing: false, looks: 0, requests: 0 };
  const claims = new Map<string, number>();
  const replicas = Array.from({ length: count }, () =>
    startFluxSweep({
      sources: { all: () => [state.source] },
      async heads() {
        state.looks++;
        if (state.failing) throw new Error("authentication failed");
        return { commits: new Map([["refs/heads/main", state.head]]) };
      },
      commitsAt: () => Promise.resolve(new Map()),
      everyMs: () => 60_000,
      queue: {
        async enqueue(wanted) {
          state.requests += wanted.length;
          return { queued: wanted.length };
        },
        async claim(what, forMs) {
          if ((claims.get(what) ?? 0) > Date.now()) return false;
          claims.set(what, Date.now() + forMs);
          return true;
        },
      },
      clock: { now: () => Date.now() },
      log: silentLog,
      tickMs: 500,
    }),
  );
  onTestFinished(async () => void (await Promise.all(replicas.map((one) => one.stop()))));
  const counted = (what: "looks" | "requests") => async (minutes: number) => {
    const before = state[what];
    await vi.advanceTimersByTimeAsync(minutes * 60_000);
    return state[what] - before;
  };
  return { state, looksIn: counted("looks"), requestsIn: counted("requests") };
}

test("a commit that Flux does not have after a request is requested again, less and less often", async () => {
  const { state, requestsIn } = useReplicas(1, aFluxSource({ commit: first }));
  await requestsIn(1.5);
  state.head = second;
  // Flux answers each request, with what a replica of the git host has that is behind.
  const answer = () => (state.source = { ...state.source, lastRequest: `${state.requests}` });
  const minutes: number[] = [];
  for (let minute = 0; minute < 40; minute++) {
    if ((await requestsIn(1)) > 0) minutes.push(minute);
    answer();
  }
  expect(minutes).toEqual([0, 1, 3, 7, 15, 31]);
  state.source = { ...state.source, commit: second };
  expect(await requestsIn(120)).toBe(0);
});

test("replicas share the checks: a repository is asked once per period, however many there are", async () => {
  const { looksIn } = useReplicas(3, aFluxSource({ commit: first }));
  await looksIn(1);
  expect(await looksIn(10)).toBe(10);
});

test("a repository that cannot be read is asked less and less often, at least once an hour, until it can be read", async () => {
  const { state, looksIn } = useReplicas(1, aFluxSource({ commit: first }));
  state.failing = true;
  // At 0, 2, 6, 14, 30, 62 and 122 minutes
  expect(await looksIn(10)).toBe(3);
  expect(await looksIn(120)).toBe(4);
  expect(await looksIn(120)).toBe(2);
  state.failing = false;
  expect(await looksIn(60)).toBeGreaterThan(0);
  expect(await looksIn(10)).toBe(10);
  state.failing = true;
  expect(await looksIn(10), "as after the first failure").toBe(3);
});

test("a commit that Flux had between two checks is requested again when the ref returns to it", async () => {
  const { state, requestsIn } = useReplicas(1, aFluxSource({ commit: first }));
  expect(await requestsIn(1.5), "checks are in the first five seconds of a minute").toBe(0);
  state.head = second;
  expect(await requestsIn(1)).toBe(1);
  state.source = { ...state.source, commit: second, lastRequest: "of the sweep" };
  expect(await requestsIn(0.3)).toBe(0);
  state.source = { ...state.source, commit: first, lastRequest: "of a webhook that reported the way back" };
  expect(await requestsIn(1)).toBe(1);
});
