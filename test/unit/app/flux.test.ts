import { expect, onTestFinished, test, vi } from "vitest";
import { createChecks } from "../../../src/app/checks.ts";
import { type FluxDeps, type FluxWatch, startFlux, startFluxWatch } from "../../../src/app/flux.ts";
import { silentLog } from "../../support/fakes.ts";

function useWatch() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const listed = Promise.withResolvers<void>();
  const state = { synced: false };
  const fluxSources = {
    start: () => listed.promise,
    stop: () => Promise.resolve(listed.resolve()),
    synced: () => state.synced,
  };
  const watch = startFluxWatch({ fluxSources, log: silentLog });
  onTestFinished(() => watch.stop());
  return { state, watch };
}

/** The check of a server that has no leadership yet. */
async function fluxCheck(flux: FluxWatch | undefined) {
  const checks = createChecks({
    deployments: { synced: () => false, age: () => 0, problem: () => undefined, all: () => [] },
    checkRedis: () => Promise.resolve({ problems: [], warnings: [] }),
    kluctl: { version: () => Promise.resolve("2.0.0") },
    lastDelivery: new Map(),
    state: {},
    previews: () => false,
    forks: () => "off",
    flux,
    clock: { now: () => 0 },
  });
  return checks.find(({ name }) => name === "flux")?.check();
}

test("a server that takes deliveries is not ready before GitRepositories are listed, leader or not", async () => {
  const { state, watch } = useWatch();
  expect(await fluxCheck(watch)).toEqual({ ok: false, error: "Flux's GitRepositories have not been listed yet" });
  state.synced = true;
  expect(await fluxCheck(watch)).toEqual({ ok: true });
  state.synced = false;
  expect(await fluxCheck(watch), "if Flux is installed later, deployments do not wait").toEqual({ ok: true });
});

test("a list that does not end does not stand in the way of deployments", async () => {
  const { watch } = useWatch();
  await vi.advanceTimersByTimeAsync(29_000);
  expect(watch.isReady()).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await fluxCheck(watch)).toEqual({ ok: true });
});

test("a server that does nothing for Flux does not check it", async () => {
  expect(await fluxCheck(undefined)).toBeUndefined();
});

test("a server that only reports what Flux applies does not make Flux fetch, and removes such requests too", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const removed: string[] = [];
  const queue = { removeOld: async (lane: string) => void removed.push(lane) };
  const live = { now: { flux: { trigger: false, statuses: true } } };
  const flux = startFlux({ live, fluxSources: {}, queue, log: silentLog } as unknown as FluxDeps);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(removed).toEqual(["flux"]);
  await flux.stop(0);
});

test("if nothing is done for Flux any more, requests that were left behind are removed, also after Redis was away", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const removed: string[] = [];
  let isAway = true;
  const queue = {
    async removeOld(lane: string, olderThanMs: number) {
      if (isAway) throw new Error("Redis is away");
      removed.push(`${lane} ${olderThanMs}`);
    },
  };
  const flux = startFlux({ fluxSources: undefined, queue, log: silentLog } as unknown as FluxDeps);
  await vi.advanceTimersByTimeAsync(60_000);
  isAway = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(removed).toEqual(["flux 600000"]);
  await flux.stop(0);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(removed).toHaveLength(1);
});
