/** Runs every command of the documentation as a reader would paste it. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { findTools } from "../../dev/tools.ts";
import { runProgram, wholeProgram } from "../../src/cli/program.ts";
import { createLimit } from "../../src/kit/limit.ts";
import { type Block, documentedBlocks, root, useShell } from "../support/documented-commands.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { useGithubHost } from "../support/github-host.ts";
import { useGitlabHost } from "../support/gitlab-host.ts";
import { notRun } from "../support/foreign-commands.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, sendPush, useTowline } from "../support/towline.ts";
import { useGitea, useWorld } from "../support/world.ts";

const secret = "a-secret-of-sixteen-or-more";

/** These would change something, wait for input, query a git host or need records: only their arguments are checked. */
const onlyRead = new Set(["doctor", "init", "preview", "replay", "webhook ensure", "webhook replay"]);

test("every command in the documentation works", async () => {
  const world = await useWorld();
  const { namespace, kubeconfig } = world.cluster;
  const dir = join(world.dir, "desk");
  const repo = await world.repo("shop");
  const project = { namespace, discriminator: `${namespace}-{{ args.name }}`, name: "{{ args.name }}" };
  await repo.push(aProject(project));
  putOnDesk(dir, namespace, repo.url);
  const { hooks, ...hosts } = await useHosts();
  const recording = { TOWLINE_RECORDING_ENABLED: "true", TOWLINE_RECORDING_KEY: "a-key-of-thirty-two-characters-01" };
  const server = await useTowline(world, { TOWLINE_PAGE_TOKEN_FILE: join(dir, "secrets/page"), ...recording });
  for (const name of ["staging", "prod"]) {
    await world.cluster.deployment(name).create(aSpec(repo.url, { args: { name } }));
    await world.cluster.deployment(name).reaches("Ready");
  }
  const pushed = await repo.push(aProject({ ...project, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: pushed })).status).toBe(202);
  const env = { ...environment(world), PATH: process.env["PATH"] };
  const isThere = async () => (await commandLine(["trace", pushed], { env })).code;
  await vi.waitFor(async () => expect(await isThere()).toBe(0), patience);
  const replay = ["replay", "--config", join(dir, "new.yaml")];
  expect(await commandLine(replay, { env: { ...env, ...recording } })).toMatchObject({
    ...{ code: 0, out: expect.stringMatching(/^1 delivery since .*: no difference\n$/) as string },
  });

  const shell = await useShell({
    ...{
      dir,
      kubeconfig,
      namespace,
      repo: repo.dir,
      log: [...server.lines, ...sourceLines()].map((line) => JSON.stringify(line)).join("\n"),
    },
    ...hosts,
    ...{ adminUrl: server.adminUrl, webhooksUrl: server.webhooksUrl, pageUrl: server.pageUrl ?? "" },
    tools: await findTools(["kubectl", "helm", "kluctl", "promtool"], { say: () => undefined }),
    towline: (argv, given) => towline(argv, { ...env, ...given }, { namespace, pushed, dir }),
  });
  const blocks = documentedBlocks();
  expect(blocks.length).toBeGreaterThan(80);
  const limit = createLimit(3);
  const problemsOf = (block: Block) => limit.run(() => shell.run(block));
  const [found, noticed] = await Promise.all([
    Promise.all(
      blocks.map(async (block) => (await problemsOf(block)).map((one) => `${block.file}:${block.line}: ${one}`)),
    ),
    Promise.all(mistakes.map((text) => problemsOf({ file: "", line: 0, text }))),
  ]);
  expect(found.flat()).toEqual([]);
  const [github, gitlab, gitea] = await hooks();
  const at = (kind: string) => `https://towline.example.com/webhooks/${kind}`;
  const githubConfig = { url: at("github"), content_type: "json", insecure_ssl: "0", secret };
  const gitlabEvents = { push_events: true, tag_push_events: true, merge_requests_events: true };
  expect(github).toEqual([{ id: 1, active: true, events: ["push", "pull_request"], config: githubConfig }]);
  expect(gitlab).toEqual([expect.objectContaining({ url: at("gitlab"), token: secret, ...gitlabEvents })]);
  const events = expect.arrayContaining(["push", "delete", "pull_request", "pull_request_sync"]) as unknown;
  const config = expect.objectContaining({ url: at("gitea") }) as unknown;
  expect(gitea).toEqual([expect.objectContaining({ type: "gitea", active: true, events, config })]);
  expect(
    mistakes.filter((_, i) => noticed[i]?.length === 0),
    "these are wrong, and nobody notices",
  ).toEqual([]);
  const forNothing = Object.keys(notRun).filter((name) => !shell.called.has(name));
  expect(forNothing, "these are on the list, and no page calls them").toEqual([]);
});

/**
 * Git hosts as the pages name them: a local GitHub and GitLab, and a real Gitea. Also their webhooks after all commands
 * ran.
 */
async function useHosts() {
  const [github, gitlab, gitea] = [await useGithubHost(), await useGitlabHost(), await useGitea()];
  await gitea.repo("shop");
  github.logins.permissions = { repository_hooks: "write" };
  gitlab.bot.maintainerOf.add(gitlab.project.id);
  const path = `/repos/${gitea.organization}/shop`;
  return {
    hosts: [
      { documented: "https://api.github.com/repos/OWNER/REPO", real: `${github.apiUrl}/repos/${github.repoName}` },
      {
        documented: "https://gitlab.example.com/api/v4/projects/PROJECT_ID",
        real: `${gitlab.apiUrl}/projects/${gitlab.project.id}`,
      },
      {
        documented: "https://gitea.example.com/api/v1/repos/OWNER/REPO",
        real: `${gitea.login.url}/api/v1${path}`,
      },
    ],
    variables: {
      ...{ GITHUB_TOKEN: github.logins.token, GITLAB_TOKEN: gitlab.bot.token, GITEA_TOKEN: gitea.login.token },
      SECRET: secret,
    },
    hooks: async () =>
      [github.repository.hooks, gitlab.project.hooks, await gitea.call("GET", `${path}/hooks`)] as const,
  };
}

/** Mistakes that a page could contain, all of which have to be detected. */
const mistakes = [
  "towline get deployments --nonsense",
  "towline webhook ensure --nonsense",
  "TOWLINE_NONSENSE=1",
  "kubectl get nonsenses -A",
  "kubectl -n towline logs deploy/towline --nonsense",
  "helm upgrade towline ./chart --nonsense",
  "curl -s http://127.0.0.1:9090/metrics | grep ^towline_nonsense",
  "kluctl gitops nonsense --nonsense",
  "npm run nonsense",
  "flux suspend nonsense shop",
  "cosign verify --nonsense image",
  "nonsense",
];

interface Names {
  readonly namespace: string;
  readonly pushed: string;
  readonly dir: string;
}

/**
 * The real command line, with the documented names replaced by this world's. HEAD is that of a reader's working copy.
 */
async function towline(argv: readonly string[], env: Record<string, string | undefined>, names: Names) {
  const { namespace, pushed, dir } = names;
  const args = argv.map((arg) => arg.replace(/\bshop\b(?!\.)/g, namespace).replace(/^(?:3f2c1ab|HEAD)$/, pushed));
  for (const [name, value] of Object.entries(env)) env[name] = value?.replace(/^\/run\/secrets/, join(dir, "secrets"));
  const path = args.filter((arg) => !arg.startsWith("-"));
  const [first = "", second = ""] = path;
  if (onlyRead.has(first) || onlyRead.has(`${first} ${second}`)) return readOnly(args);
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runProgram(args, {
    env: { ...forgeSecrets(env), ...env },
    serve: () => Promise.resolve(0),
    demo: () => Promise.resolve(0),
    doctor: () => Promise.reject(new Error("only read")),
    stdin: () => Promise.resolve(""),
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
  });
  return { code, out: out.join(""), err: err.join("") };
}

/** Pages that configure a login assume that there is a webhook secret. */
function forgeSecrets(env: Record<string, string | undefined>): Record<string, string> {
  const kinds = ["GITHUB", "GITLAB", "GITEA"].filter((kind) =>
    Object.keys(env).some((name) => name.startsWith(`TOWLINE_${kind}_`)),
  );
  return Object.fromEntries([
    ...kinds.map((kind) => [`TOWLINE_${kind}_WEBHOOK_SECRET`, secret]),
    ...(kinds.includes("GITLAB") ? [["TOWLINE_GITLAB_API_URL", "https://gitlab.example.com/api/v4"]] : []),
  ]) as Record<string, string>;
}

/** Checks whether the command accepts the arguments. */
async function readOnly(args: readonly string[]) {
  const program = await wholeProgram();
  const said: string[] = [];
  const quiet = (command: typeof program): void => {
    command.exitOverride().configureOutput({ writeOut: () => undefined, writeErr: (text) => void said.push(text) });
    if (command.commands.length === 0) command.action(() => undefined);
    command.commands.forEach(quiet);
  };
  quiet(program);
  const code = await program.parseAsync(args, { from: "user" }).then(
    () => 0,
    () => 2,
  );
  return { code, out: "", err: said.join("") };
}

/** Writes the files that commands name. */
function putOnDesk(dir: string, namespace: string, url: string): void {
  mkdirSync(join(dir, "secrets"), { recursive: true });
  mkdirSync(join(dir, "deploy"));
  for (const name of ["chart", "examples"]) symlinkSync(join(root, name), join(dir, name));
  const example = (name: string) =>
    readFileSync(join(root, "examples/deployments", name), "utf8")
      .replaceAll("https://git.example.com/shop/shop.git", url)
      .replaceAll(/(namespace|name): shop$/gm, `$1: ${namespace}`);
  const forge = (kind: string) =>
    `  - id: ${kind}\n    kind: ${kind}\n    apiUrl: https://${kind}.example.com/api\n    webhookSecretFiles: [${dir}/secrets/${kind}-webhook]\n`;
  const files = {
    "staging.yaml": example("staging.yaml"),
    "prod.yaml": example("prod.yaml"),
    "shop.yaml": example("prod.yaml"),
    "deploy/staging.yaml": example("staging.yaml"),
    "towline.yaml": `forges:\n${["github", "gitlab", "gitea"].map(forge).join("")}`,
    "new.yaml": "{}\n",
    "values.yaml": "redis: { auth: { existingSecret: towline-redis } }\n",
    "github-token.txt": "token",
    "admin.token": "token",
    "push.json": JSON.stringify(aPush(url)),
    "page-token": "0123456789abcdef0123456789abcdef",
    "secrets/page": "0123456789abcdef0123456789abcdef",
    "secrets/github-app.pem": "-----BEGIN PRIVATE KEY-----\n",
    ...Object.fromEntries(
      ["github", "gitlab", "gitea"].flatMap((kind) => [
        [`secrets/${kind}-webhook`, secret],
        [`secrets/${kind}-token`, "token"],
      ]),
    ),
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, name), content);
}

/** As Gitea would report it. */
function aPush(url: string) {
  const { pathname, origin } = new URL(url);
  const name = pathname.slice(1).replace(/\.git$/, "");
  return {
    ...{ ref: "refs/heads/main", before: "1".repeat(40), after: "2".repeat(40), total_commits: 1 },
    commits: [{ id: "2".repeat(40), added: [], removed: [], modified: ["app/settings.yml"] }],
    repository: { full_name: name, clone_url: url, html_url: `${origin}/${name}`, default_branch: "main" },
  };
}

/** All messages that the log can contain, taken from the sources. */
function sourceLines(): readonly object[] {
  return ["src", "jobs", "routes"].flatMap((directory) =>
    readdirSync(join(root, directory), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .flatMap((name) => readFileSync(join(root, directory, name), "utf8").split("\n"))
      .map((msg) => ({ level: "warn", msg })),
  );
}
