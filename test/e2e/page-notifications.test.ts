/** The page's view of notifications, with a real server, a real deploy and a target that does not answer. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { stringify } from "yaml";
import { examine } from "../support/chromium.ts";
import { openPage, usePageServer } from "../support/page-build.ts";
import { pageBearer } from "../support/page.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { uniqueName, useWorld } from "../support/world.ts";

async function useTarget(status: number): Promise<string> {
  const server = createServer(
    (request, response) => void request.resume().on("end", () => response.writeHead(status).end()),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/d4c3b2a1d4c3b2a1`;
}

test("the page shows what each target was sent, and why one receives nothing", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const [well, away] = await Promise.all([useTarget(204), useTarget(503)]);
  const config = join(world.dir, "notifications.yaml");
  const [team, other] = [uniqueName("team"), uniqueName("other")];
  const targets = [
    { id: team, kind: "webhook", url: well },
    { id: other, kind: "webhook", url: away },
  ];
  await writeFile(config, stringify({ notifications: { targets } }));
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, data: { color: "red" } }));
  const server = await usePageServer(world, { TOWLINE_CONFIG: config, TOWLINE_CONTROLLER_NAMESPACE: namespace });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  // What is true before is no news.
  await vi.waitFor(async () => {
    const { items } = await world.cluster.core.listNamespacedConfigMap({ namespace });
    expect(items.filter(({ metadata }) => metadata?.name?.startsWith("towline-notified-"))).toHaveLength(2);
  }, patience);

  const { page, trouble } = await openPage(server, "/#/notifications");
  await page.getByRole("heading", { name: team }).waitFor();
  const broken = await repo.push({ "app/settings.yml": "kind: ConfigMap\n" }, { message: "<img src=x onerror=hit()>" });
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: broken })).status).toBe(202);
  await page.getByText(`${namespace}/shop: ${broken.slice(0, 7)} failed`).waitFor();
  await page.getByText("response status 503. The next try is").waitFor();
  await page.getByText("Still needs attention: 1").waitFor();
  await examine(page, "notifications");
  expect(trouble).toEqual([]);

  const shown = await (await fetch(`${server.pageUrl}/api/notifications`, { headers: pageBearer })).text();
  expect(JSON.parse(shown)).toMatchObject([
    { target: team, open: 1 },
    { target: other, recent: [] },
  ]);
  expect(shown).not.toContain("d4c3b2a1");
});
