/** Live logs and diffs on the page: in a real Chromium, with a real server. */
import { expect, test, vi } from "vitest";
import { examine } from "../support/chromium.ts";
import { openPage, usePageServer } from "../support/page-build.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

const [oldPassword, newPassword] = ["correct-horse-battery", "staple-horse-battery"];

test("kluctl's log is shown live, changes are shown side by side, and neither contains secrets", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const server = await usePageServer(world);
  await repo.push(project(namespace, { color: "red", password: oldPassword }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const { page, trouble } = await openPage(server, `/#/deployments/${namespace}/shop`);
  await page.getByRole("heading", { name: `${namespace}/shop` }).waitFor();
  const log = page.getByRole("log").first();
  await log
    .getByText(/done after/)
    .first()
    .waitFor();

  // While kluctl runs.
  const waiting = { "stuck.yml": aDeployment(namespace) };
  const second = await repo.push(project(namespace, { color: "blue", password: newPassword, objects: waiting }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: second })).status).toBe(202);
  await log
    .getByText(/to get ready/)
    .first()
    .waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator("h1").getByText("In progress").waitFor();
  await examine(page, "log");
  await world.cluster.patch({
    ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "stuck" } },
    ...{ spec: { template: { spec: { nodeSelector: null } } } },
  } as object);
  await deployment.settles(second);
  await vi.waitFor(
    async () => expect(await page.locator(".log .line", { hasText: /deploy done after/ }).count()).toBe(2),
    patience,
  );
  await page.getByText("live", { exact: true }).waitFor({ state: "hidden" });

  // Side by side, also after a reload.
  const result = page.locator(".result").first();
  await result.getByText("data.color").waitFor();
  await page.getByRole("button", { name: "Side by side" }).first().click();
  await result.getByRole("table", { name: "Changes in data.color" }).waitFor();
  await page.reload();
  const color = result.getByRole("table", { name: "Changes in data.color" }).getByRole("row").nth(1);
  await vi.waitFor(
    async () => expect(await color.getByRole("cell").allTextContents()).toEqual(["-red", "+blue"]),
    patience,
  );
  await result.getByText(/Show all \d+ lines/).click();
  await result.getByText("line 150 blue").waitFor();
  await result.getByText("data.color").scrollIntoViewIfNeeded();
  await examine(page, "diff");
  await page.setViewportSize({ width: 380, height: 760 });
  await result.getByRole("group", { name: "Changes in data.color" }).waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(380);
  await result.getByText("data.color").scrollIntoViewIfNeeded();
  await examine(page, "diff-phone");

  for (const text of [await page.content(), await log.textContent()]) {
    expect(text).not.toMatch(/horse-battery/);
    expect(text).not.toContain(Buffer.from(newPassword).toString("base64"));
  }
  expect(trouble).toEqual([]);
});

interface Contents {
  readonly color: string;
  readonly password: string;
  readonly objects?: Readonly<Record<string, object>>;
}

function project(namespace: string, { color, password, objects = {} }: Contents) {
  const long = Array.from({ length: 200 }, (_, n) => `line ${n}${n % 3 === 0 ? ` ${color}` : ""}`).join("\n");
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace }, stringData: { password } };
  return aProject({ namespace, data: { color, long }, objects: { "secret.yml": secret, ...objects } });
}

/** A Deployment whose pods get ready once they may run on any node; kluctl waits for it. */
function aDeployment(namespace: string): object {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "stuck", namespace, annotations: { "kluctl.io/wait-readiness": "true" } },
    spec: {
      selector: { matchLabels: { app: "stuck" } },
      template: {
        metadata: { labels: { app: "stuck" } },
        spec: { nodeSelector: { nowhere: "1" }, containers: [{ name: "app", image: "registry.example/app" }] },
      },
    },
  };
}
