/** A token that changes while the server runs, and an API that records the token of each request. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { openLiveForges } from "../../../src/app/live-forges.ts";
import { startReload } from "../../../src/app/reload.ts";
import { createLiveConfig } from "../../../src/config/live.ts";
import { parseConfig } from "../../../src/config.ts";
import { createSecretList } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

async function useApi() {
  const logins: (string | undefined)[] = [];
  const server = createServer((req, res) => {
    logins.push(req.headers.authorization);
    res.setHeader("Content-Type", "application/json").end("[]");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { logins, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1` };
}

test("requests to a forge use the new token as soon as its file contains it, and logs redact it before that", async () => {
  const api = await useApi();
  const files = new Map([["/run/secrets/token", "the-first-token"]]);
  const load = () =>
    parseConfig({
      env: {
        TOWLINE_GITEA_API_URL: api.url,
        TOWLINE_GITEA_TOKEN_FILE: "/run/secrets/token",
        TOWLINE_GITEA_WEBHOOK_SECRET: "a-webhook-secret-1",
      },
      readFile: (path) => files.get(path) ?? "",
    });
  const deps = { metrics: createMetrics(), clock: { now: () => Date.now() }, log: silentLog };
  const live = createLiveConfig(load());
  const { forges } = await openLiveForges(live, deps);
  const secrets = createSecretList([]);
  const reading = { load, secrets, everyMs: 20 };
  onTestFinished(startReload({ live, reading, ...deps }));

  await forges.get("gitea")?.openPullRequests("org/shop");
  files.set("/run/secrets/token", "the-second-token");
  await vi.waitFor(async () => {
    await forges.get("gitea")?.openPullRequests("org/shop");
    expect(api.logins.at(-1)).toBe("token the-second-token");
  }, patience);
  expect(api.logins[0]).toBe("token the-first-token");
  expect(secrets.scrub("the-second-token")).toBe("***");
});
