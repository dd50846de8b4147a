import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { createTagsSweep } from "../../../jobs/sweeps/tags-sweep.ts";
import { annotation, type Deployment, type OciSource, type Request } from "../../../src/model.ts";
import { aDeployment, aSpec, aStatus } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

const minute = 60_000;

beforeEach(() => void vi.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") }));
afterEach(() => void vi.useRealTimers());

function following(name: string, ref: OciSource["ref"] = {}, more: Partial<Deployment> = {}): Deployment {
  const source: OciSource = { kind: "oci", url: "oci://registry.test/org/shop", ref, path: "" };
  const deployment = aDeployment({ key: { namespace: "apps", name }, status: aStatus({ observedGeneration: 1 }) });
  return { ...deployment, ...more, spec: { ...aSpec(), ...more.spec, source } };
}

function useSweep(deployments: readonly Deployment[]) {
  const tags = new Map([["latest", "d1"]]);
  const checkedOut = new Map<string, string>();
  const asked: string[] = [];
  const requests: Request[] = [];
  const state = { redisDown: false, registryDown: false };
  const sweep = createTagsSweep({
    deployments: { all: () => deployments },
    async tag({ source }) {
      const { tag = "latest" } = source.ref;
      asked.push(tag);
      if (state.registryDown) throw new Error("the registry is away");
      return { digest: tags.get(tag), checkedOut: checkedOut.get(tag) };
    },
    tagKey: ({ source }) => JSON.stringify([source.url, source.ref.tag ?? "latest"]),
    queue: {
      async enqueue(wanted) {
        if (state.redisDown) throw new Error("Redis is away");
        requests.push(...wanted);
        return { queued: wanted.length };
      },
    },
    everyMs: () => minute,
    clock: { now: () => Date.now() },
    log: silentLog,
  });
  onTestFinished(() => sweep.stop());
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      sweep.tick();
      await vi.advanceTimersByTimeAsync(1_000);
    }
  };
  const wanted = () => requests.map((one) => (one.kind === "reconcile" ? `${one.deployment.name} ${one.cause}` : ""));
  return { sweep, tags, checkedOut, asked, wanted, requests, state, pass };
}

test("a moved tag of an included artifact requests the deployments that include it, with those that follow it", async () => {
  const including = (name: string, text: string, more: Partial<Deployment> = {}) =>
    aDeployment({
      key: { namespace: "apps", name },
      status: aStatus({ observedGeneration: 1 }),
      ...more,
      annotations: { [annotation.includes]: text },
    });
  const shop = "oci://registry.test/org/shop";
  const { tags, asked, wanted, requests, pass } = useSweep([
    following("own"),
    including("latest", `${shop} latest\nhttps://git.example.com/org/library refs/heads/main`),
    including("v1", `${shop} v1`),
    including("deleted", `${shop} v1`, { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    including("git", "https://git.example.com/org/library"),
  ]);
  tags.set("v1", "d1");
  await pass(10_000);
  expect(asked.toSorted()).toEqual(["latest", "v1"]);
  tags.set("latest", "d2");
  await pass(minute);
  expect(wanted().toSorted()).toEqual(["latest include", "own sweep"]);
  expect(requests.find((one) => "cause" in one && one.cause === "include")).toHaveProperty("repo");
  tags.set("v1", "d2");
  await pass(minute);
  expect(wanted().at(-1)).toBe("v1 include");
  expect(wanted()).toHaveLength(3);
});

test("a tag is checked once for all deployments that follow it, and a moved tag requests each of them once", async () => {
  const { tags, asked, wanted, pass } = useSweep([following("a"), following("b"), following("c", { tag: "v1" })]);
  tags.set("v1", "d1");
  await pass(10_000);
  expect(asked.sort()).toEqual(["latest", "v1"]);
  expect(wanted()).toEqual([]);

  tags.set("latest", "d2");
  await pass(minute);
  expect(wanted()).toEqual(["a sweep", "b sweep"]);
  await pass(3 * minute);
  expect(wanted()).toHaveLength(2);
  tags.set("latest", "d1");
  await pass(minute);
  expect(wanted()).toHaveLength(4);
});

test("a tag that moved between its checkout and its first check is found as well", async () => {
  const { tags, checkedOut, wanted, pass } = useSweep([following("a"), following("b", { tag: "v1" })]);
  tags.set("v1", "d1");
  checkedOut.set("latest", "d0").set("v1", "d1");
  await pass(3 * minute);
  expect(wanted()).toEqual(["a sweep"]);
});

test("a deployment that Redis lost after a move is requested again until it was checked, unless it failed", async () => {
  const state = (ready: "True" | "False", endTime: string) =>
    aStatus({
      observedGeneration: 1,
      conditions: [{ type: "Ready", status: ready, reason: "x", message: "", lastTransitionTime: "" }],
      lastDriftDetectionResult: { document: {}, endTime },
    });
  const members = ["lost", "checked", "failed"].map((name) =>
    following(name, {}, { status: state("True", "2026-01-01T00:00:00Z") }),
  );
  const { tags, wanted, pass } = useSweep(members);
  await pass(10_000);
  tags.set("latest", "d2");
  await pass(minute);
  expect(wanted()).toEqual(["lost sweep", "checked sweep", "failed sweep"]);
  members[1] = { ...members[1]!, status: state("True", "2026-01-01T00:01:10Z") };
  members[2] = { ...members[2]!, status: state("False", "2026-01-01T00:00:00Z") };
  await pass(2 * minute);
  expect(wanted().slice(3)).toEqual(["lost sweep", "lost sweep"]);
  members[0] = { ...members[0]!, status: state("True", "2026-01-01T00:03:00Z") };
  await pass(2 * minute);
  expect(wanted()).toHaveLength(5);
});

test("tags that cannot move or do not matter are not checked", async () => {
  const suspended = following("suspended", {}, { spec: { ...aSpec(), suspend: true } });
  const { asked, pass } = useSweep([
    following("pinned", { digest: "d0", tag: "latest" }),
    suspended,
    following("new", {}, { status: aStatus() }),
    following("going", {}, { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    aDeployment({ status: aStatus({ observedGeneration: 1 }) }),
    { ...following("malformed"), problem: "spec.interval: is missing" } as Deployment,
  ]);
  await pass(2 * minute);
  expect(asked).toEqual([]);
});

test("a move is found again until its requests can be queued", async () => {
  const { tags, wanted, state, pass } = useSweep([following("a")]);
  await pass(10_000);
  tags.set("latest", "d2");
  state.redisDown = true;
  await pass(5 * minute);
  state.redisDown = false;
  await pass(10 * minute);
  expect(wanted()).toEqual(["a sweep"]);
});

test("an unreachable registry is asked less often, and moves in the meantime are found", async () => {
  const { tags, asked, wanted, state, pass } = useSweep([following("a")]);
  await pass(10_000);
  state.registryDown = true;
  asked.length = 0;
  await pass(30 * minute);
  expect(asked.length).toBeLessThan(7);
  expect(asked.length).toBeGreaterThan(2);
  tags.set("latest", "d2");
  state.registryDown = false;
  await pass(10 * minute);
  expect(wanted()).toEqual(["a sweep"]);
});

test("a sweep of all tags on demand waits for no period", async () => {
  const { sweep, tags, wanted } = useSweep([following("a")]);
  await sweep.runAll();
  tags.set("latest", "d2");
  await sweep.runAll();
  expect(wanted()).toEqual(["a sweep"]);
});
