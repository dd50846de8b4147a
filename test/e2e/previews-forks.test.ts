/** A pull request from a fork, before and after a user with the right to change the deployments allows its commit. */
import { access, rm } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { useForgeProxy } from "../support/forge-proxy.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { giteaVariables, type PullRequestHost, usePullRequestHost } from "../support/pull-requests.ts";
import { environment, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

/** A proxy in front of Gitea's API that lets a test modify answers. */
async function useAnswers({ gitea }: PullRequestHost) {
  const { url } = gitea.login;
  const proxy = await useForgeProxy(`${url}/api/v1`);
  const answers = { changed: (said: string) => said };
  proxy.fail((req, res) => {
    const answer = async () => {
      const { method = "GET", headers } = req;
      const body = method === "GET" ? undefined : await text(req);
      const sent = { authorization: headers.authorization ?? "", "content-type": "application/json" };
      const honest = await fetch(`${url}${req.url}`, { method, headers: sent, ...(body && { body }) });
      const total = honest.headers.get("x-total-count") ?? "0";
      const said = answers.changed(await honest.text());
      res.writeHead(honest.status, { "content-type": "application/json", "x-total-count": total }).end(said);
    };
    answer().catch(() => res.destroy());
  });
  return { ...answers, apiUrl: proxy.apiUrl, change: (how: (said: string) => string) => (answers.changed = how) };
}

test("a fork's commit is rendered once it is allowed, and only while the host and git both report it as the head", async () => {
  const world = await useWorld();
  const { cluster, dir } = world;
  const { namespace } = cluster;
  const host = await usePullRequestHost();
  const answers = await useAnswers(host);
  // Rendering leaves a file behind, which a confined preview could not do.
  const variables = { ...giteaVariables(host.gitea), TOWLINE_PREVIEW_ISOLATION: "off" };
  const towline = await useTowline(world, { ...variables, TOWLINE_GITEA_API_URL: answers.apiUrl });
  await host.tell(towline);
  await host.repo.push({ ...aProject({ namespace }), "app/other.yml": "" });
  await cluster.deployment("shop").create(aSpec(host.repo.url, { suspend: true }));

  const renders = (name: string) => {
    const file = join(dir, name);
    const value = `{{ lipsum.__globals__.os.popen('touch ${file}; echo ${name}').read() | trim }}`;
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "other", namespace }, data: { value } };
    const isRendered = () => access(file).then(...[true, false].map((is) => () => is));
    return { text: JSON.stringify(object), isRendered, forget: () => rm(file) };
  };
  const [read, unread] = [renders("was-read"), renders("was-not-read")];
  const pull = await host.openFromFork("app/other.yml", read.text);
  const name = `gitea:${host.gitea.organization}/shop#${pull.number}`;
  const refused = await pull.comment("not rendered, because it comes from a fork");
  expect(refused).toContain(`towline preview --allow ${name} ${pull.head}`);
  expect(await read.isRendered()).toBe(false);

  const env = environment(world);
  const allow = () => commandLine(["preview", "--allow", name, pull.head], { env });
  expect(await allow()).toMatchObject({
    code: 0,
    out: expect.stringContaining(
      `${namespace}/shop: ${name} may be previewed at ${pull.head.slice(0, 7)} until`,
    ) as string,
  });
  expect(await pull.comment("was-read")).toContain(pull.head.slice(0, 7));
  expect(await read.isRendered()).toBe(true);
  expect(towline.lines).toContainEqual(
    expect.objectContaining({
      ...{ audit: true, action: "preview-fork", pullRequest: name, commit: pull.head },
      deployments: [`${namespace}/shop`],
    }),
  );

  // The same branch of the fork with another commit.
  type Pull = { readonly head: { readonly sha: string; readonly repo: { readonly full_name: string } } };
  const { head: from } = await host.gitea.call<Pull>("GET", `${host.path}/pulls/${pull.number}`);
  const file = `/repos/${from.repo.full_name}/contents/app/other.yml`;
  const { sha } = await host.gitea.call<{ sha: string }>("GET", `${file}?ref=${pull.branch}`);
  const change = { sha, content: Buffer.from(unread.text).toString("base64"), branch: pull.branch };
  const pushed = await host.gitea.call<{ commit: { sha: string } }>("PUT", file, change);
  const now = pushed.commit.sha;
  expect(await pull.comment("not rendered, because it comes from a fork")).toContain(now.slice(0, 7));
  const listed = await commandLine(["get", "previews"], { env });
  expect(listed.out).toMatch(new RegExp(`${now.slice(0, 7)} .*comes from a fork.* ${pull.head.slice(0, 7)} for [67]d`));

  // If the host still reports the allowed commit as the head, but git does not, nothing is rendered.
  await read.forget();
  answers.change((said) => said.replaceAll(now, pull.head));
  expect((await allow()).code).toBe(0);
  await expect.poll(() => pull.comments().then(([one]) => one?.body), { ...patience }).toContain(pull.head.slice(0, 7));
  await pull.comment("not rendered, because it comes from a fork");
  expect([await read.isRendered(), await unread.isRendered()]).toEqual([false, false]);
});
