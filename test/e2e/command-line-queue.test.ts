/** What `towline get queue` and the page's queue show about failed jobs. */
import { expect, test, vi } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { pageBearer, pageToken } from "../support/page.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, useTowline } from "../support/towline.ts";
import { useGitServer, useWorld } from "../support/world.ts";

interface ShownJob {
  readonly subject: string;
  readonly state: string;
  readonly tries: number;
  readonly why?: string;
  readonly nextAt?: string | number;
}

test("the queue shows why a job failed and when it is retried, on the command line and on the page", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const git = await useGitServer();
  const withPage = { TOWLINE_PAGE_HOST: "127.0.0.1", TOWLINE_PAGE_PORT: "0", TOWLINE_PAGE_TOKEN: pageToken };
  const server = await useTowline(world, withPage);
  const env = environment(world);
  const queue = async (): Promise<ShownJob[]> =>
    JSON.parse((await commandLine(["get", "queue", "-n", namespace, "-o", "json"], { env })).out) as ShownJob[];

  const broken = await git.repo("broken");
  await broken.push(aProject({ namespace, data: { color: "{{ no_such_variable.color }}" } }));
  await cluster.deployment("broken").create(aSpec(broken.url, { retryInterval: "30m" }));
  await cluster.deployment("broken").settles();
  const gone = await git.repo("gone");
  await gone.push(aProject({ namespace, name: "gone" }));
  const { url } = gone;
  await git.stop();
  await cluster.deployment("gone").create(aSpec(url));

  const failed = async () => (await queue()).find(({ subject }) => subject === `reconcile:${namespace}/broken`);
  await vi.waitFor(async () => expect(await failed()).toMatchObject({ state: "failed" }), patience);
  expect((await failed())?.why).toContain("no_such_variable");
  const inHalfAnHour = Date.parse(String((await failed())?.nextAt)) - Date.now();
  expect(inHalfAnHour).toBeGreaterThan(20 * 60_000);
  expect(inHalfAnHour).toBeLessThan(31 * 60_000);

  // A transient failure is retried soon, and the queue shows its reason in between.
  await vi.waitFor(async () => {
    const trying = (await queue()).find(({ subject }) => subject === `reconcile:${namespace}/gone`);
    expect(trying).toMatchObject({ state: "delayed", why: expect.stringContaining("cannot read") as string });
    expect(trying?.tries).toBeGreaterThan(0);
    expect(Date.parse(String(trying?.nextAt)) - Date.now()).toBeLessThan(30_000);
  }, patience);

  const shown = await commandLine(["get", "queue", "-o", "wide"], { env });
  expect(shown).toMatchObject({ code: 0, err: "" });
  expect(shown.out).toMatch(/^LANE +SUBJECT +STATE +AGE +TRIES +NEXT +WHY\n/);
  expect(shown.out).toMatch(
    new RegExp(`reconcile +reconcile:${namespace}/broken +failed +\\S+ +\\d +in \\d+m +.*no_such_variable`),
  );
  const page = await fetch(`${server.pageUrl}/api/queue`, { headers: pageBearer });
  const { jobs } = (await page.json()) as { jobs: ShownJob[] };
  expect(jobs.find(({ subject }) => subject === `reconcile:${namespace}/broken`)).toMatchObject({
    state: "failed",
    why: expect.stringContaining("no_such_variable") as string,
    nextAt: expect.any(Number) as number,
  });
});
