import { createServer } from "node:http";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import { towline } from "../../support/command-line.ts";
import {
  type Delivery,
  giteaDelivery,
  giteaSecret,
  githubPullRequest,
  githubSecret,
  gitlabPush,
  gitlabSigningKey,
} from "../../support/deliveries.ts";

const push = giteaDelivery("push-update");
const { repository, ref } = JSON.parse(push.body) as { repository: { clone_url: string }; ref: string };
const env = { TOWLINE_GITEA_WEBHOOK_SECRET: giteaSecret };

test("webhook explain shows for each deployment how the server would match a recorded push", async () => {
  const manifests = useManifests(
    deployment("staging", repository.clone_url),
    deployment("legacy", repository.clone_url, "suspend: true"),
    deployment("prod", repository.clone_url, "", "{ branch: release }"),
    deployment("blog", "https://git.example.com/blog"),
  );
  const { code, out } = await towline(["webhook", "explain", "--manifests", manifests], { env, input: recorded(push) });
  expect(out).toMatch(/genuine +yes/);
  expect(out).toMatch(new RegExp(`event +push of ${ref}`));
  expect(out).toContain("would be reconciled (1)\n  shop/staging\n");
  expect(out).toContain("not affected (2)\n");
  expect(out).toMatch(/shop\/legacy +suspended/);
  expect(out).toMatch(/shop\/prod +follows branch release, the push is to branch main/);
  expect(out).not.toContain("shop/blog");
  expect(code).toBe(0);
});

test("with flux.trigger, webhook explain shows what Flux would fetch, even if no deployment follows the repository", async () => {
  const aSource = (name: string, ref: string) => `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: { name: ${name}, namespace: flux-system }
spec: { url: "${repository.clone_url}", interval: 1h, ref: ${ref} }
`;
  const manifests = useManifests(aSource("shop", "{ branch: main }"), aSource("release", "{ semver: 1.x }"));
  const call = ["webhook", "explain", "--manifests", manifests];
  const on = await towline(call, { env: { ...env, TOWLINE_FLUX_TRIGGER: "true" }, input: recorded(push) });
  expect(on.out).toContain("would be fetched by Flux (1)\n  GitRepository  flux-system/shop\n");
  expect(on.out).toMatch(/GitRepository +flux-system\/release +follows versions 1\.x, the push is to branch main/);
  expect(on.code).toBe(0);
  const off = await towline(call, { env, input: recorded(push) });
  expect(off.out).not.toContain("Flux");
  expect(off.code).toBe(1);
});

test("if no deployment follows the repository, the URLs of both sides are shown", async () => {
  const manifests = useManifests(deployment("blog", "https://git.example.com/blog"));
  const { code, out } = await towline(["webhook", "explain", "--manifests", manifests], { env, input: push.body });
  expect(out).toContain("ignored: no deployment follows this repository");
  expect(out).toMatch(/git\.example\.com\/blog +1 deployment/);
  expect(code).toBe(1);
});

test("a payload without headers cannot be verified, and is explained nevertheless", async () => {
  const manifests = useManifests(deployment("staging", repository.clone_url));
  const call = ["webhook", "explain", "--manifests", manifests, "-o", "json"];
  const { code, out } = await towline(call, { env, input: push.body });
  expect(JSON.parse(out)).toMatchObject({ genuine: "unknown", matched: ["shop/staging"] });
  expect(code).toBe(0);

  const [event, other] = ["X-Gitea-Event: push", "X-Gitea-Signature: 00"] as const;
  const unsigned = await towline([...call, "-H", event], { env, input: push.body });
  expect(JSON.parse(unsigned.out)).toMatchObject({
    genuine: false,
    refused: expect.stringContaining("X-Gitea-Signature is missing") as string,
    matched: ["shop/staging"],
  });
  expect(unsigned.code).toBe(1);
  const wrong = await towline([...call, "-H", event, "-H", other], { env, input: push.body });
  expect(wrong.out).toContain("The signature does not match");
});

test("a pull request is explained by the deployments that its preview would compare", async () => {
  const url = "https://github.com/example/shop.git";
  const manifests = useManifests(deployment("staging", url), deployment("prod", url, "", "{ branch: release }"));
  const about = { number: 7, head: "3".repeat(40) };
  const given = githubPullRequest("opened", { name: "example/shop", url }, about);
  const login = {
    TOWLINE_GITHUB_WEBHOOK_SECRET: githubSecret,
    TOWLINE_GITHUB_TOKEN: "a-token-of-github",
    TOWLINE_PREVIEW_ENABLED: "true",
  };
  const call = ["webhook", "explain", "--manifests", manifests];
  const { code, out } = await towline(call, { env: login, input: recorded(given) });
  expect(out).toContain("would be previewed (1)\n  shop/staging\n");
  expect(out).toMatch(/shop\/prod +follows branch release, the pull request is into branch main/);
  expect(code).toBe(0);

  const fork = githubPullRequest("opened", { name: "example/shop", url }, { ...about, fork: true });
  const forked = await towline(call, { env: login, input: recorded(fork) });
  expect(forked.out).toContain("ignored: the pull request comes from a fork, whose code is not run");
  expect(forked.code).toBe(1);

  const until = new Date(Date.now() + 3_600_000).toISOString();
  const allowance = { pullRequest: "github:example/shop#7", repo: "github.com/example/shop", head: about.head, until };
  const annotations = JSON.stringify({ "towline.dev/allow-preview": JSON.stringify([allowance]) });
  const named = "{ name: staging, namespace: shop }";
  const allowing = deployment("staging", url).replace(named, named.replace(" }", `, annotations: ${annotations} }`));
  const allowed = await towline(["webhook", "explain", "--manifests", useManifests(allowing)], {
    env: login,
    input: recorded(fork),
  });
  expect(allowed.out).toContain("would be previewed (1)\n  shop/staging\n");

  const without = await towline(call, {
    env: { TOWLINE_GITHUB_WEBHOOK_SECRET: githubSecret, TOWLINE_PREVIEW_ENABLED: "true" },
    input: recorded(given),
  });
  expect(without.out).toContain("no preview: forge github has no login for its API");
});

test("of a push to a library, webhook explain says why each deployment would be reconciled", async () => {
  const library = repository.clone_url;
  const consumer = deployment("prod", "https://git.example.com/shop").replace(
    "namespace: shop }",
    `namespace: shop, annotations: { towline.dev/includes: "${library} refs/heads/main" } }`,
  );
  const manifests = useManifests(deployment("library", library), consumer);
  const call = ["webhook", "explain", "--manifests", manifests];
  const { code, out } = await towline(call, { env, input: recorded(push) });
  expect(out).toContain(
    "would be reconciled (2)\n  shop/library\n  shop/prod     includes this repository at branch main\n",
  );
  expect(code).toBe(0);
  const data = await towline([...call, "-o", "json"], { env, input: recorded(push) });
  expect(JSON.parse(data.out)).toMatchObject({
    matched: ["shop/library", "shop/prod"],
    including: [{ deployment: "shop/prod", reason: "includes this repository at branch main" }],
  });
});

test("a pull request in a library is explained by the deployments that include it", async () => {
  const url = "https://github.com/example/library.git";
  const including = (name: string, more = "") =>
    deployment(name, "https://github.com/example/shop").replace(
      "namespace: shop }",
      `namespace: shop, annotations: { towline.dev/includes: "${url} refs/heads/main"${more} } }`,
    );
  const shown = including("staging", `, towline.dev/preview-in: ${url}`);
  const call = ["webhook", "explain", "--manifests", useManifests(shown, including("prod"))];
  const given = githubPullRequest("opened", { name: "example/library", url }, { number: 7, head: "3".repeat(40) });
  const login = {
    TOWLINE_GITHUB_WEBHOOK_SECRET: githubSecret,
    TOWLINE_GITHUB_TOKEN: "a-token-of-github",
    TOWLINE_PREVIEW_ENABLED: "true",
  };
  const { code, out } = await towline(call, { env: login, input: recorded(given) });
  expect(out).toContain("would be previewed (1)\n  shop/staging  includes this repository at branch main\n");
  expect(out).toMatch(/shop\/prod +includes the branch, but its annotation towline.dev\/preview-in does not name/);
  expect(code).toBe(0);
});

test("a delivery that cannot be read or belongs to no forge is reported with what to do", async () => {
  const manifests = useManifests(deployment("staging", repository.clone_url));
  const explain = (input: string, variables: Record<string, string> = env) =>
    towline(["webhook", "explain", "--manifests", manifests], { env: variables, input });
  expect((await explain("")).err).toBe("towline: stdin is empty; see --help for the formats of a delivery\n");
  expect((await explain("hello")).err).toContain("neither JSON nor an HTTP request");
  expect((await explain(recorded(push), {})).err).toContain("no forge of kind gitea is configured");
  const two = { ...env, TOWLINE_GITHUB_WEBHOOK_SECRET: githubSecret };
  expect((await explain(push.body, two)).err).toContain("choose one with --forge: github, gitea");
  const lines = push.rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${push.rawHeaders[at + 1]}`] : []));
  expect((await explain(`${lines.join("\r\n")}\r\n\r\n${push.body}`, two)).out).toMatch(/genuine +yes/);
});

test("a replayed delivery is signed again, and the server's answer is printed", async () => {
  const received: { url: string | undefined; rawHeaders: string[]; body: Buffer }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      received.push({ url: request.url, rawHeaders: request.rawHeaders, body: Buffer.concat(chunks) });
      response.writeHead(received.length > 2 ? 503 : 202).end('{"matched":1}');
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const address = { TOWLINE_WEBHOOKS_HOST: "127.0.0.1", TOWLINE_WEBHOOKS_PORT: String(port) };

  const changed = push.body.replace(ref, "refs/heads/other");
  const replay = (input: string, variables: Record<string, string>) =>
    towline(["webhook", "replay"], { env: { ...address, ...variables }, input });
  const first = await replay(recorded({ ...push, body: changed }), env);
  expect(first.out).toBe(`202 from http://127.0.0.1:${port}/webhooks/gitea\n{"matched":1}\n`);
  expect(first.code).toBe(0);
  await replay(JSON.stringify(gitlabPush()), { TOWLINE_GITLAB_WEBHOOK_SECRET: gitlabSigningKey });
  expect((await replay(recorded(push), env)).code).toBe(1);

  const kinds = ["gitea", "gitlab", "gitea"] as const;
  for (const [at, { rawHeaders, body }] of received.entries()) {
    const kind = kinds[at] ?? "gitea";
    const secrets = [kind === "gitea" ? giteaSecret : gitlabSigningKey];
    const source = createWebhookSource({ id: kind, kind, secrets, allowUnsigned: false });
    expect(await source.verify(readHeaders(rawHeaders), body)).toEqual({ genuine: true });
    expect(source.parse(readHeaders(rawHeaders), body).kind).toBe("push");
  }
  expect(received[0]?.body.toString()).toBe(changed);

  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const url = `http://127.0.0.1:${(gone.address() as { port: number }).port}/webhooks/gitea`;
  gone.close();
  await once(gone, "close");
  const { err, code } = await towline(["webhook", "replay", "--url", url], { env, input: recorded(push) });
  expect(err).toContain(`cannot reach ${url}: connect ECONNREFUSED`);
  expect(code).toBe(1);
});

test("a remembered delivery is replayed through the page, with the page's token", async () => {
  const asked: string[] = [];
  const lists = [
    { id: "github", deliveries: [{ delivery: "other" }] },
    { id: "gitea", deliveries: [{}, { delivery: "a/b" }] },
  ];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    if (request.method === "GET") return void response.end(JSON.stringify(lists));
    const known = request.url === "/api/deliveries/gitea/a%2Fb/replay";
    response.writeHead(known ? 200 : 404).end(known ? '{"matched":1}' : '{"error":"forgotten"}');
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  const token = "the-token-of-this-page-123";
  const replay = (...argv: string[]) =>
    towline(["webhook", "replay", "--url", url, ...argv], { env: { ...env, TOWLINE_PAGE_TOKEN: token } });

  expect(await replay("--delivery", "a/b")).toEqual({
    code: 0,
    out: `200 from ${url}/api/deliveries/gitea/a%2Fb/replay\n{"matched":1}\n`,
    err: "",
  });
  expect(asked).toEqual([
    `GET /api/deliveries Bearer ${token}`,
    `POST /api/deliveries/gitea/a%2Fb/replay Bearer ${token}`,
  ]);
  // A delivery that is not listed may still be remembered: with --forge it is replayed anyway.
  expect(await replay("--delivery", "old")).toMatchObject({
    code: 1,
    err: expect.stringContaining("--forge") as string,
  });
  expect(await replay("--delivery", "old", "--forge", "github")).toMatchObject({
    code: 1,
    out: `404 from ${url}/api/deliveries/github/old/replay\n{"error":"forgotten"}\n`,
  });

  const without = await towline(["webhook", "replay", "--delivery", "a/b"], { env });
  expect(without).toMatchObject({ code: 2, err: expect.stringContaining("TOWLINE_PAGE_TOKEN_FILE") as string });
  const both = await replay("push.json", "--delivery", "a/b");
  expect(both).toMatchObject({
    code: 2,
    err: expect.stringContaining("use either the file push.json or --delivery a/b, not both") as string,
  });
});

function recorded({ rawHeaders, body }: Delivery): string {
  return JSON.stringify({ rawHeaders, body });
}

function deployment(name: string, url: string, more = "", gitRef = "{ branch: main }"): string {
  return `
apiVersion: gitops.kluctl.io/v1beta1
kind: KluctlDeployment
metadata: { name: ${name}, namespace: shop }
spec:
  interval: 5m
  source: { git: { url: "${url}", ref: ${gitRef} } }
  ${more}
`;
}

function useManifests(...documents: string[]): string {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, "all.yaml"), documents.join("---"));
  return dir;
}
