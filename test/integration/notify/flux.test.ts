import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { Notification } from "../../../src/model.ts";
import { type FluxOptions, createFluxNotifier } from "../../../src/notify/flux/notifier.ts";
import type { SendOptions } from "../../../src/ports.ts";
import { failureOf, flood, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";
import { testWithoutAnswer } from "../../support/unanswered-targets.ts";

const token = "canary-token-0123456789";

/** What the controller has read of an event, with the metadata it keeps. */
interface Event {
  readonly involvedObject: Readonly<Record<"apiVersion" | "kind" | "namespace" | "name" | "uid", string | undefined>>;
  readonly severity: string;
  readonly timestamp: string;
  readonly message: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly reportingController: string;
  readonly reportingInstance: string;
}

type Respond = (req: IncomingMessage, res: ServerResponse) => void;

/** A notification-controller, behind a proxy that checks a token. It remembers all events, instead of five minutes. */
async function useController({ respond }: { respond?: Respond } = {}) {
  const events: Event[] = [];
  const keys = new Set<string>();
  let duplicates = 0;
  const origin = await useTarget((req, res) => {
    if (respond !== undefined) return respond(req, res);
    let body = "";
    req.setEncoding("utf8");
    req.on("data", (data: string) => (body += data));
    req.on("end", () => {
      if (req.headers.authorization !== `Bearer ${token}`) return res.writeHead(401).end();
      if (Buffer.byteLength(body) > 3 * 1024 * 1024) return res.writeHead(413).end();
      const event = readEvent(body);
      if (event === undefined) return res.writeHead(400).end();
      const { involvedObject, message, metadata } = event;
      const { kind, namespace, name } = involvedObject;
      const key = JSON.stringify([kind, namespace, name, message, metadata["revision"], metadata["token"]]);
      if (keys.has(key)) {
        duplicates++;
        return res.writeHead(429, { "retry-after": "299" }).end("Too Many Requests");
      }
      keys.add(key);
      events.push(event);
      return res.writeHead(202).end();
    });
  });
  const url = `${origin}/`;
  return { url, events, duplicates: () => duplicates };
}

/** `undefined` if Flux's definition of an event does not allow it. */
function readEvent(body: string): Event | undefined {
  const event = JSON.parse(body) as Event;
  const { involvedObject, severity, timestamp, message, reason, metadata, reportingController } = event;
  const { apiVersion, kind, namespace, name } = involvedObject;
  const texts = [apiVersion, kind, namespace, name, message, reason, reportingController, ...Object.values(metadata)];
  const valid =
    texts.every((text) => typeof text === "string" && text !== "") &&
    ["trace", "info", "error"].includes(severity) &&
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(timestamp) &&
    [...message].length <= 39_000;
  const group = `${apiVersion?.split("/")[0] ?? ""}/`;
  const kept = Object.entries(metadata).filter(([key]) => key.startsWith(group));
  const short = Object.fromEntries(kept.map(([key, value]) => [key.slice(group.length), value]));
  return valid ? { ...event, metadata: short } : undefined;
}

function connect(options: FluxOptions) {
  const notifier = createFluxNotifier({ token, ...options });
  return (message: Notification, more: Partial<SendOptions> = {}) =>
    notifier.send(message, { signal: AbortSignal.timeout(60_000), ...more });
}

const failure = (work: Promise<unknown>) => failureOf(work, /canary/);

test("a failed deployment is an error event about the deployment", async () => {
  const { url, events } = await useController();
  expect(await connect({ url })(sampleNotification())).toBeUndefined();
  expect(events).toEqual([
    {
      involvedObject: sampleNotification().object,
      severity: "error",
      timestamp: "2026-11-26T12:00:00.000Z",
      message: [
        "shop: 3f2c1ab failed in 1 of 3 deployments",
        "✗ shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid",
        "… shop/dev",
        "Commit: https://git.example.com/shop/commit/3f2c1ab",
      ].join("\n"),
      reason: "DeployFailed",
      metadata: {
        token: "m-1f0c",
        revision: "sha1:3f2c1ab",
        summary: "Commit: 3f2c1ab Raise the limit, Author: Ada, Succeeded: 1 deployment",
      },
      reportingController: "towline",
      reportingInstance: "test",
    },
  ]);
});

test("warnings are errors for Flux, and everything else is information", async () => {
  const { url, events } = await useController();
  const send = connect({ url });
  await send(sampleNotification({ id: "m-1", kind: "drift", state: "open", severity: "warning" }));
  await send(sampleNotification({ id: "m-2", kind: "drift", state: "closed", severity: "info" }));
  expect(events.map(({ severity, reason }) => [severity, reason])).toEqual([
    ["error", "DriftOpen"],
    ["info", "DriftClosed"],
  ]);
});

test("the revision is in the notation of Flux, and absent without a commit", async () => {
  const { url, events } = await useController();
  const send = connect({ url });
  const revisions: [facts: [label: string, value: string][], revision: string | undefined][] = [
    [[["Commit", "3f2c1ab"]], "sha1:3f2c1ab"],
    [
      [
        ["Commit", "3f2c1ab Raise the limit"],
        ["Branch", "main"],
      ],
      "main@sha1:3f2c1ab",
    ],
    [[["Commit", `${"ab".repeat(32)} A change`]], `sha256:${"ab".repeat(32)}`],
    [[["Commit", "Raise the limit"]], undefined],
    [[["Branch", "main"]], undefined],
    [[], undefined],
  ];
  for (const [index, [facts, revision]] of revisions.entries()) {
    await send(sampleNotification({ id: `m-${index}`, facts: facts.map(([label, value]) => ({ label, value })) }));
    expect(events.at(-1)?.metadata["revision"]).toBe(revision);
  }
  expect(events.at(-1)?.metadata).toEqual({ token: "m-5" });
});

test("metadata belongs to the API group of the object", async () => {
  const { url, events } = await useController();
  const { object } = sampleNotification();
  const older = object && { ...object, apiVersion: "flux.kluctl.io/v1alpha1" };
  await connect({ url })(sampleNotification({ object: older }));
  expect(events[0]?.metadata).toHaveProperty("revision");
});

test("without a deployment it is an event of Flux's namespace, whatever the lines are called", async () => {
  const { url, events } = await useController();
  const lines = [{ name: "kube-system/admin", state: "failed", text: "the title of a pull request" }] as const;
  await connect({ url })(sampleNotification({ kind: "preview", object: undefined, lines }));
  const { apiVersion, kind } = sampleNotification().object ?? {};
  expect(events[0]?.involvedObject).toEqual({ apiVersion, kind, namespace: "flux-system", name: "t-77ab" });
});

test("a line without a text is only its name", async () => {
  const { url, events } = await useController();
  const lines = [{ name: "shop: deployed 3f2c1ab", state: "succeeded", text: "" }] as const;
  await connect({ url })(sampleNotification({ lines, links: [], title: "2 notifications" }));
  expect(events[0]?.message).toBe("2 notifications\n✓ shop: deployed 3f2c1ab");
});

test("a repeated attempt is a duplicate, which is accepted, and a second failure is not one", async () => {
  const { url, events, duplicates } = await useController();
  const send = connect({ url });
  await send(sampleNotification());
  expect(await send(sampleNotification())).toBeUndefined();
  expect(duplicates()).toBe(1);
  await send(sampleNotification({ id: "m-2" }));
  expect(events).toHaveLength(2);
  expect(duplicates()).toBe(1);
});

test("hostile text mentions nobody, links to nothing, and leaves room for what failed", async () => {
  const { url, events } = await useController();
  const markup = "# <!channel>\r\n@everyone me@here @ada [click](https://evil.example) <b>\u202e\ud800";
  const hostile = `${markup} ${"x".repeat(100_000)}`;
  const lines = Array.from({ length: 200 }, (_, index) => ({
    name: index === 0 ? "shop/first" : `shop/${hostile}`,
    state: "failed" as const,
    text: index === 0 ? "is invalid" : hostile,
  }));
  const facts = ["Commit", "Branch", hostile].map((label) => ({ label, value: `3f2c1ab ${hostile}` }));
  const links = Array.from({ length: 200 }, (_, index) => ({
    label: hostile,
    url: `https://git.example/@everyone/[x](y)/${index}/${"z".repeat(1_900)}`,
  }));
  await connect({ url })(sampleNotification({ title: hostile, lines, facts, links, linesLeftOut: 7 }));
  const { message, metadata } = events[0] ?? { message: "", metadata: {} };
  for (const text of [message, ...Object.values(metadata)]) {
    expect(text).not.toMatch(/[<>]|@everyone|@here|@ada|\]\(|^#|[\r\u202e]/m);
    expect(text.isWellFormed()).toBe(true);
  }
  for (const text of Object.values(metadata)) expect([...text].length).toBeLessThanOrEqual(1_000);
  expect(message.split("\n")[1]).toBe("✗ shop/first: is invalid");
  const shown = message.split("\n").filter((line) => line.startsWith("✗")).length;
  expect(message).toContain(`\nand ${207 - shown} more`);
});

test("a rejected token is for a person", async () => {
  const { url } = await useController();
  const error = await failure(connect({ url, token: "canary-wrong" })(sampleNotification()));
  expect(error).toMatchObject({ problem: "refused" });
});

test("a controller that is busy, redirects or does not end its response is not waited for", async () => {
  const cases: [respond: Respond, problem: string, retryAfterMs?: number][] = [
    [(_req, res) => res.writeHead(503, { "retry-after": "7" }).end("canary"), "later", 7_000],
    [(_req, res) => res.writeHead(413).end("canary"), "refused"],
    [(_req, res) => res.writeHead(302, { location: "https://canary.example/" }).end(), "refused"],
    [(_req, res) => flood(res.writeHead(500)), "later"],
    [(req) => void req.socket.destroy(), "later"],
  ];
  for (const [respond, problem, retryAfterMs] of cases) {
    const { url } = await useController({ respond });
    expect(await failure(connect({ url })(sampleNotification()))).toMatchObject({ problem, retryAfterMs });
  }
});

testWithoutAnswer({ what: "a controller", connect, sample: sampleNotification });
