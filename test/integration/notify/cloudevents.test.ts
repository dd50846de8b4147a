import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { z } from "zod";
import { createCloudEventsNotifier } from "../../../src/notify/cloudevents/notifier.ts";
import { failureOf as failureWithout, flood, unreachableTarget, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const token = "canary-token-0123456789";
const source = "/clusters/test";
const never = new AbortController().signal;

/** The size up to which every intermediary has to forward an event. */
const mostBytes = 65_536;

/** CloudEvents 1.0: names of attributes consist of lower-case letters and digits; absent ones are not null. */
const CloudEvent = z
  .object({
    specversion: z.literal("1.0"),
    id: z.string().min(1),
    source: z.string().min(1),
    type: z.string().regex(/^dev\.towline\./),
    subject: z.string().min(1),
    time: z.iso.datetime({ offset: true }),
    datacontenttype: z.literal("application/json"),
    data: z.record(z.string(), z.unknown()),
  })
  .strict();

interface ReceiverOptions {
  readonly secret?: string;
  readonly answer?: (res: ServerResponse) => void;
}

/** A receiver that rejects what is not a CloudEvent in structured mode. */
async function useReceiver({ secret, answer }: ReceiverOptions = {}) {
  const received: z.infer<typeof CloudEvent>[] = [];
  const seen = new Set<string>();
  const problemOf = ({ headers }: IncomingMessage, text: string): number | undefined => {
    if (Buffer.byteLength(text) > mostBytes) return 413;
    if (headers["content-type"] !== "application/cloudevents+json") return 415;
    if (headers.authorization !== `Bearer ${token}`) return 401;
    if (secret !== undefined) new Webhook(secret).verify(text, headers as Record<string, string>);
    return CloudEvent.safeParse(JSON.parse(text)).success ? undefined : 400;
  };
  const origin = await useTarget((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const status = problemOf(req, text);
      if (status !== undefined) return void res.writeHead(status).end(`canary ${text}`);
      const event = CloudEvent.parse(JSON.parse(text));
      // Two events with the same source and id are the same.
      if (!seen.has(`${event.source} ${event.id}`)) received.push(event);
      seen.add(`${event.source} ${event.id}`);
      if (answer === undefined) res.writeHead(204).end();
      else answer(res);
    });
  });
  return { url: `${origin}/canary`, received };
}

const connect = (url: string, secrets: string[] = []) => createCloudEventsNotifier({ url, secrets, token, source });

async function failureOf(sending: Promise<unknown>) {
  const { problem, retryAfterMs } = await failureWithout(sending, /canary|whsec_/);
  return { problem, retryAfterMs };
}

test("a notification arrives as a signed CloudEvent whose data are its fields", async () => {
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  const { url, received } = await useReceiver({ secret });
  const notifier = connect(url, [secret]);
  expect(notifier.edits).toBe(false);
  const message = sampleNotification();
  expect(await notifier.send(message, { signal: never })).toBeUndefined();
  expect(received).toEqual([
    {
      specversion: "1.0",
      id: "m-1f0c",
      source,
      type: "dev.towline.deploy.failed",
      subject: "shop/prod",
      time: "2026-11-26T12:00:00.000Z",
      datacontenttype: "application/json",
      data: message,
    },
  ]);
});

test("an event about a pull request has its thread as the subject", async () => {
  const { url, received } = await useReceiver();
  const message = sampleNotification({ kind: "preview", state: "open", object: undefined });
  await connect(url).send(message, { signal: never });
  expect(received).toMatchObject([{ type: "dev.towline.preview.open", subject: "t-77ab" }]);
});

test("a receiver can recognize another attempt as the same event", async () => {
  const { url, received } = await useReceiver();
  await connect(url).send(sampleNotification(), { signal: never });
  await connect(url).send(sampleNotification(), { signal: never });
  expect(received).toHaveLength(1);
});

test("endless and hostile texts and 200 lines become a valid event of limited size", async () => {
  const { url, received } = await useReceiver();
  const long = '\r\n\u0000\u2028"}, "id": "forged" 🚀'.repeat(5_000);
  const message = sampleNotification({
    title: long,
    facts: Array.from({ length: 200 }, () => ({ label: long, value: long })),
    lines: Array.from({ length: 200 }, (_, i) => ({ name: `shop/d${i}`, state: "failed" as const, text: long })),
    links: Array.from({ length: 200 }, () => ({ label: long, url: `https://example.com/${"a".repeat(1_900)}` })),
  });
  await connect(url).send(message, { signal: never });
  const [event] = received;
  expect(event).toMatchObject({
    id: "m-1f0c",
    data: { title: expect.stringMatching(/^"}, "id": "forged" 🚀 "}/) as string },
  });
  const { lines, linesLeftOut } = z.object({ lines: z.array(z.unknown()), linesLeftOut: z.int() }).parse(event?.data);
  expect(lines[0]).toMatchObject({ name: "shop/d0" });
  expect(lines.length + linesLeftOut).toBe(200);
});

test("no event exceeds the limit by a few bytes", async () => {
  const { url, received } = await useReceiver();
  const long = "🚀".repeat(500);
  for (let step = 0; step < 63; step++) {
    const message = sampleNotification({
      id: `m-${step}`,
      facts: Array.from({ length: 20 }, (_, i) => ({ label: "Fact", value: i === 0 ? "🚀".repeat(step * 8) : long })),
      lines: Array.from({ length: 20 }, () => ({ name: "shop/prod", state: "failed" as const, text: long })),
    });
    await connect(url).send(message, { signal: never });
  }
  expect(received).toHaveLength(63);
  const largest = Math.max(...received.map((event) => Buffer.byteLength(JSON.stringify(event))));
  expect(largest).toBeGreaterThan(mostBytes - 100);
});

test.each<[string, (res: ServerResponse) => void, object]>([
  [
    "too many requests",
    (res) => res.writeHead(429, { "retry-after": "7" }).end(),
    { problem: "later", retryAfterMs: 7_000 },
  ],
  ["a receiver that is overloaded", (res) => res.writeHead(503).end(), { problem: "later" }],
  ["an endpoint that is gone", (res) => res.writeHead(410).end(), { problem: "refused" }],
  ["a redirect", (res) => res.writeHead(302, { location: "http://127.0.0.1:1/" }).end(), { problem: "refused" }],
])("%s: the answer decides whether another attempt may help", async (_, answer, expected) => {
  const { url } = await useReceiver({ answer });
  expect(await failureOf(connect(url).send(sampleNotification(), { signal: never }))).toMatchObject(expected);
});

test("an endless answer to an accepted event ends the request", async () => {
  const closed = Promise.withResolvers<void>();
  const { url, received } = await useReceiver({
    answer: (res) => {
      res.on("close", () => closed.resolve());
      flood(res);
    },
  });
  await connect(url).send(sampleNotification(), { signal: never });
  await closed.promise;
  expect(received).toHaveLength(1);
});

test("a refused connection is tried again later", async () => {
  const url = await unreachableTarget();
  expect(await failureOf(connect(url).send(sampleNotification(), { signal: never }))).toMatchObject({
    problem: "later",
  });
});

test("an aborted signal ends an attempt at once, with the signal's reason", async () => {
  const stop = new AbortController();
  const reason = new Error("stopped");
  const { url } = await useReceiver({ answer: () => stop.abort(reason) });
  await expect(connect(url).send(sampleNotification(), { signal: stop.signal })).rejects.toBe(reason);
});

test.each(["", "the cluster", "/clusters/ü", "/clusters/100%"])("%j is refused as a source", (wrong) => {
  expect(() => createCloudEventsNotifier({ url: "https://example.com", secrets: [], source: wrong })).toThrow(
    "source: must be a URI reference such as /clusters/prod",
  );
});

test.each([source, "urn:cluster:test", "https://example.com/clusters/t%C3%A4st"])(
  "%j is accepted as a source",
  (right) => {
    expect(createCloudEventsNotifier({ url: "https://example.com", secrets: [], source: right }).edits).toBe(false);
  },
);

test("an option that cannot be used is named, without its value", () => {
  const create = () => createCloudEventsNotifier({ url: "https://user:canary@example.com", secrets: [], source });
  expect(create).toThrow(/^url: must not contain a user name/);
  expect(create).not.toThrow(/canary/);
});
