/** Pull requests on a local GitHub and GitLab that implement the documented protocol, through the whole server. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { githubRerun } from "../support/deliveries.ts";
import { readiness } from "../support/faults.ts";
import { useLocalGithub, useLocalGitlab, useLocalPullRequests } from "../support/local-hosts.ts";
import { aProject, aSpec } from "../support/project.ts";
import { rendersWhile } from "../support/pull-requests.ts";
import { patience } from "../support/patience.ts";
import { useWorld } from "../support/world.ts";

const hosts = {
  "a GitHub, with a token": () => useLocalGithub("token"),
  "a GitLab": () => useLocalGitlab(),
};
const logins = { ...hosts, "a GitHub, as an App": () => useLocalGithub("app") };

test.each(Object.entries(logins))(
  "on %s, a pull request is reported from opening to deploy, in one comment and in the statuses of the right commits",
  async (_name, useHost) => {
    const [world, local] = await Promise.all([useWorld(), useHost()]);
    const { namespace } = world.cluster;
    const pulls = await useLocalPullRequests(world, local);
    const project = (color: string) => aProject({ namespace, data: { color } });
    await pulls.push(project("red"));
    const deployment = world.cluster.deployment("shop");
    await deployment.create(aSpec(pulls.repo.url));
    await deployment.settles();
    const line = `towline/${deployment.key}`;

    const pull = await pulls.open(project("blue"));
    expect(await pull.comment("merging changes")).toMatch(/data\.color:\n- +red\n\+ +blue/);
    const [comment] = pull.comments();
    await pulls.shows(pull.head, {
      [line]: "success: 1 changed",
      towline: expect.stringMatching(/^success: changes 1/),
    });

    // At the next head, the host rejects the reading of the pull request with a rate limit.
    let [refused, refusedAt] = ["", 0];
    pulls.proxy.fail(({ method, url }, res) => {
      pulls.proxy.clear();
      [refused, refusedAt] = [`${method} ${url}`, performance.now()];
      local.refuse(res, 2);
    }, /^GET .*\/(?:pulls|merge_requests)\/\d+$/);
    const head = await pull.push(project("green"));
    await expect.poll(() => refused, patience).not.toBe("");
    // Requests of calls that were under way at that moment may still arrive, but this one is not repeated.
    await expect.poll(() => pulls.proxy.requests, patience).toContain(refused);
    expect(performance.now() - refusedAt).toBeGreaterThanOrEqual(2_000);
    await pull.comment("green");
    expect(pull.comments().map(({ id }) => id)).toEqual([comment?.id]);
    await pulls.shows(head, { [line]: "success: 1 changed" });

    const merge = await pull.merge();
    await pull.comment("merged into `main`");
    await deployment.settles(merge);
    expect(await world.cluster.data("settings")).toEqual({ color: "green" });
    await pulls.shows(merge, { [line]: "success: deployed: 1 changed", towline: "success: deployed: 1 changed" });
    expect(local.flaws()).toEqual([]);
    expect(await readiness(pulls.towline)).toMatchObject({ status: 200 });
  },
);

test.each(Object.entries(hosts))(
  "on %s, a conflict ends the comparison in progress, and a fork is not rendered",
  async (_name, useHost) => {
    const [world, local] = await Promise.all([useWorld(), useHost()]);
    const { namespace } = world.cluster;
    const { failure, canceled } = local.words;
    const pulls = await useLocalPullRequests(world, local);
    const project = (color: string) => aProject({ namespace, data: { color } });
    await pulls.push(project("red"));
    const deployment = world.cluster.deployment("shop");
    await deployment.create(aSpec(pulls.repo.url, { suspend: true }));
    const line = `towline/${deployment.key}`;
    const gate = join(world.dir, "gate");
    await writeFile(gate, "");
    onTestFinished(() => rm(gate, { force: true }));

    const pull = await pulls.open({ ...project("blue"), "app/slow.yml": rendersWhile(gate, { namespace }) });
    await pulls.shows(pull.head, {
      [line]: "pending: comparing with the live cluster",
      // GitLab keeps the description of the first pending status, which on a busy machine is "looking for deployments".
      towline: expect.stringMatching(/^pending: /) as string,
    });
    await pulls.push(project("yellow"));
    expect(await pull.comment("cannot be merged")).toContain("app/settings.yml");
    await pulls.shows(pull.head, {
      [line]: `${canceled}: cannot be merged: conflict in 1 file`,
      towline: `${failure}: cannot be merged: conflict in 1 file`,
    });

    const forked = await pulls.open({}, { fork: true });
    await forked.comment("not rendered, because it comes from a fork");
    await pulls.shows(forked.head, { towline: "success: not rendered: it comes from a fork" });
  },
);

test("if its App is uninstalled, the server says where to install it, still deploys, and reports again afterwards", async () => {
  const [world, local] = await Promise.all([useWorld(), useLocalGithub("app")]);
  const { namespace } = world.cluster;
  const { logins } = local.host;
  const { installation } = logins;
  const pulls = await useLocalPullRequests(world, local);
  const backend = { service: { name: "web", port: { number: 80 } } };
  const http = { paths: [{ path: "/", pathType: "Prefix", backend }] };
  const ingress = {
    ...{ apiVersion: "networking.k8s.io/v1", kind: "Ingress", metadata: { name: "web", namespace } },
    spec: { rules: [{ host: "shop.example.com", http }], tls: [{ hosts: ["shop.example.com"] }] },
  };
  const project = (color: string) => aProject({ namespace, data: { color }, objects: { "ingress.yml": ingress } });
  const red = await pulls.push(project("red"));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await pulls.shows(red, { towline: "success: deployed: 2 new" });
  const environments = () =>
    local.host.repository.deployments.map(({ environment, sha, statuses }) => ({
      environment,
      sha,
      last: statuses.at(-1),
    }));
  const last = { state: "success", environment_url: "https://shop.example.com/" };
  await expect.poll(environments, patience).toMatchObject([{ environment: "prod", sha: red, last }]);

  logins.uninstall();
  const more = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "more", namespace } };
  const pull = await pulls.open({ "app/more.yml": JSON.stringify(more) });
  const green = await pulls.push(project("green"));
  await deployment.settles(green);
  expect(await world.cluster.data("settings")).toEqual({ color: "green" });
  // That the webhooks cannot be read has a reason of its own: an App needs no permission for them.
  const refused = () => pulls.towline.lines.filter(({ msg }) => msg === "request to the forge failed");
  await expect.poll(refused, patience).not.toEqual([]);
  for (const { error } of refused()) expect(error).toContain(`install it at ${logins.appObject.html_url}`);
  expect(await readiness(pulls.towline)).toMatchObject({ status: 200 });
  expect([...pull.comments(), ...Object.keys(local.statuses(green))]).toEqual([]);

  logins.installation = { ...installation!, id: 4_712 };
  const head = await pull.push({ README: "one more\n" });
  await pull.comment("merging changes 1 deployment");
  await pulls.shows(head, {
    [`towline/${deployment.key}`]: "success: 1 new",
    towline: expect.stringMatching(/^success/),
  });

  // The button of a check run has all of them written again.
  const runs = () => local.host.repository.checkRuns.filter(({ sha }) => sha === head).length;
  const before = runs();
  await pulls.deliver(githubRerun("check_suite", pulls.repository, { commit: head, app: logins.appObject }));
  await expect.poll(runs, patience).toBeGreaterThanOrEqual(before + 2);
  await pulls.shows(head, {
    [`towline/${deployment.key}`]: "success: 1 new",
    towline: expect.stringMatching(/^success/),
  });
});
