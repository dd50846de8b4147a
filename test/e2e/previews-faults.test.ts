/** Losses, outages and duplicates during previews: in the end there is exactly one comment, and it is correct. */
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { useForgeProxy } from "../support/forge-proxy.ts";
import { journaled, useJournal } from "../support/journal.ts";
import { findProcessesOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { giteaVariables, type PullRequestHost, usePullRequestHost, usePullRequests } from "../support/pull-requests.ts";
import { useRedisServer } from "../support/redis.ts";
import { useTowline } from "../support/towline.ts";
import { patience } from "../support/patience.ts";
import { useWorld, type TestWorld } from "../support/world.ts";

/** A base branch with a project, and a deployment that follows it. */
async function useShop(world: TestWorld, { repo }: Pick<PullRequestHost, "repo">, more: Record<string, unknown> = {}) {
  const { namespace } = world.cluster;
  const project = (color: string) => aProject({ namespace, data: { color } });
  await repo.push(project("red"));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, more));
  return { project, deployment };
}

/** A suspended deployment whose pull requests are swept every 30 seconds, with a Redis that the test can stop. */
async function useSweptShop(world: TestWorld, redis: ReturnType<typeof useRedisServer>) {
  const host = await usePullRequestHost();
  const proxy = await useForgeProxy(`${host.gitea.login.url}/api/v1`);
  const towline = await useTowline(world, {
    ...giteaVariables(host.gitea),
    TOWLINE_GITEA_API_URL: proxy.apiUrl,
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
    TOWLINE_PREVIEW_INTERVAL: "30s",
  });
  const stopTelling = await host.tell(towline);
  const { project } = await useShop(world, host, { suspend: true });
  return { host, proxy, stopTelling, project };
}

/** Passes the request on to the host, for tests that act before they return its answer. */
async function passOn(req: IncomingMessage, apiUrl: string): Promise<Response> {
  const body = await text(req);
  const { authorization = "" } = req.headers;
  return fetch(new URL(req.url ?? "/", apiUrl), {
    method: req.method ?? "GET",
    headers: { authorization, "content-type": "application/json" },
    ...(body !== "" && { body }),
  });
}

async function resolves(host: PullRequestHost, commit: string): Promise<void> {
  await expect
    .poll(() => host.statuses(commit), patience)
    .toMatchObject({ towline: expect.stringMatching("success: ") });
}

test("a deleted comment is written again at the next change", async () => {
  const world = await useWorld();
  const pulls = await usePullRequests(world);
  const { project } = await useShop(world, pulls, { suspend: true });
  const pull = await pulls.open(project("blue"));
  await pull.comment("blue");
  const [comment] = await pull.comments();
  await pulls.gitea.call("DELETE", `${pulls.path}/issues/comments/${comment?.id}`);

  const head = await pull.push(project("green"));
  await pull.comment("green");
  await resolves(pulls, head);
});

test("two servers on one Redis write one comment, and if one is killed during a comparison, the other reports the result", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const host = await usePullRequestHost();
  const variables = { ...giteaVariables(host.gitea), ...journaled };
  const servers = await Promise.all([
    useFaultServer(world, journal, "one", variables),
    useFaultServer(world, journal, "two", variables),
  ]);
  await Promise.all(servers.map((server) => host.tell(server)));
  const { project } = await useShop(world, host, { suspend: true });
  const pull = await host.open(project("blue"));
  await pull.comment("blue");
  for (const color of ["green", "yellow", "white"]) {
    await Promise.all([pull.push(project(color)), pull.edit({ title: `Make it ${color}` })]);
  }
  await pull.comment("white");
  const [comment] = await pull.comments();

  const release = await journal.hold("true");
  const before = journal.runs().length;
  const head = await pull.push(project("black"));
  await expect.poll(() => journal.runs().length, patience).toBe(before + 1);
  const victim = servers.find(({ pid }) => pid === journal.runs().at(-1)?.server)!;
  victim.child.kill("SIGKILL");
  await expect.poll(() => findProcessesOf(victim.dataDir), patience).toEqual([]);
  await release();
  await pull.comment("black");
  expect((await pull.comments()).map(({ id }) => id)).toEqual([comment?.id]);
  await resolves(host, head);
});

test("a server that is stopped hands its comparison to the other one", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const host = await usePullRequestHost();
  const variables = { ...giteaVariables(host.gitea), ...journaled, TOWLINE_SHUTDOWN_DRAIN: "1s" };
  const servers = await Promise.all([
    useFaultServer(world, journal, "one", variables),
    useFaultServer(world, journal, "two", variables),
  ]);
  await host.tell(servers[0]);
  const { project } = await useShop(world, host, { suspend: true });
  const release = await journal.hold("true");
  const pull = await host.open(project("blue"));
  await expect.poll(() => journal.runs().length, patience).toBe(1);

  const first = servers.find(({ pid }) => pid === journal.runs()[0]?.server)!;
  await first.stop();
  await expect.poll(() => findProcessesOf(first.dataDir), patience).toEqual([]);
  await expect.poll(() => journal.runs().length, patience).toBe(2);
  await release();
  await pull.comment("blue");
  await resolves(host, pull.head);
});

test("the comment of a server that dies right after it wrote it is found by the other one", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const host = await usePullRequestHost();
  const apiUrl = `${host.gitea.login.url}/api/v1`;
  const start = async (name: string) => {
    const proxy = await useForgeProxy(apiUrl);
    const variables = { ...giteaVariables(host.gitea), ...journaled, TOWLINE_GITEA_API_URL: proxy.apiUrl };
    const server = await useFaultServer(world, journal, name, variables);
    await host.tell(server);
    return { proxy, server };
  };
  const servers = [await start("one"), await start("two")];
  const killed: string[] = [];
  for (const { proxy, server } of servers) {
    proxy.fail((req, res) => {
      void passOn(req, apiUrl).then(async (answer) => {
        if (req.method === "POST" && req.url?.endsWith("/comments") && killed.push(server.dataDir) === 1) {
          server.child.kill("SIGKILL");
          return;
        }
        const total = answer.headers.get("x-total-count");
        res.writeHead(answer.status, { "content-type": "application/json", ...(total && { "x-total-count": total }) });
        res.end(await answer.text());
      });
    });
  }
  const { project } = await useShop(world, host, { suspend: true });

  const pull = await host.open(project("blue"));
  await expect.poll(() => killed, patience).toHaveLength(1);
  const written = await pull.comments();
  expect(written).toHaveLength(1);
  await resolves(host, pull.head);
  await pull.comment("blue");
  expect((await pull.comments()).map(({ id }) => id)).toEqual(written.map(({ id }) => id));
});

test("two servers with separate Redis data agree on one comment", async () => {
  const world = await useWorld();
  const host = await usePullRequestHost();
  const { project } = await useShop(world, host, { suspend: true });
  for (const prefix of ["one", "two"]) {
    const apart = { TOWLINE_REDIS_PREFIX: `${world.redis.prefix}-${prefix}` };
    await host.tell(await useTowline(world, { ...giteaVariables(host.gitea), ...apart }));
  }
  const pulls = [await host.open(project("blue")), await host.open(project("green"))];
  for (const pull of pulls) {
    await expect
      .poll(() => host.statusWrites(pull.head), patience)
      .toEqual(expect.arrayContaining(["towline success", "towline success"]));
    await pull.comment("took");
  }
});

test("without webhooks the sweep finds pull requests, and after Redis loses its data they keep their one comment", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const redis = useRedisServer();
  await redis.start();
  const host = await usePullRequestHost();
  const towline = await useTowline(world, {
    ...giteaVariables(host.gitea),
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
    ...journaled,
    TOWLINE_KLUCTL: journal.kluctl,
    TOWLINE_PREVIEW_INTERVAL: "30s",
  });
  const { project } = await useShop(world, host, { suspend: true });
  const client = redis.client();

  const found = await host.open(project("blue"));
  await found.comment("blue");
  const [comment] = await found.comments();

  // During a comparison: its result is still reported.
  const release = await journal.hold("true");
  await host.tell(towline);
  const runs = journal.runs().length;
  const head = await found.push(project("green"));
  await expect.poll(() => journal.runs().length, patience).toBe(runs + 1);
  await client.flushall();
  await release();
  await found.comment("green");
  await resolves(host, head);

  // After a comparison: the next event finds the comment again.
  await client.flushall();
  const last = await found.push(project("white"));
  await found.comment("white");
  expect((await found.comments()).map(({ id }) => id)).toEqual([comment?.id]);
  await resolves(host, last);

  // Closing does not need the stored data either.
  await client.flushall();
  await found.edit({ state: "closed" });
  await found.comment("closed without merging");
  expect((await found.comments()).map(({ id }) => id)).toEqual([comment?.id]);
});

test("the sweep updates the comments of pull requests that were merged or closed while webhooks and Redis were lost", async () => {
  const world = await useWorld();
  const redis = useRedisServer({ appendOnly: false });
  await redis.start();
  const { host, proxy, stopTelling, project } = await useSweptShop(world, redis);
  const [merged, closed] = [await host.open(project("blue")), await host.open(project("green"))];
  await merged.comment("blue");
  await closed.comment("green");
  for (const { head } of [merged, closed]) await resolves(host, head);
  const idsOf = async () =>
    Promise.all([merged, closed].map(async (one) => (await one.comments()).map(({ id }) => id)));
  const ids = await idsOf();

  await stopTelling();
  await redis.stop();
  await merged.merge();
  const unseen = await host.open(project("white"));
  for (const one of [closed, unseen]) await one.edit({ state: "closed" });
  await redis.start();
  await merged.comment("merged into");
  await closed.comment("closed without merging");
  expect(await idsOf()).toEqual(ids);

  // A job that is still running would store its report again after the flush.
  const client = redis.client();
  const unfinished = async () => (await client.keys("*")).filter((key) => /:(?:active|wait|prioritized)$/.test(key));
  await expect.poll(unfinished, patience).toEqual([]);
  // After another flush they are checked again, and comments that are already correct are not changed.
  const bodies = async () => (await Promise.all([merged, closed, unseen].map((one) => one.comments()))).flat();
  const said = await bodies();
  expect(said).toHaveLength(2);
  proxy.clear();
  await client.flushall();
  const looks = () => proxy.requests.filter((line) => /^GET .*\/issues\/\d+\/comments/.test(line)).length;
  await expect.poll(looks, patience).toBe(3);
  await expect.poll(unfinished, patience).toEqual([]);
  expect(await bodies()).toEqual(said);
  const aboutUnseen = new RegExp(String.raw`/(?:pulls|issues)/${unseen.number}\b`);
  expect(proxy.requests.filter((line) => aboutUnseen.test(line))).toHaveLength(3);
  expect(proxy.requests.filter((line) => /\/comments/.test(line) && !line.startsWith("GET "))).toEqual([]);

  // The sweep after that makes only two requests.
  proxy.clear();
  await expect.poll(() => proxy.requests.some((line) => line.includes("/pulls?state=closed")), patience).toBe(true);
  const about = proxy.requests.filter((line) => /\/(?:pulls|issues)\b/.test(line)).map((line) => line.split("&")[0]);
  expect(about).toEqual(["open", "closed"].map((state) => `GET /api/v1${host.path}/pulls?state=${state}`));
});

test("a pull request that was pushed to and merged without a webhook gets its comment, and its jobs end", async () => {
  const world = await useWorld();
  const redis = useRedisServer();
  await redis.start();
  const { host, proxy, stopTelling, project } = await useSweptShop(world, redis);
  const pull = await host.open(project("blue"));
  await pull.comment("blue");
  await resolves(host, pull.head);

  await stopTelling();
  await redis.stop();
  const head = await pull.push(project("green"));
  await expect
    .poll(() => host.gitea.call<{ head: { sha: string } }>("GET", `${host.path}/pulls/${pull.number}`), patience)
    .toMatchObject({ head: { sha: head } });
  await pull.merge();
  proxy.clear();
  await redis.start();
  const body = await pull.comment("merged into");
  expect(body).toContain("Result of the last preview");
  expect(body).toContain("blue");
  const one = new RegExp(String.raw`/(?:pulls|issues)/${pull.number}\b`);
  expect(proxy.requests.filter((line) => one.test(line)).length).toBeLessThan(10);
});

test("a base branch that moved without a webhook is compared as soon as the sweep finds the move", async () => {
  const world = await useWorld();
  const host = await usePullRequestHost();
  const towline = await useTowline(world, { ...giteaVariables(host.gitea), TOWLINE_SWEEP_INTERVAL: "5s" });
  const stopTelling = await host.tell(towline);
  const { project, deployment } = await useShop(world, host, { manual: true });
  await deployment.settles();
  const pull = await host.open({ README: "shop\n" });
  await pull.comment("took");

  await stopTelling();
  const base = await host.repo.push(project("green"));
  await deployment.settles(base);
  await pull.comment(`at \`${base.slice(0, 7)}\``);
  await resolves(host, pull.head);
});

test("a comment that the host rejected is written as soon as the host accepts it, even if nothing has changed", async () => {
  const world = await useWorld();
  const host = await usePullRequestHost();
  const apiUrl = `${host.gitea.login.url}/api/v1`;
  const proxy = await useForgeProxy(apiUrl);
  const variables = { TOWLINE_GITEA_API_URL: proxy.apiUrl, TOWLINE_PREVIEW_INTERVAL: "30s" };
  await host.tell(await useTowline(world, { ...giteaVariables(host.gitea), ...variables }));
  const { project } = await useShop(world, host, { suspend: true });
  let refused = 0;
  proxy.fail((req, res) => {
    if (req.method !== "GET" && req.url?.endsWith("/comments") && ++refused) return void res.writeHead(403).end("{}");
    void passOn(req, apiUrl).then(async (answer) => {
      const total = answer.headers.get("x-total-count");
      res.writeHead(answer.status, { "content-type": "application/json", ...(total && { "x-total-count": total }) });
      res.end(await answer.text());
    });
  });

  const pull = await host.open(project("blue"));
  await resolves(host, pull.head);
  expect(await pull.comments()).toEqual([]);
  expect(refused).toBeGreaterThan(0);

  proxy.clear();
  await pull.comment("blue");
});

test("an outage of the forge delays only comments and statuses", async () => {
  const world = await useWorld();
  const host = await usePullRequestHost();
  const proxy = await useForgeProxy(`${host.gitea.login.url}/api/v1`);
  const variables = { ...giteaVariables(host.gitea), TOWLINE_GITEA_API_URL: proxy.apiUrl };
  const towline = await useTowline(world, variables);
  await host.tell(towline);
  const { project, deployment } = await useShop(world, host);
  await deployment.settles();

  proxy.fail((req) => req.socket.destroy());
  const pull = await host.open({ "app/more.yml": project("blue")["app/settings.yml"]?.replace("settings", "more") });
  await expect.poll(() => proxy.requests.length, patience).toBeGreaterThan(0);
  const pushed = await host.repo.push(project("green"));
  await deployment.settles(pushed);
  expect(await world.cluster.data("settings")).toEqual({ color: "green" });
  expect(await readiness(towline)).toMatchObject({ status: 200 });
  expect(await pull.comments()).toEqual([]);

  proxy.clear();
  await pull.comment("more");
  await resolves(host, pull.head);
  await resolves(host, pushed);
});

test("a forge that asks for a pause gets no requests before it is over", async () => {
  const world = await useWorld();
  const host = await usePullRequestHost();
  const proxy = await useForgeProxy(`${host.gitea.login.url}/api/v1`);
  const variables = { ...giteaVariables(host.gitea), TOWLINE_GITEA_API_URL: proxy.apiUrl };
  await host.tell(await useTowline(world, variables));
  const { project, deployment } = await useShop(world, host);
  await deployment.settles();
  const pull = await host.open(project("blue"));
  await pull.comment("blue");
  await resolves(host, pull.head);

  const requests: { readonly at: number; readonly url: string }[] = [];
  const ofThePause = () => requests.filter(({ at }) => at < (requests[0]?.at ?? Infinity) + 6_000);
  proxy.fail(({ url = "" }, res) => {
    requests.push({ at: performance.now(), url });
    res.writeHead(429, { "retry-after": "6" }).end();
  });
  const head = await pull.push(project("green"));
  await expect.poll(() => requests.length, patience).toBeGreaterThan(0);
  // Other events do not cause requests meanwhile.
  const other = await host.open({ README: "shop\n" });
  const pushed = await host.repo.push({ LICENSE: "none\n" });
  await deployment.settles(pushed);
  await expect.poll(() => requests.length - ofThePause().length, patience).toBeGreaterThan(0);
  // Requests that were in flight when the forge asked for the pause: at most one for each of the jobs at work.
  expect(ofThePause().length).toBeLessThanOrEqual(3);
  const others = ofThePause().filter(({ url }) => [other.head, pushed].some((commit) => url.includes(commit)));
  expect(others).toEqual([]);

  proxy.clear();
  await pull.comment("green");
  for (const commit of [head, other.head, pushed]) await resolves(host, commit);
});
