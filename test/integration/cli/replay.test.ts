/** `towline replay`: recorded deliveries against another configuration, from a real Redis. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../../src/config.ts";
import type { GitEvent, PullRequestEvent, PushEvent } from "../../../src/model.ts";
import { createDeliveryRecorder } from "../../../src/redis/recorded-deliveries.ts";
import { towline } from "../../support/command-line.ts";
import { type FakeApiServer, useFakeApiServer } from "../../support/fake-api-server.ts";
import { silentLog } from "../../support/fakes.ts";
import { type RedisServer, uniquePrefix, useRedisServer } from "../../support/redis.ts";
import { useTempDir } from "../../support/world.ts";

const key = "a-key-of-thirty-two-characters-01";
const repo = { forge: "gitea", repoUrls: ["https://git.example.com/shop"], repoName: "org/shop" };
const push: PushEvent = {
  ...{ kind: "push", ...repo, delivery: "main", ref: "refs/heads/main", change: "updated", after: "3".repeat(40) },
  changed: { complete: true, paths: ["shop/app.yaml"] },
};
const release: PushEvent = { ...push, delivery: "release", ref: "refs/heads/release" };
const pull: PullRequestEvent = {
  ...{ kind: "pull-request", ...repo, delivery: "pull", number: 7, action: "opened" },
  ...{ baseBranch: "main", head: "4".repeat(40), fork: false },
};

let redis: RedisServer;
let api: FakeApiServer;
let env: Record<string, string>;
let dir: string;

beforeEach(async () => {
  [redis, api, dir] = [useRedisServer({ appendOnly: false }), await useFakeApiServer(), await useTempDir()];
  await redis.start();
  env = {
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
    TOWLINE_REDIS_PREFIX: uniquePrefix(),
    TOWLINE_KUBERNETES_KUBECONFIG: api.kubeconfig,
    TOWLINE_GITEA_WEBHOOK_SECRET: "a-secret-of-sixteen-or-more",
    TOWLINE_RECORDING_ENABLED: "true",
    TOWLINE_RECORDING_KEY: key,
  };
  api.add("prod");
  api.add("legacy", { spec: { suspend: true } });
});

async function record(...events: readonly GitEvent[]): Promise<void> {
  const config = loadConfig({ env, readFile: () => "" }).config;
  const recorder = createDeliveryRecorder({
    ...{ connection: redis.producer(), prefix: config.redis.prefix, log: silentLog },
    ...{ recording: () => config.recording, forges: () => config.forges },
  });
  for (const event of events) recorder.record({ forge: event.forge, at: Date.now(), ms: 1, status: 202, event });
  await recorder.flush();
}

function useFile(name: string, text: string): string {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
}

const replay = (...argv: string[]) => towline(["replay", ...argv], { env });

test("a configuration that matches the same is no difference, and the command writes nothing", async () => {
  await record(push, release, pull);
  const client = redis.client();
  const contents = async () => {
    const keys = (await client.keys("*")).toSorted();
    return Promise.all(keys.map(async (one) => [one, (await client.dumpBuffer(one))?.toString("hex")]));
  };
  const before = await contents();
  api.onPatched = () => expect.unreachable("the cluster is only read");
  const same = useFile("new.yaml", "log: { level: debug }\n");
  const { code, out, err } = await replay("--since", "7d", "--config", same);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(/^3 deliveries since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: no difference\n$/);
  expect(await contents()).toEqual(before);
});

test("a host that moves to another forge loses its deployments, with the reason, and the exit code is that of diff", async () => {
  await record(push, release);
  const other = "{ id: other, kind: gitlab, hosts: [git.example.com], webhookSecrets: [a-secret-of-another-forge] }";
  const { code, out } = await replay("--config", useFile("new.yaml", `forges: [${other}]\n`));
  expect(code).toBe(1);
  expect(out).toMatch(/gitea {2}push {2}org\/shop main {2}3333333\n/);
  expect(out).toMatch(/ {2}- {2}shop\/prod {2}would not be reconciled: the repository is on a host of another forge/);
  expect(out).toMatch(/DEPLOYMENT +GAINED +LOST\nshop\/prod +– +1\n/);
  expect(out).toMatch(/1 of 2 deliveries since .* would be handled differently\n$/);
  expect(out).not.toContain("shop/legacy");
});

test("changed KluctlDeployments gain and lose deliveries; those that are not in the files stay as in the cluster", async () => {
  await record(push, release);
  const manifest = `
apiVersion: gitops.kluctl.io/v1beta1
kind: KluctlDeployment
metadata: { name: NAME, namespace: shop }
spec: { interval: 5m, source: { git: { url: "https://git.example.com/shop", ref: { branch: BRANCH } } } }
`;
  const [prod, added] = [
    ["prod", "release"],
    ["new", "main"],
  ].map(([name = "", branch = ""]) => manifest.replace("NAME", name).replace("BRANCH", branch));
  const files = useFile("all.yaml", `${prod}---${added}`);
  const { code, out } = await replay("--deployments", files, "-o", "json");
  expect(code).toBe(1);
  const gone = "follows branch release, the push is to branch main";
  const now = "follows branch main, the push is to branch release";
  expect(JSON.parse(out)).toMatchObject({
    ...{ deliveries: 2, unreadable: 0, sinceAt: expect.stringMatching(/^\d{4}-.*Z$/) as string },
    differences: [
      {
        ...{ delivery: "release", at: expect.stringMatching(/^\d{4}-.*Z$/) as string },
        ...{ gained: [{ deployment: "shop/prod", as: "reconcile", why: now }], lost: [] },
      },
      {
        delivery: "main",
        gained: [{ deployment: "shop/new", as: "reconcile", why: "there is no such KluctlDeployment" }],
        lost: [{ deployment: "shop/prod", as: "reconcile", why: gone }],
      },
    ],
    deployments: [
      { deployment: "shop/prod", gained: 1, lost: 1 },
      { deployment: "shop/new", gained: 1, lost: 0 },
    ],
  });
});

test("namespaces, webhooks and previews of the changed configuration are compared, for one forge or repository", async () => {
  await record(push, pull);
  const elsewhere = await replay("--config", useFile("new.yaml", "kubernetes: { namespaces: [blog] }\n"));
  expect(elsewhere.out).toMatch(/- {2}shop\/prod .*: namespace shop is not watched \(kubernetes.namespaces\)/);

  const login = "apiUrl: https://git.example.com/api/v1, token: a-token-of-gitea";
  const previews = useFile(
    "previews.yaml",
    `forges: [{ id: gitea, kind: gitea, ${login} }]\npreview: { enabled: true }\n`,
  );
  const gained = await replay("--config", previews);
  expect(gained.out).toMatch(/\+ {2}shop\/legacy {2}would be previewed; now: previews of pull requests are disabled/);
  expect(gained.out).toMatch(/\+ {2}shop\/prod +would be previewed;/);
  expect(gained.out).toMatch(/1 of 2 deliveries/);

  const polled = "forges: [{ id: gitea, kind: gitea, webhooks: false }]\n";
  const { TOWLINE_GITEA_WEBHOOK_SECRET: secret = "", ...others } = env;
  const current = useFile("current.yaml", `forges: [{ id: gitea, kind: gitea, webhookSecrets: [${secret}] }]\n`);
  const argv = ["replay", "--current-config", current, "--config", useFile("polled.yaml", polled)];
  const deaf = await towline(argv, { env: others });
  expect(deaf.out).toContain("would not be reconciled: forge gitea has webhooks: false");

  const filtered = (...more: string[]) => replay("--config", join(dir, "new.yaml"), ...more);
  expect((await filtered("--forge", "gitea", "--repo", "git@git.example.com:shop.git")).code).toBe(1);
  expect((await filtered("--repo", "ORG/shop")).code).toBe(1);
  expect(await filtered("--repo", "org/blog")).toMatchObject({
    code: 2,
    err: expect.stringContaining("no delivery about org/blog was recorded in the last 7d; 2 are stored") as string,
  });
  expect(await filtered("--forge", "github")).toMatchObject({
    code: 2,
    err: "towline: --forge: no forge github is configured; configured: gitea\n",
  });
});

test("the changed configuration is read from stdin, too", async () => {
  await record(push);
  const input = "kubernetes: { namespaces: [blog] }\n";
  expect((await towline(["replay", "--config", "-"], { env, input })).code).toBe(1);
  expect((await towline(["replay", "--config", "-"], { env, input: "{}" })).code).toBe(0);
});

describe("errors say what to do, and are not mistaken for a difference", () => {
  const failing = async (argv: readonly string[], variables: Record<string, string> = env) => {
    const { code, out, err } = await towline(["replay", ...argv], { env: variables });
    expect({ code, out }).toEqual({ code: 2, out: "" });
    return err;
  };

  test("of the command line and the configurations", async () => {
    const same = useFile("same.yaml", "{}\n");
    expect(await failing([])).toContain(
      "there is nothing to compare with: pass a changed configuration file (--config)",
    );
    expect(await failing(["--config", same, "--since", "a week"])).toContain('"a week" is not a duration; use 90m');
    expect(await failing(["--config", join(dir, "gone.yaml")])).toContain("no such file");
    const wrong = useFile("wrong.yaml", "sweep: { intervall: 1m }\n");
    expect(await failing(["--config", wrong])).toMatch(/wrong.yaml: configuration is not valid[^]*sweep.intervall/);
    const { TOWLINE_RECORDING_ENABLED: _on, TOWLINE_RECORDING_KEY: _key, ...off } = env;
    expect(await failing(["--config", same], off)).toContain(
      "recording.enabled is false, and there is no recording.keys",
    );
  });

  test("of what is recorded", async () => {
    const same = useFile("same.yaml", "{}\n");
    expect(await failing(["--config", same])).toContain(
      "no delivery was recorded in the last 7d: pushes and pull requests are recorded from now on, for 7 days",
    );
    const off = { ...env, TOWLINE_RECORDING_ENABLED: "false" };
    expect(await failing(["--config", same], off)).toContain("in the last 7d: recording.enabled is false");
    await record(push);
    const other = "another-key-of-thirty-two-characters";
    expect(await failing(["--config", same], { ...env, TOWLINE_RECORDING_KEY: other })).toMatch(
      /no delivery could be replayed: 1 recorded deliver.* encrypted with a key that is not in recording.keys: add the previous key/,
    );

    // With both keys, everything can be read; with the new one only, the rest is counted.
    env["TOWLINE_RECORDING_KEY"] = `${other},${key}`;
    await record(release);
    expect((await replay("--config", same)).out).toContain("2 deliveries");
    env["TOWLINE_RECORDING_KEY"] = other;
    expect(await replay("--config", same)).toMatchObject({
      ...{ code: 0, out: expect.stringContaining("1 delivery") as string },
      err: expect.stringMatching(/^not replayed: 1 recorded deliver/) as string,
    });

    await redis.stop();
    expect(await failing(["--config", same])).toContain("cannot reach Redis");
  });
});
