import { expect, onTestFinished, test } from "vitest";
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
