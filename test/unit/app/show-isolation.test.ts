/** When the log and the metrics report how previews are isolated. */
import { expect, test } from "vitest";
import { showIsolation } from "../../../src/app/show-isolation.ts";
import { loadConfig } from "../../../src/config.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { collectLogs } from "../../support/fake-kluctl.ts";

const provided = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "Landlock" };

test.each([
  ["without previews, isolation is not logged", {}, [], "0"],
  [
    "with previews, isolation is logged",
    { TOWLINE_PREVIEW_ENABLED: "true" },
    [["previews are confined", undefined]],
    "0",
  ],
  [
    "with previews of forks, their isolation is logged as well",
    { TOWLINE_PREVIEW_ENABLED: "true", TOWLINE_PREVIEW_FORKS: "isolated" },
    [["previews are confined", "isolated"]],
    "1",
  ],
])("%s", async (_name, env: Record<string, string>, said, forksIsolated) => {
  const { config } = loadConfig({ env, readFile: () => "" });
  const metrics = createMetrics({ readQueue: () => Promise.resolve({}), sweepAge: () => 0, watchAge: () => 0 });
  const { log, lines } = collectLogs();
  showIsolation({ mode: "required", provided, missing: {} }, { config, metrics, log });
  expect(lines.map(({ msg, forks }) => [msg, forks])).toEqual(said);
  expect(/^towline_preview_forks_isolated (\d)$/m.exec(await metrics.registry.metrics())?.[1]).toBe(forksIsolated);
});
