/** docker-compose.yml unchanged, with the built image: the server, its Redis, and a git host to try it with. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { stringify } from "yaml";
import { expect, onTestFinished, test, vi } from "vitest";
import { imagesOfCompose } from "../../dev/engine/bases.ts";
import { createGiteaClient } from "../../dev/parts/gitea-client.ts";
import { freePort } from "../../dev/parts/port.ts";
import { createWorkCopy } from "../../dev/parts/work-copy.ts";
import { emulatedHealthcheck, fileOf, image, platform, toContainer } from "../support/containers.ts";
import { isEmulated, patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTempDir, useWorld } from "../support/world.ts";

const root = join(import.meta.dirname, "../..");
const user = 1000;

test("a push to the compose file's git host is deployed to the cluster of the user's kubeconfig", async () => {
  const { cluster } = await useWorld();
  const dir = await useTempDir();
  const [redisPassword, webhookSecret, password] = [newSecret(), newSecret(), newSecret()];
  const compose = await useCompose(dir, {
    TOWLINE_REDIS_PASSWORD: redisPassword,
    TOWLINE_REDIS_PORT: String(await freePort()),
    TOWLINE_GITEA_WEBHOOK_SECRET: webhookSecret,
    TOWLINE_GITEA_API_URL: "http://127.0.0.1:3000/api/v1",
    TOWLINE_KUBECONFIG_FILE: await fileOf(user, cluster.kubeconfig),
    TOWLINE_UID: String(user),
  });

  // The git host starts first, because the server's settings need a token of it.
  await compose.run("up", "--detach", "--wait", "gitea");
  const account = ["--username", "ada", "--password", password, "--email", "ada@example.com", "--admin"];
  await compose.run("exec", "--no-TTY", "gitea", "gitea", "admin", "user", "create", ...account);
  const asked = ["--username", "ada", "--scopes", "all", "--raw"];
  const token = await compose.run(
    ...["exec", "--no-TTY", "gitea", "gitea", "admin", "user", "generate-access-token", ...asked],
  );
  await compose.set({ TOWLINE_GITEA_TOKEN: token });
  await compose.run("up", "--detach", "--wait");

  const client = createGiteaClient({ url: "http://127.0.0.1:3000", user: "ada", token });
  const repository = await client.createRepository("ada", "shop");
  const events = ["push", "create", "delete", "pull_request"];
  await client.registerWebhook(repository, {
    url: "http://127.0.0.1:8080/webhooks/gitea",
    secret: webhookSecret,
    events,
  });
  const copy = await createWorkCopy(join(dir, "shop"), repository.pushUrl);
  const first = await copy.push(aProject({ namespace: cluster.namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repository.cloneUrl));
  await deployment.settles(first);
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  const second = await copy.push(aProject({ namespace: cluster.namespace, data: { color: "blue" } }));
  await deployment.settles(second);
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  const towline = toContainer(await compose.run("ps", "--quiet", "towline"));
  expect(await towline.logs()).toMatch(/"event":"push"[^\n]*"queued":1/);
  const statuses = () =>
    client.call<{ status: string }[]>("GET", `/repos/ada/shop/commits/${second}/statuses`).catch(() => []);
  await vi.waitFor(async () => expect((await statuses()).map(({ status }) => status)).toContain("success"), patience);

  // Redis requires the password from every client, and its data survives a restart.
  const ask = (words: string) => compose.run("exec", "--no-TTY", "redis", "sh", "-c", words);
  expect(await ask("valkey-cli dbsize 2>&1")).toContain("NOAUTH");
  const withPassword = 'REDISCLI_AUTH="$TOWLINE_REDIS_PASSWORD" valkey-cli';
  expect(await ask(`${withPassword} config get 'maxmemory-policy'`)).toContain("noeviction");
  const keys = Number(await ask(`${withPassword} dbsize`));
  expect(keys).toBeGreaterThan(0);
  await compose.run("stop", "--timeout", "30", "towline");
  expect(await towline.state()).toMatchObject({ Status: "exited", ExitCode: 0 });
  await compose.run("kill", "redis");
  await compose.run("up", "--detach", "--wait", "redis");
  expect(Number(await ask(`${withPassword} dbsize`))).toBeGreaterThan(0);

  // Everything works after the restart.
  await compose.run("up", "--detach", "--wait");
  const third = await copy.push(aProject({ namespace: cluster.namespace, data: { color: "green" } }));
  await deployment.settles(third);
  expect(await cluster.data("settings")).toEqual({ color: "green" });

  // Pull requests are rendered in a container without network access.
  await compose.set({
    TOWLINE_PREVIEW_ENABLED: "true",
    TOWLINE_PREVIEW_ISOLATION: "auto", // the only account is the one in the kubeconfig
    TOWLINE_PREVIEW_RUNNER_ADDRESS: "unix:/run/previews/socket",
    TOWLINE_PREVIEW_RUNNER_TOKEN: newSecret(),
  });
  await compose.run("--profile", "previews", "up", "--detach", "--wait");
  await copy.push(aProject({ namespace: cluster.namespace, data: { color: "violet" } }), { branch: "feature" });
  const proposal = { title: "Change", head: "feature", base: "main" };
  const { number } = await client.call<{ number: number }>("POST", "/repos/ada/shop/pulls", proposal);
  const comments = () => client.call<{ body: string }[]>("GET", `/repos/ada/shop/issues/${number}/comments`);
  await vi.waitFor(async () => expect(JSON.stringify(await comments())).toContain("merging changes"), patience);
  expect(JSON.stringify(await comments())).toContain("violet");
  const previews = toContainer(await compose.run("--profile", "previews", "ps", "--quiet", "previews"));
  expect(await previews.logs()).toContain('"msg":"preview rendered for a server"');
  expect(await previews.logs()).toMatch(/"network":"[^"]*that reaches nothing else"/);
});

/** Creates `.env` from the example as its first lines describe. */
async function useCompose(dir: string, first: Record<string, string>) {
  const [file, override] = [join(dir, ".env"), join(dir, "override.yml")];
  const settings = { ...first };
  const set = async (more: Record<string, string>) => {
    Object.assign(settings, more);
    const example = await readFile(join(root, ".env.example"), "utf8");
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
    await writeFile(file, example + lines.join(""), { mode: 0o600 });
  };
  await set({});
  const standIns = JSON.parse(process.env["TEST_STAND_INS"] ?? "{}") as Record<string, string>;
  const composed = await imagesOfCompose();
  const toImage = (service: "redis" | "gitea") => {
    const reference = composed[service];
    return { image: standIns[reference] ?? reference };
  };
  // The image is built already, with the checksum of the kluctl in it.
  await writeFile(
    override,
    stringify({
      services: {
        towline: { image, platform, ...(isEmulated && { healthcheck: emulatedHealthcheck }) },
        previews: { image, platform },
        // A stand-in has a different digest from the image it replaces.
        redis: toImage("redis"),
        gitea: toImage("gitea"),
      },
    }),
  );
  const files = ["--file", join(root, "docker-compose.yml"), "--file", override, "--env-file", file];
  const named = ["--project-directory", root, "--project-name", "towline-test", ...files, "--profile", "try"];
  const run = async (...args: readonly string[]) => {
    const command = process.env["TEST_DOCKER_COMPOSE"] ?? "docker-compose";
    const { stdout } = await promisify(execFile)(command, [...named, ...args], { maxBuffer: 1e8 });
    return stdout.trim();
  };
  onTestFinished(async ({ task }) => {
    if (task.result?.state === "fail") console.error(await run("logs", "--tail", "50"));
    await run("--profile", "previews", "down", "--volumes", "--timeout", "30");
  });
  return { run, set };
}

function newSecret(): string {
  return randomBytes(24).toString("hex");
}
