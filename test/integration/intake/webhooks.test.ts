import { once } from "node:events";
import net from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import {
  type Delivery,
  giteaDeliveries,
  giteaDelivery,
  giteaSecret,
  githubDeliveries,
  githubDelivery,
  githubEvents,
  githubPush,
  githubSecret,
  gitlabDelivery,
  gitlabMergeRequest,
  gitlabPush,
  gitlabTagPush,
  hmac,
  replaceHeader,
  resignGitea,
  signGitlab,
} from "../../support/deliveries.ts";
import { useWebhooks } from "../../support/webhooks.ts";
import { patience } from "../../support/patience.ts";

const genuine: readonly (readonly [string, Delivery])[] = [
  ...githubEvents.flatMap((event) => githubDeliveries(event)).map((delivery) => ["github", delivery] as const),
  ...giteaDeliveries()
    .filter(({ name }) => name !== "push-form-encoded")
    .map((delivery) => ["gitea", delivery] as const),
  ...[gitlabPush(), gitlabTagPush(), gitlabMergeRequest(), { object_kind: "pipeline" }].flatMap((payload) => [
    ["gitlab", gitlabDelivery(payload)] as const,
    ["gitlab", signGitlab(gitlabDelivery(payload))] as const,
  ]),
];

test("every recorded delivery is accepted, and the answer says what came of it", async () => {
  const { deliver, events } = await useWebhooks();
  for (const [forge, delivery] of genuine) {
    const answer = await deliver(forge, delivery);
    expect(answer, delivery.name).toMatchObject({ status: 202, body: { matched: 0, queued: 0, ignored: [] } });
  }
  expect(events).toHaveLength(genuine.length);
});

test("the receipt is the body of the answer", async () => {
  const receipt = { delivery: "d", matched: 2, queued: 1, ignored: [{ deployment: "a/b", reason: "suspended" }] };
  const { deliver } = await useWebhooks({ accept: () => Promise.resolve(receipt) });
  expect(await deliver("gitea", giteaDelivery("push-update"))).toMatchObject({ status: 202, body: receipt });
});

test("a forge's deliveries are rejected at every other forge's URL", async () => {
  const { deliver, events } = await useWebhooks();
  const deliveries = {
    github: githubPush(),
    gitlab: gitlabDelivery(gitlabPush()),
    gitea: giteaDelivery("push-update"),
  };
  for (const [kind, delivery] of Object.entries(deliveries)) {
    for (const forge of Object.keys(deliveries)) {
      expect((await deliver(forge, delivery)).status, `${kind} at ${forge}`).toBe(kind === forge ? 202 : 401);
    }
  }
  expect(events).toHaveLength(3);
  expect((await deliver("github", deliveries.gitea)).body.hint).toContain("kind: gitea");
});

test("a delivery that is not genuine is rejected before it is parsed", async () => {
  const { deliver, post, events, observed } = await useWebhooks();
  const push = githubPush();
  expect(await deliver("github", { ...push, body: `${push.body} ` })).toMatchObject({
    status: 401,
    body: { error: "The delivery could not be verified.", hint: expect.stringContaining("does not match") },
  });
  expect((await post("/webhooks/github", ["X-GitHub-Event", "push"], "{not json")).status).toBe(401);
  expect((await post("/webhooks/github", push.rawHeaders, "")).status).toBe(401);
  expect((await post("/webhooks/gitlab", [], "")).status).toBe(401);
  expect(events).toEqual([]);
  await vi.waitFor(() => expect(observed).toHaveLength(4), patience);
  expect(observed[0]).toEqual({ forge: "github", event: "none", status: 401 });
});

describe("a duplicated signature header", () => {
  const push = githubPush();
  const good = `sha256=${hmac(githubSecret, push.body)}`;

  function send(port: number, lines: readonly string[], body: string): Promise<string> {
    const head = [
      "POST /webhooks/github HTTP/1.1",
      "Host: x",
      "Connection: close",
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    return new Promise((resolve, reject) => {
      let answer = "";
      const socket = net.connect(port, "127.0.0.1", () => {
        socket.write([...head, "X-GitHub-Event: push", ...lines, "", ""].join("\r\n"));
        socket.write(body);
      });
      socket.on("data", (chunk) => (answer += chunk.toString()));
      socket.on("error", reject);
      socket.on("close", () => resolve(answer));
    });
  }

  test.each([
    [[good], "202"],
    [[good, good], "401"],
    [[good, `sha256=${"0".repeat(64)}`], "401"],
    [["", good], "401"],
  ])("with the values %j is answered with %s", async (values, status) => {
    const { port } = await useWebhooks();
    const lines = values.map((value, i) => `${i === 0 ? "X-Hub-Signature-256" : "x-hub-signature-256"}: ${value}`);
    expect(await send(port, lines, push.body)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  test("is rejected as well if both values are on one line", async () => {
    const { port } = await useWebhooks();
    expect(await send(port, [`X-Hub-Signature-256: ${good}, ${good}`], push.body)).toMatch(/^HTTP\/1.1 401 /);
  });
});

describe("the URL", () => {
  test.each([
    "/webhooks/unknown",
    "/webhooks/__proto__",
    "/webhooks/constructor",
    "/webhooks/%67ithu",
    "/webhooks/..%2fgithub",
  ])("%s names no forge", async (path) => {
    const { post, observed } = await useWebhooks();
    expect(await post(path, githubPush().rawHeaders, githubPush().body)).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining("Unknown forge") },
    });
    await vi.waitFor(() => expect(observed).toEqual([{ forge: "unknown", event: "none", status: 404 }]), patience);
  });

  test("that cannot be decoded is the sender's error", async () => {
    const { post } = await useWebhooks();
    expect(await post("/webhooks/%zz", [], "{}")).toMatchObject({ status: 400, body: { error: expect.any(String) } });
  });

  test.each(["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])("does not accept %s", async (method) => {
    const { request } = await useWebhooks();
    expect(await request({ path: "/webhooks/github", method })).toMatchObject({
      status: 405,
      headers: { allow: "POST" },
    });
    expect((await request({ path: "/webhooks/unknown", method })).status).toBe(404);
  });
});

describe("a body", () => {
  const large = githubDelivery("push", { ...JSON.parse(githubPush().body), padding: "x".repeat(1_000_000) });

  test("that is too large is rejected, with Content-Length or chunked, and the next delivery is accepted", async () => {
    const { deliver, request, events } = await useWebhooks();
    expect(await deliver("github", large)).toMatchObject({
      status: 413,
      body: { error: expect.stringContaining("1000000") },
    });
    const headers = { ...Object.fromEntries(pairs(large.rawHeaders)), "Transfer-Encoding": "chunked" };
    expect((await request({ path: "/webhooks/github", headers }, large.body)).status).toBe(413);
    expect(events).toEqual([]);
    expect((await deliver("github", githubPush())).status).toBe(202);
  });

  test("is limited by its decompressed size", async () => {
    const { post, events } = await useWebhooks();
    const bomb = gzipSync(Buffer.alloc(100_000_000));
    expect(bomb.length).toBeLessThan(100_000);
    const before = process.memoryUsage().rss;
    expect((await post("/webhooks/github", [...large.rawHeaders, "Content-Encoding", "gzip"], bomb)).status).toBe(413);
    expect(process.memoryUsage().rss - before).toBeLessThan(50_000_000);
    expect(events).toEqual([]);
  });

  test("may be compressed, and its signature covers the decompressed bytes", async () => {
    const { post } = await useWebhooks();
    const { rawHeaders, body } = githubPush();
    expect((await post("/webhooks/github", [...rawHeaders, "Content-Encoding", "gzip"], gzipSync(body))).status).toBe(
      202,
    );
    expect(
      (await post("/webhooks/github", [...rawHeaders, "Content-Encoding", "br"], brotliCompressSync(body))).status,
    ).toBe(202);
    expect((await post("/webhooks/github", [...rawHeaders, "Content-Encoding", "gzip"], body)).status).toBe(400);
    expect((await post("/webhooks/github", [...rawHeaders, "Content-Encoding", "rot13"], body)).status).toBe(415);
  });

  const open = (port: number, headers: string, body: string): net.Socket => {
    const socket = net.connect(port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    socket.write(`POST /webhooks/github HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n${body}`);
    return socket;
  };

  test("that is announced but never sent does not block other deliveries", async () => {
    const { port, deliver } = await useWebhooks({ maxBytesInFlight: 1_000_000 });
    for (let i = 0; i < 20; i++) {
      open(port, "Content-Length: 900000", "{");
      open(port, "Transfer-Encoding: chunked", "1\r\n{\r\n");
      open(port, "Content-Encoding: gzip\r\nContent-Length: 900000", "{");
    }
    for (let i = 0; i < 20; i++) expect((await deliver("github", githubPush())).status).toBe(202);
  });

  test("that stops halfway takes no room from the next one", async () => {
    const { port, request } = await useWebhooks({ maxBytesInFlight: 1_000_000 });
    const slow = open(port, "Content-Length: 500000", "x".repeat(499_999));
    const answer = once(slow, "data");
    await vi.waitFor(async () => {
      expect((await request({ path: "/webhooks/github" }, "x".repeat(400_000))).status).toBe(401);
      const refused = await Promise.race([answer, Promise.resolve(undefined)]);
      expect(String(refused?.[0])).toMatch(/^HTTP\/1.1 429 .*connection: close.*retry-after: 1/is);
    }, patience);
  });

  test("that continues after it was rejected takes no room from others", async () => {
    const { port, deliver } = await useWebhooks({ maxBytesInFlight: 1_000_000 });
    const chunk = "x".repeat(0x200000);
    const endless = open(port, "Transfer-Encoding: chunked", `200000\r\n${chunk}\r\n`);
    expect(String((await once(endless, "data"))[0])).toMatch(/^HTTP\/1.1 4(13|29) /);
    await new Promise((resolve) => endless.write(`200000\r\n${chunk}\r\n`, resolve));
    for (let i = 0; i < 20; i++) expect((await deliver("github", githubPush())).status).toBe(202);
  });

  test("that is compressed and never sent does not block other compressed ones", async () => {
    const { port, post } = await useWebhooks();
    for (let i = 0; i < 10; i++) open(port, "Content-Encoding: gzip\r\nContent-Length: 900", "{");
    const { rawHeaders, body } = githubPush();
    const deliver = () => post("/webhooks/github", [...rawHeaders, "Content-Encoding", "gzip"], gzipSync(body));
    for (let i = 0; i < 10; i++) expect((await deliver()).status).toBe(202);
  });

  test("that ends early does not affect other deliveries", async () => {
    const { port, deliver, observed } = await useWebhooks();
    const socket = net.connect(port, "127.0.0.1");
    socket.write("POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{", () => socket.destroy());
    await vi.waitFor(() => expect(observed).toEqual([{ forge: "github", event: "none", status: 499 }]), patience);
    expect((await deliver("github", githubPush())).status).toBe(202);
  });
});

describe("a genuine delivery that cannot be parsed", () => {
  const bodies = [
    "{",
    "null",
    "[]",
    "7",
    '"text"',
    "true",
    "{}",
    '{"ref":1}',
    "\u0000",
    " ",
    "[".repeat(200_000) + "]".repeat(200_000),
  ];
  test.each(bodies)("is accepted with a reason (%#)", async (body) => {
    const { deliver, events } = await useWebhooks();
    const gitlab = { ...gitlabDelivery(gitlabPush()), body };
    const deliveries = [
      ["github", githubDelivery("push", body)],
      ["github", githubDelivery("pull_request", body)],
      ["gitea", resignGitea(giteaDelivery("push-update"), body)],
      ["gitea", resignGitea(giteaDelivery("delete-branch"), body)],
      ["gitlab", gitlab],
      ["gitlab", signGitlab(gitlab)],
    ] as const;
    for (const [forge, delivery] of deliveries) expect((await deliver(forge, delivery)).status).toBe(202);
    expect(events.map(({ kind }) => kind)).toEqual(deliveries.map(() => "irrelevant"));
  });

  test("may be nested deeply around the fields that are needed", async () => {
    const { deliver, events } = await useWebhooks();
    const deep = `${'{"a":['.repeat(70_000)}0${"]}".repeat(70_000)}`;
    const push = githubPush().body.replace(/^\{/, `{"deep":${deep},`);
    expect((await deliver("github", githubDelivery("push", push))).status).toBe(202);
    expect(events).toMatchObject([{ kind: "push" }]);
    const commits = githubPush().body.replace(/"commits":\[.*?\],"head_commit"/, `"commits":${deep},"head_commit"`);
    expect((await deliver("github", githubDelivery("push", commits))).status).toBe(202);
    expect(events.at(-1)).toMatchObject({ kind: "push", changed: { complete: false } });
  });
});

describe("if a delivery cannot be queued", () => {
  test("the sender is asked to send it again", async () => {
    const { deliver, observed } = await useWebhooks({
      accept: () => Promise.reject(new QueueUnavailableError("no Redis")),
    });
    expect(await deliver("gitea", giteaDelivery("push-update"))).toMatchObject({
      status: 503,
      headers: { "retry-after": "5" },
      body: { hint: expect.stringContaining("Send the delivery again") },
    });
    await vi.waitFor(() => expect(observed).toEqual([{ forge: "gitea", event: "push", status: 503 }]), patience);
  });

  test("the sender gets that answer within two seconds, however long the queue takes to fail", async () => {
    let fail = (_: Error): void => undefined;
    const { deliver } = await useWebhooks({ accept: () => new Promise((_, reject) => (fail = reject)) });
    expect((await deliver("gitea", giteaDelivery("push-update"))).status).toBe(503);
    fail(new Error("much later")); // an unhandled rejection would end the test run
  });

  test("a delivery is accepted, and counted as unanswered, if its sender does not wait for the answer", async () => {
    let take = (): void => undefined;
    const taken = new Promise<void>((resolve) => (take = resolve));
    const accept = () => taken.then(() => ({ delivery: "d", matched: 0, queued: 0, ignored: [] }));
    const { port, observed } = await useWebhooks({ accept, sources: unsigned() });
    const socket = net.connect(port, "127.0.0.1");
    socket.write("POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", () => socket.end());
    socket.on("error", () => undefined);
    await once(socket, "finish");
    socket.resetAndDestroy();
    await vi.waitFor(() => expect(observed).toEqual([{ forge: "gitea", event: "irrelevant", status: 499 }]), patience);
    take();
  });

  test("an internal error is answered with 500, without its message", async () => {
    const { deliver } = await useWebhooks({ accept: () => Promise.reject(new Error("a bug with a secret")) });
    const answer = await deliver("gitea", giteaDelivery("push-update"));
    expect(answer.status).toBe(500);
    expect(JSON.stringify(answer.body)).not.toContain("secret");
  });
});

test("answers and headers contain no secret", async () => {
  const { deliver } = await useWebhooks();
  const push = giteaDelivery("push-update");
  const wrong = { ...push, rawHeaders: replaceHeader(push.rawHeaders, "X-Gitea-Signature", "0".repeat(64)) };
  const answer = JSON.stringify(await deliver("gitea", wrong));
  expect(answer).not.toContain(giteaSecret);
  expect(answer).not.toContain(hmac(giteaSecret, push.body));
});

function unsigned() {
  const options = { id: "gitea", kind: "gitea", secrets: [], allowUnsigned: true } as const;
  return new Map([["gitea", createWebhookSource(options)]]);
}

function pairs(rawHeaders: readonly string[]): [string, string][] {
  return rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1] ?? ""] as [string, string]] : []));
}
