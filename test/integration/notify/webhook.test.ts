import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type WebhookOptions, createWebhookNotifier } from "../../../src/notify/webhook/notifier.ts";
import { failureOf as failureWithout, flood, unreachableTarget, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const token = "canary-token-0123456789";
const never = new AbortController().signal;
const newSecret = (bytes = 32) => `whsec_${randomBytes(bytes).toString("base64")}`;

/** What the Standard Webhooks specification advises as the largest payload. */
const mostBytes = 20 * 1_000;

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: unknown;
}

interface ReceiverOptions {
  /** Every request has to be signed with this key. */
  readonly secret?: string;
  /** Every request has to have this token. */
  readonly token?: string;
  /** Answers what was accepted instead of 204. */
  readonly answer?: (res: ServerResponse, req: IncomingMessage) => void;
}

/** A receiver that rejects what the specification does not allow, as the `standardwebhooks` package judges it. */
async function useReceiver({ secret, token: needed, answer }: ReceiverOptions = {}) {
  const received: Received[] = [];
  const problemOf = ({ headers }: IncomingMessage, text: string): [number, string] | undefined => {
    if (Buffer.byteLength(text) > mostBytes) return [413, "too large"];
    if (headers["content-type"] !== "application/json") return [415, "not JSON"];
    if (needed !== undefined && headers.authorization !== `Bearer ${needed}`) return [401, `not ${needed}`];
    if (!/^[\w-]+$/.test(String(headers["webhook-id"]))) return [400, "webhook-id is missing or has a dot"];
    if (secret === undefined) return undefined;
    try {
      new Webhook(secret).verify(text, headers as Record<string, string>);
      return undefined;
    } catch (error) {
      return [401, `${String(error)} ${secret}`];
    }
  };
  const origin = await useTarget((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const [status, words] = problemOf(req, text) ?? [];
      if (status !== undefined) return void res.writeHead(status).end(words);
      received.push({ headers: req.headers, text, body: JSON.parse(text) as unknown });
      if (answer === undefined) res.writeHead(204).end();
      else answer(res, req);
    });
  });
  return { url: `${origin}/hooks/canary-path?key=canary-key`, host: new URL(origin).host, received };
}

function connect(options: Partial<WebhookOptions> & Pick<WebhookOptions, "url">) {
  return createWebhookNotifier({ secrets: [], ...options });
}

async function failureOf(sending: Promise<unknown>) {
  const { problem, message, retryAfterMs } = await failureWithout(sending, /canary|whsec_/);
  return { problem, message, retryAfterMs };
}

test("a notification arrives as a signed event whose data are its fields", async () => {
  const secret = newSecret();
  const { url, received } = await useReceiver({ secret, token });
  const notifier = connect({ url, secrets: [secret], token });
  expect(notifier.edits).toBe(false);
  const message = sampleNotification();
  expect(await notifier.send(message, { signal: never })).toBeUndefined();
  expect(received[0]?.headers["webhook-id"]).toBe("m-1f0c");
  expect(received[0]?.body).toEqual({
    type: "towline.deploy.failed",
    timestamp: "2026-11-26T12:00:00.000Z",
    data: message,
  });
});

describe("signatures", () => {
  test.each([24, 64])("a key of %i bytes", async (bytes) => {
    const secret = newSecret(bytes);
    const { url, received } = await useReceiver({ secret });
    await connect({ url, secrets: [secret] }).send(sampleNotification({ title: "ünïcödé 🚀" }), { signal: never });
    expect(received).toHaveLength(1);
  });

  test("while a key is changed, receivers with the old and with the new key accept the same request", async () => {
    const [before, after] = [newSecret(), newSecret()];
    const { url, received } = await useReceiver();
    await connect({ url, secrets: [after, before] }).send(sampleNotification(), { signal: never });
    const { headers = {}, text = "" } = received[0] ?? {};
    for (const secret of [before, after]) new Webhook(secret).verify(text, headers as Record<string, string>);
    expect(() => new Webhook(newSecret()).verify(text, headers as Record<string, string>)).toThrow("No matching");
    expect(String(headers["webhook-signature"]).split(" ")).toHaveLength(2);
  });

  test("another attempt has the same id", async () => {
    const secret = newSecret();
    const { url, received } = await useReceiver({ secret });
    const notifier = connect({ url, secrets: [secret] });
    await notifier.send(sampleNotification(), { signal: never });
    await notifier.send(sampleNotification(), { signal: never });
    expect(received.map(({ headers }) => headers["webhook-id"])).toEqual(["m-1f0c", "m-1f0c"]);
  });

  test("without keys and token, a request has no signature and no login", async () => {
    const { url, received } = await useReceiver();
    await connect({ url }).send(sampleNotification(), { signal: never });
    expect(received[0]?.headers).not.toHaveProperty("webhook-signature");
    expect(received[0]?.headers).not.toHaveProperty("authorization");
    expect(received[0]?.headers).toHaveProperty("webhook-timestamp");
  });

  test("a request with another key is refused", async () => {
    const { url, host } = await useReceiver({ secret: newSecret() });
    const sending = connect({ url, secrets: [newSecret()] }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({
      problem: "refused",
      message: `${host}: the login or the address is rejected (401)`,
    });
  });
});

describe("a body of the user's own", () => {
  async function bodyOf(body: unknown, message = sampleNotification()) {
    const { url, received } = await useReceiver();
    await connect({ url, body }).send(message, { signal: never });
    return received[0]?.body;
  }

  test("every name stands for a text of the notification", async () => {
    const body = {
      flat: "{{title}} | {{state}} | {{severity}} | {{kind}} | {{cluster}} | {{at}} | {{thread}} | {{id}}",
      nested: [{ text: "{{ text }}" }, "{{facts.Commit}} {{links.Commit}}", "none: {{facts.None}}{{links.None}}."],
      constant: [1, true, null, "plain {text} {}", {}],
    };
    expect(await bodyOf(body)).toEqual({
      flat:
        "shop: 3f2c1ab failed in 1 of 3 deployments | failed | error | deploy | test | 2026-11-26T12:00:00.000Z | " +
        "t-77ab | m-1f0c",
      nested: [
        {
          text:
            "shop/prod failed: deploy failed with 1 errors: ConfigMap/settings: is invalid\n" + "shop/dev in progress",
        },
        "3f2c1ab Raise the limit https://git.example.com/shop/commit/3f2c1ab",
        "none: .",
      ],
      constant: [1, true, null, "plain {text} {}", {}],
    });
  });

  test("a text cannot change the structure, and names in it are not replaced", async () => {
    const title = '", "allowed_mentions": {"parse": ["everyone"]}, "x": "{{id}} \\" \u2028';
    const discord = { content: "{{title}}", allowed_mentions: { parse: [] } };
    expect(await bodyOf(discord, sampleNotification({ title }))).toEqual({
      content: '", "allowed_mentions": {"parse": ["everyone"]}, "x": "{{id}} \\"',
      allowed_mentions: { parse: [] },
    });
  });

  test.each([
    ["titel", { text: "{{titel}}" }],
    ["constructor", "{{constructor}}"],
    ["__proto__", ["{{__proto__}}"]],
    ["facts", { deep: [{ er: "{{facts}}" }] }],
    ["facts.", "{{facts.}}"],
    ["title.length", "{{title.length}}"],
    ["#each lines", "{{#each lines}}"],
    ["", "{{}}"],
  ])("the unknown name %j is named before anything is sent", (name, body) => {
    expect(() => connect({ url: "https://example.com", body })).toThrow(
      `body: "{{${name}}}" is unknown; use {{title}}, {{state}},`,
    );
  });

  test.each([
    ["a function", { x: () => 1 }],
    ["a number that JSON lacks", [Infinity]],
    ["a hole", { x: undefined }],
  ])("%s is not accepted in it", (_, body) => {
    expect(() => connect({ url: "https://example.com", body })).toThrow("body: contains a value that JSON does not");
  });

  test("a key that looks like a prototype is only a key", async () => {
    expect(JSON.stringify(await bodyOf(JSON.parse('{"__proto__": {"a": "{{id}}"}}')))).toBe(
      '{"__proto__":{"a":"m-1f0c"}}',
    );
  });

  test("if it is too large with all lines, it has fewer; if it is too large without any, it is refused", async () => {
    const lines = Array.from({ length: 20 }, (_, i) => ({
      name: `d${i}`,
      state: "failed" as const,
      text: "x".repeat(400),
    }));
    const body = { text: "{{text}}{{text}}{{text}}" };
    const { text } = (await bodyOf(body, sampleNotification({ lines }))) as { text: string };
    expect(text).toMatch(/^d0 failed: x+\nd1 failed: [^]*\nand \d more/);
    const { url, host } = await useReceiver();
    const sending = connect({ url, body: "x".repeat(30_000) }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({
      problem: "refused",
      message: `${host}: the body exceeds 20000 bytes even without lines: shorten it`,
    });
  });
});

test("endless texts and 200 lines become an event of limited size that keeps the title and the first line", async () => {
  const { url, received } = await useReceiver();
  const long = '🚀"'.repeat(50_000);
  const message = sampleNotification({
    title: long,
    facts: Array.from({ length: 200 }, () => ({ label: long, value: long })),
    lines: Array.from({ length: 200 }, (_, i) => ({ name: `shop/d${i}`, state: "failed" as const, text: long })),
    linesLeftOut: 3,
    links: Array.from({ length: 200 }, () => ({ label: long, url: `https://example.com/${"a".repeat(1_900)}` })),
    cluster: long,
  });
  await connect({ url }).send(message, { signal: never });
  const { data } = z.object({ data: z.custom<typeof message>() }).parse(received[0]?.body);
  expect([...data.title]).toHaveLength(200);
  expect(data.lines.map(({ name }) => name)).toEqual(["shop/d0"]);
  expect(data.linesLeftOut).toBe(202);
});

test("many short lines are all sent, and of long ones those that need somebody", async () => {
  const { url, received } = await useReceiver();
  const linesOf = (text: string) =>
    Array.from({ length: 20 }, (_, i) => ({ name: `shop/d${i}`, state: "failed" as const, text }));
  await connect({ url }).send(sampleNotification({ lines: linesOf("short") }), { signal: never });
  await connect({ url }).send(sampleNotification({ lines: linesOf('"'.repeat(500)) }), { signal: never });
  const [short, long] = received.map(({ body }) => (body as { data: { lines: unknown[]; linesLeftOut: number } }).data);
  expect(short).toMatchObject({ lines: { length: 20 }, linesLeftOut: 0 });
  expect(long?.lines.length).toBeGreaterThan(10);
  expect(long?.linesLeftOut).toBe(20 - (long?.lines.length ?? 0));
});

describe("a receiver's answer decides whether another attempt may help", () => {
  test.each<[string, (res: ServerResponse) => void, object]>([
    [
      "too many requests",
      (res) => res.writeHead(429, { "retry-after": "7" }).end("canary"),
      { problem: "later", message: "<host>: too many requests (429)", retryAfterMs: 7_000 },
    ],
    [
      "a receiver that is overloaded",
      (res) => res.writeHead(503, { "retry-after": "2" }).end("canary"),
      { problem: "later", message: "<host>: response status 503", retryAfterMs: 2_000 },
    ],
    [
      "an endpoint that was disabled",
      (res) => res.writeHead(410).end("canary"),
      { problem: "refused", message: "<host>: there is no such address (410): create a new one" },
    ],
    [
      "a body that is rejected",
      (res) => res.writeHead(400).end("canary"),
      { problem: "refused", message: "<host>: the message was rejected (400)" },
    ],
    ["a connection that is closed", (res) => res.destroy(), { problem: "later" }],
  ])("%s", async (_, answer, expected) => {
    const { url, host } = await useReceiver({ answer });
    const failure = await failureOf(connect({ url, token }).send(sampleNotification(), { signal: never }));
    expect({ ...failure, message: failure.message.replace(host, "<host>") }).toMatchObject(expected);
  });

  test("a redirect is not followed", async () => {
    const other = await useReceiver();
    const { url } = await useReceiver({ answer: (res) => res.writeHead(307, { location: other.url }).end() });
    const failure = await failureOf(connect({ url, token }).send(sampleNotification(), { signal: never }));
    expect(failure).toMatchObject({ problem: "refused" });
    expect(other.received).toEqual([]);
  });

  test("an endless answer ends the request, and its status counts", async () => {
    const closed = Promise.withResolvers<void>();
    const pourInto = (status: number) => (res: ServerResponse) => {
      res.on("close", () => closed.resolve());
      flood(res.writeHead(status));
    };
    const good = await useReceiver({ answer: pourInto(200) });
    await connect({ url: good.url }).send(sampleNotification(), { signal: never });
    await closed.promise;
    const bad = await useReceiver({ answer: pourInto(400) });
    const failure = await failureOf(connect({ url: bad.url }).send(sampleNotification(), { signal: never }));
    expect(failure).toMatchObject({ problem: "refused" });
  });

  test("a refused connection is tried again later", async () => {
    const origin = await unreachableTarget();
    const sending = connect({ url: `${origin}/canary`, token }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({
      problem: "later",
      message: `${new URL(origin).host}: no connection (ECONNREFUSED)`,
    });
  });

  test("an aborted signal ends an attempt at once, with the signal's reason", async () => {
    const stop = new AbortController();
    const reason = new Error("stopped");
    const { url } = await useReceiver({ answer: () => stop.abort(reason) });
    await expect(connect({ url }).send(sampleNotification(), { signal: stop.signal })).rejects.toBe(reason);
    await expect(connect({ url }).send(sampleNotification(), { signal: stop.signal })).rejects.toBe(reason);
  });
});

describe("an option that cannot be used is named, without its value", () => {
  test.each([
    ["another protocol", { url: "ftp://canary.example.com" }, /^url: must begin with https/],
    ["no address", { url: "canary" }, /^url: must begin with https/],
    ["credentials in the address", { url: "https://user:canary@example.com" }, /^url: must not contain a user name/],
    ["a token with a line break", { token: "canary\r\nx: y" }, /^token: /],
    ["an empty token", { token: "" }, /^token: /],
    ["a key without its prefix", { secrets: [newSecret(), "canary"] }, /^signing key 2: must be whsec_/],
    ["a key that is too short", { secrets: [newSecret(23)] }, /^signing key 1: /],
    ["a key that is too long", { secrets: [newSecret(65)] }, /^signing key 1: /],
  ])("%s", (_, options, expected) => {
    const create = () => connect({ url: "https://example.com", ...options });
    expect(create).toThrow(expected);
    expect(create).not.toThrow(/canary/);
  });
});
