import type { ForgeKind } from "../../../src/model.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import {
  type Delivery,
  giteaDelivery,
  giteaSecret,
  githubPush,
  githubSecret,
  gitlabDelivery,
  gitlabPush,
  gitlabSigningKey,
  gitlabToken,
  hmac,
  replaceHeader,
  signGitlab,
} from "../../support/deliveries.ts";

const now = Date.UTC(2026, 0, 2);
const clock = { now: () => now };

function verify(kind: ForgeKind, secrets: readonly string[], { rawHeaders, body }: Delivery, allowUnsigned = false) {
  const source = createWebhookSource({ id: "forge", kind, secrets, allowUnsigned, clock });
  return source.verify(readHeaders(rawHeaders), Buffer.from(body));
}

const hosts = [
  { kind: "github", secret: githubSecret, delivery: githubPush(), header: "X-Hub-Signature-256" },
  { kind: "gitea", secret: giteaSecret, delivery: giteaDelivery("push-update"), header: "X-Gitea-Signature" },
  { kind: "gitlab", secret: gitlabToken, delivery: gitlabDelivery(gitlabPush()), header: "X-Gitlab-Token" },
  {
    kind: "gitlab",
    secret: gitlabSigningKey,
    delivery: signGitlab(gitlabDelivery(gitlabPush()), { atMs: now }),
    header: "webhook-signature",
  },
] as const;

describe.each(hosts)("a delivery of $kind ($header)", ({ kind, secret, delivery, header }) => {
  test("is genuine under its secret, also while the secret is being replaced", async () => {
    expect(await verify(kind, [secret], delivery)).toEqual({ genuine: true });
    const other = header === "webhook-signature" ? `whsec_${"B".repeat(32)}` : "another-secret";
    expect(await verify(kind, [other, secret], delivery)).toEqual({ genuine: true });
    expect(await verify(kind, [secret, other], delivery)).toEqual({ genuine: true });
    expect(await verify(kind, [other], delivery)).toMatchObject({ genuine: false });
  });

  test("is refused without its signature, and with an empty, a wrong or a second one", async () => {
    const [good] = [delivery.rawHeaders[delivery.rawHeaders.indexOf(header) + 1] ?? ""];
    const without = replaceHeader(delivery.rawHeaders, header, undefined);
    const refusals = [
      without,
      [...without, header, ""],
      [...without, header, "x"],
      [...without, header, `${good}x`],
      [...without, header, good, header, good],
      [...without, header, good, header.toLowerCase(), "x"],
    ];
    for (const rawHeaders of refusals) {
      const verdict = await verify(kind, [secret], { ...delivery, rawHeaders });
      expect(verdict, rawHeaders.join(" ")).toMatchObject({ genuine: false, reason: expect.stringMatching(/\w/) });
      expect(JSON.stringify(verdict)).not.toContain(secret);
    }
  });

  test("is refused when it has no body, whatever its signature", async () => {
    const body = { ...delivery, body: "" };
    if (header === "X-Gitlab-Token") return; // a token does not cover the body
    expect(await verify(kind, [secret], body)).toMatchObject({ genuine: false });
  });
});

test("a delivery of GitHub to a forge of kind gitea is refused with the reason", async () => {
  expect(await verify("gitea", [giteaSecret], githubPush())).toMatchObject({
    genuine: false,
    reason: "This delivery comes from GitHub: configure the forge with `kind: github`.",
  });
});

test("a forge does not accept the headers of another kind", async () => {
  for (const [i, host] of hosts.entries()) {
    for (const [j, { delivery }] of hosts.entries()) {
      const expected = i === j;
      expect(await verify(host.kind, [host.secret], delivery), `${host.header} ${j}`).toMatchObject({
        genuine: expected,
      });
    }
  }
});

test("a delivery of Gitea at a forge of kind github is refused with a hint, though its signature is valid", async () => {
  const delivery = giteaDelivery("push-update");
  const signature = replaceHeader(delivery.rawHeaders, "x", undefined).indexOf("X-Hub-Signature-256");
  expect(signature).toBeGreaterThan(0); // Gitea really sends this header
  const refusal = { genuine: false, reason: expect.stringContaining("kind: gitea") };
  expect(await verify("github", [giteaSecret], delivery)).toEqual(refusal);
  expect(await verify("github", [], delivery, true)).toEqual(refusal);
});

test("a forge of kind gitea ignores GitHub's headers", async () => {
  const { rawHeaders, body, name } = giteaDelivery("push-update");
  const withoutOwn = replaceHeader(rawHeaders, "X-Gitea-Signature", undefined);
  expect(await verify("gitea", [giteaSecret], { name, rawHeaders: withoutOwn, body })).toMatchObject({
    genuine: false,
  });
});

test("Forgejo's signature counts like Gitea's, and if both are sent both must be valid", async () => {
  const { rawHeaders, body, name } = giteaDelivery("push-update");
  const plain = replaceHeader(rawHeaders, "X-Gitea-Signature", undefined);
  const forgejo = [...plain, "X-Forgejo-Signature", hmac(giteaSecret, body)];
  expect(await verify("gitea", [giteaSecret], { name, rawHeaders: forgejo, body })).toEqual({ genuine: true });
  const both = [...forgejo, "X-Gitea-Signature", hmac("wrong", body)];
  expect(await verify("gitea", [giteaSecret], { name, rawHeaders: both, body })).toMatchObject({ genuine: false });
});

test("a form-encoded delivery of Gitea is refused with what to change", async () => {
  expect(await verify("gitea", [giteaSecret], giteaDelivery("push-form-encoded"))).toEqual({
    genuine: false,
    reason: expect.stringContaining("application/json"),
  });
});

test("a signed delivery of GitLab is valid for five minutes, and only with the id and time it was signed with", async () => {
  const delivery = gitlabDelivery(gitlabPush());
  const at = (offsetMs: number) => verify("gitlab", [gitlabSigningKey], signGitlab(delivery, { atMs: now + offsetMs }));
  expect(await at(-299_000)).toEqual({ genuine: true });
  expect(await at(299_000)).toEqual({ genuine: true });
  expect(await at(-301_000)).toMatchObject({ genuine: false, reason: expect.stringContaining("five minutes") });
  expect(await at(302_000)).toMatchObject({ genuine: false });

  const signed = signGitlab(delivery, { atMs: now });
  for (const [name, value] of [
    ["webhook-id", "msg-2"],
    ["webhook-timestamp", String(now / 1_000 + 1)],
    ["webhook-timestamp", "soon"],
    ["webhook-timestamp", undefined],
    ["webhook-id", undefined],
  ] as const) {
    const rawHeaders = replaceHeader(signed.rawHeaders, name, value);
    expect(await verify("gitlab", [gitlabSigningKey], { ...signed, rawHeaders })).toMatchObject({ genuine: false });
  }
});

test("one valid signature in GitLab's list is enough", async () => {
  const signed = signGitlab(gitlabDelivery(gitlabPush()), { atMs: now });
  const good = signed.rawHeaders.at(-1) ?? "";
  const list = (value: string) => ({
    ...signed,
    rawHeaders: replaceHeader(signed.rawHeaders, "webhook-signature", value),
  });
  expect(await verify("gitlab", [gitlabSigningKey], list(`v1a,abc v1,xyz ${good}`))).toEqual({ genuine: true });
  expect(await verify("gitlab", [gitlabSigningKey], list(`v1a,${good.slice(3)}`))).toMatchObject({ genuine: false });
});

test("while a signing key replaces a token at GitLab either is accepted, but not the key sent as a token", async () => {
  const delivery = gitlabDelivery(gitlabPush());
  const secrets = [gitlabToken, gitlabSigningKey];
  expect(await verify("gitlab", secrets, delivery)).toEqual({ genuine: true });
  expect(await verify("gitlab", secrets, signGitlab(delivery, { atMs: now }))).toEqual({ genuine: true });
  const keyAsToken = replaceHeader(delivery.rawHeaders, "X-Gitlab-Token", gitlabSigningKey);
  expect(await verify("gitlab", secrets, { ...delivery, rawHeaders: keyAsToken })).toMatchObject({ genuine: false });
});

test.each(hosts.filter(({ header }) => header !== "X-Gitlab-Token"))(
  "$kind ($header): the signature covers the exact bytes of the body",
  async ({ kind, secret, delivery }) => {
    const bytes = Buffer.from(delivery.body);
    const source = createWebhookSource({ id: "forge", kind, secrets: [secret], allowUnsigned: false, clock });
    const headers = readHeaders(delivery.rawHeaders);
    const reserialised = Buffer.from(JSON.stringify(JSON.parse(delivery.body), null, 1));
    expect(await source.verify(headers, reserialised)).toMatchObject({ genuine: false });
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ flip;
        expect((await source.verify(headers, changed)).genuine).toBe(false);
      }),
      { numRuns: 100 },
    );
  },
);

test("GitHub: bytes that are not UTF-8 are refused, even if they decode to the signed text", async () => {
  const body = JSON.stringify({ zen: "\ufffd" });
  const headers = readHeaders(["X-Hub-Signature-256", `sha256=${hmac(githubSecret, body)}`]);
  const source = createWebhookSource({ id: "forge", kind: "github", secrets: [githubSecret], allowUnsigned: false });
  const invalid = Buffer.from(body.replace("\ufffd", "\u00ff"), "latin1");
  expect(invalid.toString("utf8")).toBe(body);
  expect(await source.verify(headers, Buffer.from(body))).toEqual({ genuine: true });
  expect(await source.verify(headers, invalid)).toMatchObject({ genuine: false });
});

test("verification never throws, whatever the headers and bytes", async () => {
  const names = fc.constantFrom(
    ...["X-Hub-Signature-256", "X-Gitea-Signature", "X-Forgejo-Signature", "X-Gitlab-Token"],
    ...["webhook-id", "webhook-timestamp", "webhook-signature", "Content-Type"],
  );
  const headers = fc.array(fc.tuple(names, fc.oneof(fc.string(), fc.constant(`sha256=${"0".repeat(64)}`))));
  await fc.assert(
    fc.asyncProperty(headers, fc.uint8Array({ maxLength: 64 }), async (pairs, bytes) => {
      for (const { kind, secret } of hosts) {
        const source = createWebhookSource({ id: "forge", kind, secrets: [secret], allowUnsigned: false });
        expect((await source.verify(readHeaders(pairs.flat()), Buffer.from(bytes))).genuine).toBe(false);
      }
    }),
  );
});

describe("a forge", () => {
  test.each(["github", "gitlab", "gitea"] as const)(
    "of kind %s is not created without a secret unless unsigned deliveries are allowed",
    async (kind) => {
      const build = (secrets: string[], allowUnsigned: boolean) => () =>
        createWebhookSource({ id: "forge", kind, secrets, allowUnsigned });
      expect(build([], false)).toThrow("forge forge: no webhook secret is configured");
      expect(build([""], false)).toThrow("empty");
      expect(build(["good", " "], true)).toThrow("empty");
      const source = build([], true)();
      expect(await source.verify(new Map(), Buffer.from("{}"))).toEqual({ genuine: true });
    },
  );

  test("with a secret verifies signatures, even if unsigned deliveries are allowed", async () => {
    const unsigned = { ...githubPush(), rawHeaders: ["X-GitHub-Event", "push"] };
    expect(await verify("github", [githubSecret], unsigned, true)).toMatchObject({ genuine: false });
  });

  test("with a GitLab signing key that is not base64 is not created, and the key is not shown", () => {
    const build = () =>
      createWebhookSource({ id: "forge", kind: "gitlab", secrets: ["whsec_not base64!"], allowUnsigned: false });
    expect(build).toThrow(/^forge forge: a signing key is/);
    expect(build).not.toThrow("not base64!");
  });
});
