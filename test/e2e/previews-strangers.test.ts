/**
 * A pull request's claimed origin is not trusted: git has to show that a branch of the repository points at its head.
 */
import { access } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useForgeProxy } from "../support/forge-proxy.ts";
import { useLocalGithub, useLocalGitlab, useLocalPullRequests } from "../support/local-hosts.ts";
import { giteaVariables, type OpenPullRequest, usePullRequestHost } from "../support/pull-requests.ts";
import { useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

/** A confined preview leaves no file behind. */
const unconfined = { TOWLINE_PREVIEW_ISOLATION: "off" };

/** A template that creates a file whenever it is rendered. */
function useTrace({ dir, cluster: { namespace } }: TestWorld, name: string) {
  const file = join(dir, name);
  const value = `{{ lipsum.__globals__.os.popen('touch ${file}; echo was-rendered').read() | trim }}`;
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { value } };
  const rendered = () =>
    access(file).then(
      () => true,
      () => false,
    );
  return { changes: { [`app/${name}.yml`]: JSON.stringify(object) }, rendered };
}

test("on Gitea, a reader's push for review without a branch gets a comment and is never rendered, by webhook or by sweep", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  await host.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(host.repo.url, { suspend: true }));
  const reader = await host.somebody();
  const [swept, told, pushed, allowed] = ["swept", "told", "pushed", "allowed"].map((name) => useTrace(world, name));

  async function isAnswered(pull: OpenPullRequest): Promise<void> {
    const body = await pull.comment(pull.head.slice(0, 7));
    expect(body).toContain("not rendered");
    expect(body).toContain("refs/for");
    expect(body).not.toContain("was-rendered");
    await expect
      .poll(() => host.statuses(pull.head), patience)
      .toEqual({ towline: expect.stringMatching(/^success: not rendered: .*without a branch/) as string });
  }

  // The first pull request is not reported to the server.
  const first = await host.pushForReview(reader, "one", swept!.changes);
  const towline = await useTowline(world, {
    ...giteaVariables(host.gitea),
    ...unconfined,
    TOWLINE_PREVIEW_INTERVAL: "30s",
  });
  await isAnswered(first);

  await host.tell(towline);
  await isAnswered(await host.pushForReview(reader, "two", told!.changes));
  const moved = await host.pushForReview(reader, "one", pushed!.changes);
  expect(moved.number).toBe(first.number);
  await isAnswered(moved);

  // The same server renders a branch pushed by a user with write access.
  await (await host.open(allowed!.changes)).comment("was-rendered");
  expect(await Promise.all([swept, told, pushed, allowed].map((one) => one!.rendered()))).toEqual([
    false,
    false,
    false,
    true,
  ]);
});

test("if Gitea reports such a pull request as one from a branch, it is not rendered either", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  const { url } = host.gitea.login;
  const proxy = await useForgeProxy(`${url}/api/v1`);
  proxy.fail((req, res) => {
    const answer = async () => {
      const { method = "GET", headers } = req;
      const body = method === "GET" ? undefined : await text(req);
      const sent = { authorization: headers.authorization ?? "", "content-type": "application/json" };
      const honest = await fetch(`${url}${req.url}`, { method, headers: sent, ...(body && { body }) });
      const total = honest.headers.get("x-total-count") ?? "0";
      const said = (await honest.text()).replaceAll('"label":""', '"label":"feature"');
      res.writeHead(honest.status, { "content-type": "application/json", "x-total-count": total }).end(said);
    };
    answer().catch(() => res.destroy());
  });
  const variables = { ...giteaVariables(host.gitea), ...unconfined, TOWLINE_GITEA_API_URL: proxy.apiUrl };
  await host.tell(await useTowline(world, variables));
  await host.repo.push(aProject({ namespace }));
  await world.cluster.deployment("shop").create(aSpec(host.repo.url, { suspend: true }));
  const trace = useTrace(world, "trace");

  const pull = await host.pushForReview(await host.somebody(), "one", trace.changes);
  await pull.comment("not rendered, because no branch points at its head");
  expect(await trace.rendered()).toBe(false);
});

test.each([
  [
    "a GitHub",
    () => useLocalGithub("token"),
    "refs/heads/gh-readonly-queue/main/pr-9-95790bf891e76fee5e1747ab589903a6a1f80f22",
  ],
  ["a GitLab", () => useLocalGitlab(), "refs/merge-requests/9/train"],
] as const)(
  "on %s, a head is rendered only once a branch points at it, whatever the host reported before",
  async (_name, useHost, queue) => {
    const [world, local] = await Promise.all([useWorld(), useHost()]);
    const { namespace } = world.cluster;
    const pulls = await useLocalPullRequests(world, local, { variables: () => unconfined });
    await pulls.push(aProject({ namespace }));
    const deployment = world.cluster.deployment("shop");
    await deployment.create(aSpec(pulls.repo.url, { suspend: true }));
    const [inQueue, late] = ["in-queue", "late"].map((name) => useTrace(world, name));

    const queued = await pulls.open(inQueue!.changes, { to: queue });
    const own = await pulls.open(late!.changes, { to: "refs/pull/10/head" });
    for (const pull of [queued, own]) {
      await pull.comment("not rendered, because no branch points at its head");
      await pulls.shows(pull.head, {
        towline: "success: not rendered: no branch of this repository points at its head",
      });
    }
    expect(await Promise.all([inQueue!.rendered(), late!.rendered()])).toEqual([false, false]);

    await own.putOnBranch();
    expect(await own.comment("was-rendered")).toContain(own.head.slice(0, 7));
    expect(await Promise.all([inQueue!.rendered(), late!.rendered()])).toEqual([false, true]);
  },
);

test.each([
  ["a delivery", undefined],
  ["an API", "http://localhost/group/shop.git"],
])("%s of one git host is not trusted about a repository on another host", async (_name, deliveredUrl) => {
  const [world, local] = await Promise.all([useWorld(), useLocalGitlab()]);
  const { namespace } = world.cluster;
  // The server considers these two hosts, and the repository is on the other one.
  const variables = (apiUrl: string) => ({
    ...unconfined,
    TOWLINE_GITLAB_API_URL: apiUrl.replace("127.0.0.1", "localhost"),
    TOWLINE_GITEA_API_URL: "http://127.0.0.1:1/api/v1",
  });
  const pulls = await useLocalPullRequests(world, local, { variables, ...(deliveredUrl && { deliveredUrl }) });
  const accepted = (event: string) => pulls.towline.lines.filter((line) => line["event"] === event);
  const deployment = world.cluster.deployment("shop");
  await pulls.push(aProject({ namespace }));
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const trace = useTrace(world, "trace");

  await pulls.push({ README: "once more" });
  const pull = await pulls.open(trace.changes);
  await expect.poll(() => accepted("pull-request"), patience).toHaveLength(1);
  expect(accepted("push").map(({ matched }) => matched)).toEqual([0, 0]);
  if (deliveredUrl === undefined) {
    const reason = "the repository is on a host of another forge, which gitlab is not allowed to report";
    expect([...accepted("push"), ...accepted("pull-request")].map((line) => line["reason"])).toEqual([
      reason,
      reason,
      reason,
    ]);
    expect(local.statuses(pull.head)).toEqual({});
  } else await pulls.shows(pull.head, { towline: "success: no deployment is affected" });
  expect([pull.comments(), await trace.rendered()]).toEqual([[], false]);
});

test("a login for a git host alone does not enable previews, and the server says what would", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  const trace = useTrace(world, "trace");
  const { TOWLINE_PREVIEW_ENABLED: _, ...login } = giteaVariables(host.gitea);
  const towline = await useTowline(world, { ...login, ...unconfined, TOWLINE_PREVIEW_INTERVAL: "30s" });
  await host.tell(towline);
  const commit = await host.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(host.repo.url));
  await deployment.settles(commit);
  const accepted = () => towline.lines.find(({ msg }) => msg === "pull-request accepted");

  const pull = await host.open(trace.changes);
  await expect.poll(accepted, patience).toBeDefined();
  expect(accepted()).toMatchObject({
    queued: 0,
    reason: "previews of pull requests are disabled (preview.enabled)",
  });
  // Statuses of pushed commits are reported anyway.
  await expect.poll(() => host.statuses(commit), patience).toMatchObject({ towline: "success: deployed: 1 new" });
  expect(towline.lines).toContainEqual(
    expect.objectContaining({ forges: ["gitea"], msg: "previews disabled: preview.enabled is false" }),
  );
  const readyz = (await (await fetch(`${towline.adminUrl}/readyz`)).json()) as { checks: object };
  expect(readyz.checks).toMatchObject({ previews: { ok: true, enabled: false } });
  expect([await pull.comments(), await host.statuses(pull.head), await trace.rendered()]).toEqual([[], {}, false]);
});
