/** When the log and the metrics report how previews are isolated. */
import { expect, test } from "vitest";
import { createShowIsolation } from "../../../src/app/show-isolation.ts";
import { loadConfig } from "../../../src/config.ts";
import { createLiveConfig } from "../../../src/config/live.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { collectLogs } from "../../support/fake-kluctl.ts";

const provided = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "Landlock" };
const configOf = (env: Record<string, string>) => loadConfig({ env, readFile: () => "" }).config;

test("isolation is logged again when previews or forks are switched on, and not for other changes", async () => {
  const live = createLiveConfig(configOf({}));
  const metrics = createMetrics({ readQueue: () => Promise.resolve({}), sweepAge: () => 0, watchAge: () => 0 });
  const { log, lines } = collectLogs();
  const show = createShowIsolation({ live, metrics, log });
  const gauge = async () => /^towline_preview_forks_isolated (\d)$/m.exec(await metrics.registry.metrics())?.[1];
  const said = () => lines.map(({ msg, forks }) => [msg, forks]);

  show({ mode: "required", provided, missing: {} });
  expect(said()).toEqual([]);
  expect(await gauge()).toBe("0");

  const on = { TOWLINE_PREVIEW_ENABLED: "true" };
  await live.change(configOf(on));
  expect(said()).toEqual([["previews are confined", undefined]]);
  await live.change(configOf({ ...on, TOWLINE_PREVIEW_FORKS: "isolated" }));
  expect(said().slice(1)).toEqual([["previews are confined", "isolated"]]);
  expect(await gauge()).toBe("1");
  await live.change(configOf({ ...on, TOWLINE_PREVIEW_FORKS: "isolated", TOWLINE_CLUSTER_NAME: "eu-1" }));
  expect(said()).toHaveLength(2);
});
