/**
 * A server with warm renderers, as a separate process that a test can kill: `node warm-server.ts <directory> <kluctl>
 * <kubeconfig> <cache> <project> <next project>`. Its renderers are warm for the second project.
 */
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { collectLogs, newKluctl, newRun, noDiffOptions } from "./fake-kluctl.ts";

const [here = "", binary = "", kubeconfig = "", cacheDir = "", projectDir = "", nextDir = ""] = argv.slice(2);
const { log, lines } = collectLogs();
const kluctl = newKluctl(here, {
  binary,
  cacheDir,
  kubeconfigFor: () => readFileSync(kubeconfig, "utf8"),
  log,
  warm: true,
});
const { signal } = new AbortController();
await kluctl.diff(newRun({ projectDir }), noDiffOptions, signal);
while (!lines.some(({ msg }) => msg === "kluctl's renderers are kept warm")) await delay(20);
await kluctl.diff(newRun({ projectDir: nextDir }), noDiffOptions, signal);
