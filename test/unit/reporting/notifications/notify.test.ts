import { expect, test } from "vitest";
import { ApiError } from "../../../../src/errors.ts";
import { annotation, parseSentRecord, printSentRecord } from "../../../../src/model.ts";
import {
  aNotifiedWorld,
  commitA,
  commitB,
  deployed,
  failed,
  ofRepository,
  refuses,
  working,
} from "../../../support/notified.ts";

test("what is true when a target is configured is no news", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA), failed("dev", commitB));
  expect(await world.hears()).toEqual([]);
  expect(await world.hears()).toEqual([]);
});

test("one push is one message, however many deployments it changed", async () => {
  const world = aNotifiedWorld();
  const names = Array.from({ length: 200 }, (_, index) => `region-${String(index).padStart(3, "0")}`);
  world.have(...names.map((name) => deployed(name, commitA)));
  await world.hears();
  world.have(...names.map((name) => deployed(name, commitB, { at: world.at() })));
  expect(await world.hears()).toEqual(["sent: shop: deployed 77aa0c1 to 200 deployments"]);
  const [{ notification } = { notification: undefined }] = world.messages;
  expect(notification?.lines).toHaveLength(10);
  expect(notification?.linesLeftOut).toBe(190);
  expect(notification?.facts).toEqual([
    { label: "Commit", value: "77aa0c1 Raise the limit" },
    { label: "Author", value: "Ada" },
  ]);
  expect(await world.hears()).toEqual([]);
});

test("a push is reported once its deployments have been quiet for some seconds", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears(1_000)).toEqual([]);
  expect(world.wakes).toEqual([4_000]);
  expect(await world.hears(4_000)).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
});

test("a failure and its recovery by the next commit are a message each", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }), deployed("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: 77aa0c1 failed in 1 of 2 deployments"]);
  const fix = "9c9c9c9".padEnd(40, "0");
  world.have(deployed("prod", fix, { at: world.at() }), deployed("dev", fix, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: recovered, 9c9c9c9 is deployed to 2 deployments"]);
  expect(await world.hears()).toEqual([]);
});

test("retries of a failure are no news, unless another deployment fails", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  await world.hears();
  const dev = deployed("dev", commitB, { at: world.at() });
  world.have(failed("prod", commitB, { at: world.at() }), dev);
  expect(await world.hears()).toHaveLength(1);
  world.have(working("prod", commitB, { at: world.at() }), dev);
  expect(await world.hears()).toEqual([]);
  world.have(failed("prod", commitB, { at: world.at() }), dev);
  expect(await world.hears()).toEqual([]);
  world.have(failed("prod", commitB, { at: world.at() }), failed("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: 77aa0c1 failed in 2 of 2 deployments"]);
  world.have(deployed("prod", commitB, { at: world.at() }), dev);
  expect(await world.hears()).toEqual(["sent: shop: recovered, 77aa0c1 is deployed to 2 deployments"]);
});

test("where a message can be changed, a push stays one message until it recovers", async () => {
  const world = aNotifiedWorld({ edits: true, routes: [{ events: ["started", "succeeded", "failed", "recovered"] }] });
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  await world.hears();
  world.have(working("prod", commitB, { at: world.at() }), working("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: deploying 77aa0c1, 0 of 2 deployments done"]);
  world.have(deployed("prod", commitB, { at: world.at() }), working("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["changed: shop: deploying 77aa0c1, 1 of 2 deployments done"]);
  world.have(deployed("prod", commitB, { at: world.at() }), failed("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["changed, announced: shop: 77aa0c1 failed in 1 of 2 deployments"]);
  world.have(deployed("prod", commitB, { at: world.at() }), deployed("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["changed, announced: shop: recovered, 77aa0c1 is deployed to 2 deployments"]);
  world.have(deployed("prod", commitA, { at: world.at() }), deployed("dev", commitA, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: deployed 3f2c1ab to 2 deployments"]);
});

test("a failed commit that another one superseded is said to be superseded where messages can be changed", async () => {
  const world = aNotifiedWorld({ edits: true });
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: 77aa0c1 failed"]);
  world.have(deployed("prod", commitA, { at: world.at() }));
  expect(await world.hears()).toEqual([
    "sent: shop/prod: recovered, 3f2c1ab is deployed",
    "changed: shop: superseded by a newer commit",
  ]);
});

test("drift is reported when it appears, when it grows, and when it is gone", async () => {
  const world = aNotifiedWorld();
  const drifted = {
    lastDriftDetectionResultMessage: "1 changed",
    lastDriftDetectionResult: { document: { objects: [{}] }, endTime: "2026-11-26T12:00:00Z" },
  };
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  await world.hears();
  world.have(deployed("prod", commitA, { status: drifted }), deployed("dev", commitA));
  expect(await world.hears()).toEqual(["sent: shop: 1 deployment differs from git"]);
  expect(await world.hears()).toEqual([]);
  world.have(deployed("prod", commitA, { status: drifted }), deployed("dev", commitA, { status: drifted }));
  expect(await world.hears()).toEqual(["sent: shop: 2 deployments differ from git"]);
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  expect(await world.hears()).toEqual(["sent: shop: no longer differs from git"]);
});

test("a target that is down for ten minutes hears what is true when it is back, once", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.failing.error = refuses("later");
  world.have(failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual([]);
  for (let minute = 0; minute < 10; minute++) expect(await world.hears(60_000)).toEqual([]);
  expect(world.record()?.late).toMatchObject({ "": { message: "chat.example.com: response status 503" } });
  world.have(deployed("prod", commitA, { at: world.at() }));
  world.failing.error = undefined;
  expect(await world.hears(60_000)).toEqual(["sent: shop/prod: deployed 3f2c1ab (2 changed)"]);
  expect(world.record()?.late).toEqual({});
});

test("a target that asks for patience gets it, and one that refuses is tried again after ten minutes", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.failing.error = refuses("later", 120_000);
  world.have(deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual([]);
  expect(world.wakes.at(-1)).toBe(120_000);
  world.failing.error = refuses("refused");
  await world.hears(60_000);
  expect(world.wakes.at(-1)).toBe(60_000);
  await world.hears(60_000);
  expect(world.wakes.at(-1)).toBe(600_000);
  world.failing.error = undefined;
  expect(await world.hears(599_000)).toEqual([]);
  expect(await world.hears(1_000)).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
});

test("a server that dies between sending and recording leads to one repetition at most", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(deployed("prod", commitB, { at: world.at() }));
  const { write } = world.deps.record;
  let writes = 0;
  // Each run records that it sends, sends, and dies.
  world.deps.record.write = (...written) =>
    ++writes % 2 === 0 ? Promise.reject(new Error("died")) : write(...written);
  world.pass(10_000);
  await expect(world.run()).rejects.toThrow("died");
  world.pass(61_000);
  await expect(world.run("two")).rejects.toThrow("died");
  world.deps.record.write = write;
  world.pass(61_000);
  await world.run("three");
  await world.run("three");
  expect(world.messages.map(({ title }) => title)).toEqual(
    Array.from({ length: 2 }, () => "shop/prod: deployed 77aa0c1 (2 changed)"),
  );
});

test("two servers that look at the same moment send one message", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(deployed("prod", commitB, { at: world.at() }));
  world.pass(10_000);
  await Promise.allSettled([world.run(), world.run("two"), world.run("three")]);
  world.pass(61_000);
  await world.run("two");
  expect(world.messages).toHaveLength(1);
});

test("what exceeds the limit per hour arrives as one message", async () => {
  const world = aNotifiedWorld({ target: { perHour: 2 } });
  const names = ["a", "b", "c", "d"] as const;
  const of = (commit: string) => names.map((name) => deployed(name, commit, { ...ofRepository(name), at: world.at() }));
  const first = of(commitA);
  world.have(...first);
  await world.hears();
  const second = of(commitB);
  world.have(...second.slice(0, 1), ...first.slice(1));
  expect(await world.hears()).toEqual(["sent: shop/a: deployed 77aa0c1 (2 changed)"]);
  world.have(...second);
  expect(await world.hears()).toEqual(["sent: 3 notifications"]);
  expect(world.messages[1]?.notification.lines.map(({ name }) => name)).toEqual([
    "shop/b: deployed 77aa0c1 (2 changed)",
    "shop/c: deployed 77aa0c1 (2 changed)",
    "shop/d: deployed 77aa0c1 (2 changed)",
  ]);
  world.have(...of(commitA));
  expect(await world.hears()).toEqual([]);
  expect(world.wakes.at(-1)).toBeGreaterThan(3_500_000);
  expect(await world.hears(3_600_000)).toEqual(["sent: 4 notifications"]);
});

test("in quiet hours only errors are sent, and the rest arrives as one message when they end", async () => {
  const world = aNotifiedWorld({ target: { quietHours: { from: "12:00", to: "13:30", timeZone: "UTC" } } });
  const one = ofRepository("a");
  world.have(deployed("prod", commitA), deployed("dev", commitA, one));
  await world.hears();
  world.have(deployed("prod", commitB, { at: world.at() }), deployed("dev", commitB, { ...one, at: world.at() }));
  expect(await world.hears()).toEqual([]);
  world.have(failed("prod", commitA, { at: world.at() }), deployed("dev", commitB, { ...one, at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: 3f2c1ab failed"]);
  world.have(deployed("prod", commitB, { at: world.at() }), deployed("dev", commitB, { ...one, at: world.at() }));
  expect(await world.hears()).toEqual([]);
  expect(await world.hears(2 * 3_600_000)).toEqual(["sent: 2 notifications"]);
});

test("an annotation sends a deployment to a channel that the target allows, or nowhere", async () => {
  const world = aNotifiedWorld({ target: { channels: ["#pr*"] } });
  const notify = (text: string) => ({ annotations: { [annotation.notify]: text } });
  const all = (commit: string) => [
    deployed("prod", commit, { at: world.at(), ...notify("team:#prod, other") }),
    deployed("dev", commit, { at: world.at(), ...notify("none") }),
    deployed("test", commit, { at: world.at(), ...notify("team:#board") }),
  ];
  world.have(...all(commitA));
  await world.hears();
  world.have(...all(commitB));
  await world.hears();
  expect(world.messages.map(({ title, channel }) => [title, channel])).toEqual([
    ["shop/prod: deployed 77aa0c1 (2 changed)", "#prod"],
    ["shop/test: deployed 77aa0c1 (2 changed)", undefined],
  ]);
});

test("events that a route leaves out are not sent, and still lead to the right next message", async () => {
  const world = aNotifiedWorld({ routes: [{ events: ["recovered", "drift"] }] });
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual([]);
  world.have(deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: recovered, 77aa0c1 is deployed"]);
});

test("a target that forgets is reminded of what is open", async () => {
  const world = aNotifiedWorld({ edits: true, refreshMs: 30 * 60_000 });
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toHaveLength(1);
  expect(await world.hears(20 * 60_000)).toEqual([]);
  expect(await world.hears(11 * 60_000)).toEqual(["changed: shop/prod: 77aa0c1 failed"]);
  expect(await world.hears(5 * 60_000)).toEqual([]);
});

test("the record does not grow with what was reported long ago", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  for (let push = 0; push < 50; push++) {
    world.have(deployed("prod", String(push).padStart(40, "a"), { at: world.at() }));
    expect(await world.hears(10 * 60_000)).toHaveLength(1);
  }
  expect(JSON.stringify(world.record()).length).toBeLessThan(5_000);
});

test("beside failures, what went well is only counted", async () => {
  const world = aNotifiedWorld();
  const names = ["a", "b", "c"];
  world.have(...names.map((name) => deployed(name, commitA)));
  await world.hears();
  world.have(
    failed("a", commitB, { at: world.at() }),
    ...["b", "c"].map((name) => deployed(name, commitB, { at: world.at() })),
  );
  await world.hears();
  expect(world.messages[0]?.notification).toMatchObject({
    lines: [{ name: "shop/a", state: "failed" }],
    linesLeftOut: 0,
    facts: [{ label: "Commit" }, { label: "Author" }, { label: "Succeeded", value: "2 deployments" }],
    object: { kind: "KluctlDeployment", name: "a", namespace: "shop" },
    links: [
      { label: "Commit", url: "https://git.example.com/c" },
      { label: "Rollout", url: `https://towline.example.com/#/commit/${commitB}` },
    ],
  });
});

test("the same thing that happens twice has two identities, and its end is about the same deployment", async () => {
  const world = aNotifiedWorld();
  const drifted = {
    lastDriftDetectionResultMessage: "1 changed",
    lastDriftDetectionResult: { document: { objects: [{}] }, endTime: "2026-11-26T12:00:00Z" },
  };
  world.have(deployed("prod", commitA));
  await world.hears();
  for (let times = 0; times < 2; times++) {
    world.have(deployed("prod", commitA, { status: drifted }));
    expect(await world.hears()).toHaveLength(1);
    world.have(deployed("prod", commitA));
    expect(await world.hears()).toHaveLength(1);
  }
  expect(new Set(world.messages.map(({ notification }) => notification.id)).size).toBe(4);
  expect(new Set(world.messages.map(({ notification }) => notification.thread)).size).toBe(1);
  expect(world.messages.map(({ notification }) => notification.object?.name)).toEqual(Array(4).fill("prod"));
});

test("a target with a memory of its own hears of what has failed when it is configured, and is never held back", async () => {
  const target = { perHour: 1, quietHours: { from: "00:00", to: "23:59", timeZone: "UTC" } };
  const world = aNotifiedWorld({ edits: true, refreshMs: 30 * 60_000, target });
  world.have(failed("prod", commitA), deployed("dev", commitA, ofRepository("a")));
  expect(await world.hears()).toEqual([]);
  expect(await world.hears()).toEqual(["sent: shop/prod: 3f2c1ab failed"]);
  world.have(
    deployed("prod", commitB, { at: world.at() }),
    deployed("dev", commitB, { ...ofRepository("a"), at: world.at() }),
  );
  expect(await world.hears()).toEqual([
    "changed, announced: shop/prod: recovered, 77aa0c1 is deployed",
    "sent: shop/dev: deployed 77aa0c1 (2 changed)",
  ]);
});

test("a channel that is refused holds up no other channel", async () => {
  const world = aNotifiedWorld({ target: { channels: ["*"] } });
  const all = (commit: string) => [
    deployed("a", commit, { at: world.at(), annotations: { [annotation.notify]: "team:#gone" } }),
    deployed("b", commit, { at: world.at() }),
  ];
  world.have(...all(commitA));
  await world.hears();
  world.failing.channel = "#gone";
  world.have(...all(commitB));
  expect(await world.hears()).toEqual(["sent: shop/b: deployed 77aa0c1 (2 changed)"]);
  expect(Object.values(world.record()?.refused ?? {})).toMatchObject([{ channel: "#gone" }]);
  expect(await world.hears()).toEqual([]);
  world.failing.channel = undefined;
  expect(await world.hears(600_000)).toEqual(["sent: shop/a: deployed 77aa0c1 (2 changed)"]);
  expect(world.record()?.refused).toEqual({});
});

test("a message that cannot be made holds up no other, and is tried again", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.failing.error = new TypeError("undefined is not a function");
  world.have(deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual([]);
  expect(Object.values(world.record()?.refused ?? {})).toMatchObject([
    { message: "the message could not be made: the log has the details" },
  ]);
  world.failing.error = undefined;
  expect(await world.hears(600_000)).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
});

test("an interval check of a deployment that waits does not close and open it again", async () => {
  for (const edits of [true, false]) {
    const world = aNotifiedWorld({ edits });
    const spec = { manual: true, manualObjectsHash: "old" };
    const checking = [
      { type: "Reconciling", status: "True", reason: "any", message: "", lastTransitionTime: "" } as const,
    ];
    const message = "deploy succeeded. To confirm the prune, set the annotation";
    const waits = (own = {}) => {
      const { status } = deployed("prod", commitA, { at: world.at() });
      return deployed("prod", commitA, { at: world.at(), spec, status: { ...status, lastObjectsHash: "new", ...own } });
    };
    world.have(deployed("prod", commitA), deployed("dev", commitA));
    await world.hears();
    world.have(waits(), deployed("dev", commitA));
    expect(await world.hears()).toEqual(["sent: shop: 1 deployment waits for approval"]);
    world.have(waits({ conditions: checking }), deployed("dev", commitA));
    expect(await world.hears(), message).toEqual([]);
    // While another deployment is checked, nothing is known of this one's end either.
    world.have(deployed("prod", commitA), working("dev", commitA));
    expect(await world.hears()).toEqual([]);
    world.have(deployed("prod", commitA), deployed("dev", commitA));
    expect(await world.hears()).toEqual([`${edits ? "changed" : "sent"}: shop: nothing waits for approval any more`]);
  }
});

test("retries of one of two failures do not rewrite the message each time", async () => {
  const world = aNotifiedWorld({ edits: true });
  world.have(deployed("prod", commitA), deployed("dev", commitA));
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }), failed("dev", commitB, { at: world.at() }));
  expect(await world.hears()).toHaveLength(1);
  for (let retry = 0; retry < 3; retry++) {
    world.have(failed("prod", commitB, { at: world.at() }), working("dev", commitB, { at: world.at() }));
    expect(await world.hears()).toEqual([]);
    world.have(failed("prod", commitB, { at: world.at() }), failed("dev", commitB, { at: world.at() }));
    expect(await world.hears()).toEqual([]);
  }
});

test("a channel that is new hears of what happens from then on, and of what fails", async () => {
  const world = aNotifiedWorld({ target: { channels: ["*"] } });
  const long = "2026-11-24T12:00:00Z";
  world.have(deployed("prod", commitA, { at: long }), failed("dev", commitB, { at: long }));
  await world.hears();
  const annotations = { [annotation.notify]: "team:#shop" };
  world.have(deployed("prod", commitA, { at: long, annotations }), failed("dev", commitB, { at: long, annotations }));
  expect(await world.hears()).toEqual(["sent: shop/dev: 77aa0c1 failed"]);
  world.have(
    deployed("prod", commitB, { at: world.at(), annotations }),
    failed("dev", commitB, { at: long, annotations }),
  );
  expect(await world.hears()).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
  world.have(
    deployed("prod", commitB, { at: world.at(), annotations }),
    deployed("dev", commitB, { at: world.at(), annotations }),
  );
  expect(await world.hears()).toEqual(["sent: shop: recovered, 77aa0c1 is deployed to 2 deployments"]);
});

test("whoever fills one channel does not silence the others", async () => {
  const world = aNotifiedWorld({ target: { perHour: 1, channels: ["*"] } });
  const own = { ...ofRepository("noisy"), annotations: { [annotation.notify]: "team:#noise" } };
  const noisy = (commit: string) => deployed("noisy", commit, { ...own, at: world.at() });
  const prod = deployed("prod", commitA, { at: world.at() });
  world.have(noisy(commitA), prod);
  await world.hears();
  world.have(noisy(commitB), prod);
  expect(await world.hears()).toHaveLength(1);
  world.have(noisy(commitA), prod);
  expect(await world.hears()).toEqual([]);
  world.have(noisy(commitA), deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
});

test("the record fits into a ConfigMap, whatever fails", async () => {
  const world = aNotifiedWorld();
  const name = (index: number) => `${"n".repeat(200)}-${index}`;
  world.have(...Array.from({ length: 3_000 }, (_, index) => failed(name(index), commitA, ofRepository(`r${index}`))));
  await world.hears();
  const printed = printSentRecord(world.record()!);
  expect(printed.length).toBeLessThan(1_000_000);
  const read = parseSentRecord(printed);
  expect(Object.keys(read?.seen ?? {})).toHaveLength(3_000);
});

test("without its record nothing is sent, and everything once it can be written again", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  world.have(deployed("prod", commitB, { at: world.at() }));
  world.failing.write = new ApiError(403, "configmaps is forbidden");
  world.pass(10_000);
  expect(await world.run()).toMatchObject({ kind: "later", why: "configmaps is forbidden" });
  expect(world.messages).toEqual([]);
  world.failing.write = undefined;
  expect(await world.hears()).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
});

test("a message that a target refuses holds up no other message of its channel", async () => {
  const world = aNotifiedWorld();
  const poison = ofRepository("poison");
  world.have(deployed("evil", commitA, poison), deployed("prod", commitA));
  await world.hears();
  world.failing.title = "evil";
  world.have(failed("evil", commitB, { ...poison, at: world.at() }), deployed("prod", commitA));
  expect(await world.hears()).toEqual([]);
  world.have(failed("evil", commitB, { ...poison, at: world.at() }), failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: 77aa0c1 failed"]);
});

test("a channel that does not answer holds up no other channel", async () => {
  const world = aNotifiedWorld({ target: { channels: ["*"] } });
  const full = { annotations: { [annotation.notify]: "team:full" } };
  world.have(deployed("a", commitA, full), deployed("b", commitA));
  await world.hears();
  world.failing.late = "full";
  world.have(failed("a", commitB, { ...full, at: world.at() }), failed("b", commitB, { at: world.at() }));
  expect(await world.hears()).toHaveLength(1);
  world.failing.late = undefined;
  expect(await world.hears(60_000)).toHaveLength(1);
  expect(world.record()?.late).toEqual({});
});

test.each(["constructor", "__proto__", "toString", "hasOwnProperty"])("a channel may be named %s", async (name) => {
  const world = aNotifiedWorld({ target: { channels: ["*"] } });
  const own = { annotations: { [annotation.notify]: `team:${name}` } };
  world.have(deployed("prod", commitA, own));
  await world.hears();
  world.have(failed("prod", commitB, { ...own, at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: 77aa0c1 failed"]);
  expect(world.messages[0]?.channel).toBe(name);
});

test("whoever names thousands of channels gets five", async () => {
  const world = aNotifiedWorld({ target: { channels: ["*"] } });
  const own = { annotations: { [annotation.notify]: Array.from({ length: 30_000 }, (_, i) => `team:${i}`).join() } };
  world.have(deployed("prod", commitA, own));
  await world.hears();
  world.have(failed("prod", commitB, { ...own, at: world.at() }));
  expect(await world.hears()).toHaveLength(5);
});

test("whoever deploys the same commit again and again does not put off the news of a failure", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA), deployed("noise", commitA));
  await world.hears();
  const prod = failed("prod", commitB, { at: world.at() });
  const heard: string[] = [];
  for (let times = 0; times < 60; times++) {
    const at = times % 2 === 0 ? "2099-01-01T00:00:00Z" : world.at(3_000);
    world.have(prod, times % 3 === 0 ? working("noise", commitB, { at }) : failed("noise", commitB, { at }));
    heard.push(...(await world.hears(4_000)));
  }
  expect(heard[0]).toContain("77aa0c1 failed in");
  expect(heard.length).toBeLessThan(4);
});

test("fifty failures do not hide the fifty-first", async () => {
  const world = aNotifiedWorld();
  const noise = Array.from({ length: 60 }, (_, index) => `a${String(index).padStart(3, "0")}`);
  world.have(...[...noise, "prod"].map((name) => deployed(name, commitA)));
  await world.hears();
  const failing = noise.map((name) => failed(name, commitB, { at: world.at() }));
  world.have(...failing, deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toHaveLength(1);
  world.have(...failing, failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop: 77aa0c1 failed in 61 of 61 deployments"]);
});

test("an annotation does not subscribe a deployment that the target's routes leave out", async () => {
  const world = aNotifiedWorld({ routes: [{ namespaces: ["prod-*"] }] });
  const own = { annotations: { [annotation.notify]: "team" } };
  world.have(deployed("dev", commitA, own));
  await world.hears();
  world.have(failed("dev", commitB, { ...own, at: world.at() }));
  expect(await world.hears()).toEqual([]);
});

test("the fix of a failure is a recovery, whether the server looks in between or not, and whatever a route selects", async () => {
  for (const events of [undefined, ["failed", "recovered"] as const]) {
    const world = aNotifiedWorld({ routes: [{ ...(events && { events }) }] });
    world.have(deployed("prod", commitA));
    await world.hears();
    world.have(failed("prod", commitB, { at: world.at() }));
    expect(await world.hears()).toEqual(["sent: shop/prod: 77aa0c1 failed"]);
    const fix = "c0ffee1".padEnd(40, "0");
    world.have(working("prod", fix, { at: world.at() }));
    expect(await world.hears()).toEqual([]);
    world.have(deployed("prod", fix, { at: world.at() }));
    expect(await world.hears(2_000)).toEqual([]);
    expect(await world.hears(5_000)).toEqual(["sent: shop/prod: recovered, c0ffee1 is deployed"]);
  }
});

test("a failure that is mended without changing anything recovers too", async () => {
  const world = aNotifiedWorld();
  const first = deployed("prod", commitA, { at: world.at() });
  world.have(first);
  await world.hears();
  world.have(failed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toHaveLength(1);
  // The revert renders what is deployed already.
  world.have({ ...first, status: { ...first.status, observedCommit: "c0ffee1".padEnd(40, "0") } });
  expect(await world.hears()).toEqual(["sent: shop/prod: recovered, c0ffee1 is deployed"]);
});

test("a failure that later pushes carry along is no news, and is not said to have recovered with its neighbours", async () => {
  const world = aNotifiedWorld({ edits: true });
  const dev = deployed("dev", commitA, { at: world.at() });
  world.have(deployed("prod", commitA), dev);
  await world.hears();
  const broken = failed("prod", commitB, { at: world.at() });
  world.have(broken, { ...dev, status: { ...dev.status, observedCommit: commitB } });
  expect(await world.hears()).toEqual(["sent: shop/prod: 77aa0c1 failed"]);
  for (const digit of ["0", "1"]) {
    const commit = digit.repeat(40);
    world.have(
      { ...broken, status: { ...broken.status, observedCommit: commit } },
      deployed("dev", commit, { at: world.at() }),
    );
    const heard = await world.hears();
    expect(heard.filter((one) => /failed|recovered/.test(one))).toEqual([]);
  }
});

test("a rollout that is not ready for some minutes has not failed", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("prod", commitA));
  await world.hears();
  const unready = (commit: string) => {
    const one = deployed("prod", commit, { at: world.at() });
    const [ready] = one.status.conditions;
    const conditions = [
      { ...ready!, status: "False", reason: "ValidateFailed", message: "validate failed with 1 errors." } as const,
    ];
    return { ...one, status: { ...one.status, conditions } };
  };
  world.have(unready(commitB));
  expect(await world.hears()).toEqual([]);
  world.have(deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual(["sent: shop/prod: deployed 77aa0c1 (2 changed)"]);
  world.have(unready(commitA));
  expect(await world.hears()).toEqual([]);
  expect(await world.hears(200_000)).toEqual(["sent: shop/prod: 3f2c1ab failed"]);
});

test("a deployment that gets the commit later is reported later, and one that waits is not counted", async () => {
  const world = aNotifiedWorld();
  world.have(deployed("staging", commitA), deployed("prod", commitA));
  await world.hears();
  const staging = deployed("staging", commitB, { at: world.at() });
  const waits = deployed("prod", commitB, {
    at: world.at(),
    spec: { manual: true },
    status: { lastObjectsHash: "new" },
  });
  world.have(staging, waits);
  expect(await world.hears()).toEqual([
    "sent: shop/staging: deployed 77aa0c1 (2 changed)",
    "sent: shop: 1 deployment waits for approval",
  ]);
  world.pass(7_200_000);
  world.have(staging, deployed("prod", commitB, { at: world.at() }));
  expect(await world.hears()).toEqual([
    "sent: shop: deployed 77aa0c1 to 2 deployments",
    "sent: shop: nothing waits for approval any more",
  ]);
});
