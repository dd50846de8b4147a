import { expect, test } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import { createFluxFetch } from "../../../src/flux/request-fetch.ts";
import { type FluxFetchRequest, type FluxSource, subjectOf } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { aFluxSource } from "../../support/flux.ts";

const request: FluxFetchRequest = {
  kind: "flux-fetch",
  source: { namespace: "flux-system", name: "shop" },
  cause: "push",
};

const commit = "1".repeat(40);

function useFetch(source: FluxSource | undefined, refusal?: Error) {
  const written: string[] = [];
  const fetch = createFluxFetch({
    sources: {
      get: async () => source,
      async requestFetch({ namespace, name }, at) {
        if (refusal) throw refusal;
        written.push(`${namespace}/${name} at ${at}`);
      },
    },
    clock: { now: () => Date.parse("2026-01-01T00:00:00.123Z") },
    log: silentLog,
  });
  const attempt = { signal: new AbortController().signal, lastAttempt: false };
  return { written, run: (pushed?: string) => fetch({ ...request, commit: pushed }, attempt) };
}

test("the annotation says when, unless Flux has the pushed commit and is not about to fetch", async () => {
  const there = useFetch(aFluxSource({ commit }));
  expect(await there.run(commit)).toEqual({ kind: "skipped", why: "Flux has fetched this commit already" });
  expect(there.written).toEqual([]);
  for (const [source, pushed] of [
    [aFluxSource({ commit }), "2".repeat(40)],
    [aFluxSource({ commit }), undefined],
    [aFluxSource(), commit],
    [{ ...aFluxSource({ commit }), isRequested: true }, commit],
  ] as const) {
    const { run, written } = useFetch(source);
    expect(await run(pushed)).toEqual({ kind: "done" });
    expect(written).toEqual(["flux-system/shop at 2026-01-01T00:00:00.123Z"]);
  }
});

test("of two pushes, neither is carried out by the other's job: Flux may have the commit of the first one", () => {
  const [one, other] = [subjectOf({ ...request, commit }), subjectOf({ ...request, commit: "2".repeat(40) })];
  expect(new Set([one, other, subjectOf(request)]).size).toBe(3);
});

test("a GitRepository that is gone or suspended by then is left alone", async () => {
  const gone = useFetch(undefined);
  expect(await gone.run()).toEqual({ kind: "skipped", why: "deleted" });
  const suspended = useFetch({ ...aFluxSource(), suspended: true });
  expect(await suspended.run()).toEqual({ kind: "skipped", why: "suspended" });
  expect([...gone.written, ...suspended.written]).toEqual([]);
  expect(await useFetch(aFluxSource(), new ApiError(404, "gone")).run()).toEqual({ kind: "skipped", why: "deleted" });
});

test("a refusal names the right that is missing and is not retried; an outage is", async () => {
  expect(await useFetch(aFluxSource(), new ApiError(403, "forbidden")).run()).toEqual({
    ...{ kind: "failed", retry: "person" },
    message: expect.stringContaining("grant it get and patch on gitrepositories.source.toolkit.fluxcd.io"),
  });
  expect(await useFetch(aFluxSource(), new ApiError(503, "busy")).run()).toEqual({
    ...{ kind: "failed", retry: "soon" },
    message: "cannot request a fetch of GitRepository flux-system/shop: busy",
  });
});
